"""Keeps an attempt's metrics over time and steps, in bounded memory."""

import math
from collections.abc import Iterable
from operator import attrgetter

from gmg_tui.engine.clock import unix
from gmg_tui.model import BrokenMetric, Curve, Point
from gmg_tui.model.curves import serious, thinning_slice
from gmg_tui.scripts.probe.reports import Metric

MAX_CURVES = 256
MAX_POINTS = 400
"""Maximum points of a curve; when full, every other one is dropped and the interval doubles."""
MIN_INTERVAL_S = 1.0
"""Seconds between two points of a new curve."""
MAX_VALUE = 1e300
"""Values beyond this count as infinite: their sums and differences would overflow."""

_value = attrgetter("value")


class _Points:
    """The points of one metric; the last is replaced until it is `interval_s` after the one before."""

    __slots__ = ("count", "highest", "interval_s", "last_finite", "lowest", "points")

    def __init__(self) -> None:
        self.points: list[Metric] = []
        self.last_finite: float | None = None
        self.lowest: Metric | None = None
        self.highest: Metric | None = None
        self.count, self.interval_s = 0, MIN_INTERVAL_S

    def add(self, metric: Metric) -> None:
        self.count += 1
        if math.isfinite(metric.value):
            self.last_finite = metric.value
            self.lowest = min(self.lowest or metric, metric, key=_value)
            self.highest = max(self.highest or metric, metric, key=_value)
        points = self.points
        if len(points) > 1 and points[-1].at - points[-2].at < self.interval_s:
            points.pop()
        points.append(metric)
        if len(points) > MAX_POINTS:
            points[:-1] = points[:-1:2]
            self.interval_s *= 2

    def view(self, shift_s: float, count: int) -> Curve:
        """Returns the curve with at most `count` points (0: all); `shift_s` is the Unix time at monotonic 0."""
        _, values, steps, moments = zip(*self.points[thinning_slice(len(self.points), count)], strict=True)
        low, high = (
            None if metric is None else Point(round(metric.at + shift_s, 3), metric.step, metric.value)
            for metric in (self.lowest, self.highest)
        )
        return Curve(tuple([round(at + shift_s, 3) for at in moments]), steps, values, self.count, low, high)


class Curves:
    """The curves of the first `MAX_CURVES` metrics of one attempt.

    Attributes:
        broken: Metrics whose newest value is not finite, by name, in the order they broke; also of those without a curve.
    """

    def __init__(self) -> None:
        self.broken: dict[str, BrokenMetric] = {}
        self._points: dict[str, _Points] = {}

    def add(self, metrics: Iterable[Metric], unit: str = "step") -> None:
        """Adds metrics in the order they were reported; `unit` names their steps."""
        for metric in metrics:
            if abs(metric.value) > MAX_VALUE:
                metric = metric._replace(value=math.copysign(math.inf, metric.value))
            points = self._points.get(metric.name)
            if points is None and len(self._points) < MAX_CURVES:
                points = self._points[metric.name] = _Points()
            if points is not None:
                points.add(metric)
            if math.isfinite(metric.value):
                self.broken.pop(metric.name, None)
            elif metric.name not in self.broken and len(self.broken) < MAX_CURVES:
                at = f"{unit} {metric.step:,}" if metric.step is not None else ""
                last_finite = points.last_finite if points is not None else None
                self.broken[metric.name] = BrokenMetric(metric.value, last_finite, at, unix(metric.at))

    @property
    def broken_since(self) -> float:
        """The Unix time since which the training is broken; infinity if it is not."""
        return broken[0][1].since if (broken := serious(self.broken)) else math.inf

    @property
    def newest(self) -> dict[str, float | None]:
        """The newest value of each metric."""
        return {name: points.points[-1].value for name, points in self._points.items()}

    def view(self, name: str = "", count: int = 0) -> dict[str, Curve]:
        """Returns the curve of metric `name` ("": of all), by name, with at most `count` points each (0: all)."""
        shift_s = unix(0.0)
        return {key: points.view(shift_s, count) for key, points in self._points.items() if name in ("", key)}
