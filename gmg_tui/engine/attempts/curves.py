"""Keeps every metric of an attempt over time and steps, within bounds."""

import math
from collections.abc import Iterable

from gmg_tui.engine.clock import unix
from gmg_tui.model import Broken, Curve, Point
from gmg_tui.model.curves import evenly
from gmg_tui.scripts.probe.reports import Metric

MAX_NAMES = 256
MAX_POINTS = 400
"""Points of a curve; when it has as many, every other one goes, and the next are twice as far apart."""
MIN_INTERVAL_S = 1.0


class _Points:
    """The points of one metric; the last one is replaced until it is far enough from the one before."""

    __slots__ = ("count", "finite", "highest", "interval_s", "lowest", "points")

    def __init__(self) -> None:
        self.points: list[Metric] = []
        self.finite: float | None = None
        self.lowest: Metric | None = None
        self.highest: Metric | None = None
        self.count, self.interval_s = 0, MIN_INTERVAL_S

    def add(self, value: Metric) -> None:
        self.count += 1
        if math.isfinite(value.value):
            self.finite = value.value
            if self.lowest is None or value.value < self.lowest.value:
                self.lowest = value
            if self.highest is None or value.value > self.highest.value:
                self.highest = value
        points = self.points
        if len(points) > 1 and points[-1].at - points[-2].at < self.interval_s:
            points.pop()
        points.append(value)
        if len(points) > MAX_POINTS:
            points[:-1] = points[:-1:2]
            self.interval_s *= 2

    def view(self, shift_s: float, count: int) -> Curve:
        """Returns the curve in at most `count` points, all if 0; `shift_s` is the Unix time of monotonic 0."""
        _, values, steps, moments = zip(*self.points[evenly(len(self.points), count)], strict=True)
        low, high = (
            None if of is None else Point(round(of.at + shift_s, 3), of.step, of.value)
            for of in (self.lowest, self.highest)
        )
        return Curve(tuple([round(at + shift_s, 3) for at in moments]), steps, values, self.count, low, high)


class Curves:
    """The curves of one attempt by name; of more than `MAX_NAMES` the first ones.

    Attributes:
        broken: The metrics that are not finite now, the first that broke first.
    """

    def __init__(self) -> None:
        self.broken: dict[str, Broken] = {}
        self._points: dict[str, _Points] = {}

    def add(self, values: Iterable[Metric], unit: str = "step") -> None:
        """Adds values in the order in which they were reported; `unit` is that of their steps."""
        for value in values:
            if (points := self._points.get(value.name)) is None:
                if len(self._points) >= MAX_NAMES:
                    continue
                points = self._points[value.name] = _Points()
            points.add(value)
            if math.isfinite(value.value):
                self.broken.pop(value.name, None)
            elif value.name not in self.broken:
                at = f"{unit} {value.step:,}" if value.step is not None else ""
                self.broken[value.name] = Broken(value.value, points.finite, at, unix(value.at))

    @property
    def newest(self) -> dict[str, float | None]:
        """The newest value of each metric."""
        return {name: of.points[-1].value for name, of in self._points.items()}

    def view(self, name: str = "", count: int = 0) -> dict[str, Curve]:
        """Returns the curves by name, or that of one metric; with a `count`, each with at most as many points."""
        shift_s = unix(0.0)
        return {each: of.view(shift_s, count) for each, of in self._points.items() if name in ("", each)}
