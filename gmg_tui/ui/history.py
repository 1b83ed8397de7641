"""The last minutes of a worker's metrics, one point per second, for the small graphs."""

from __future__ import annotations

from collections import deque
from itertools import islice

from gmg_tui.model import GpuSample, Series, Worker

KEPT_S = 900
"""How many seconds a history reaches back."""
METRICS = 8
"""How many of the metrics that a script names are remembered."""
METRIC_VALUES = 120
"""How many values of each."""
CARRIED_S = 3
"""Up to so many seconds without a snapshot repeat the point before; longer ones are a gap."""


class History:
    """Metrics of one worker at every second, the newest last; None where one was not known.

    Attributes:
        end: Unix time of the newest point, whole seconds; 0 before the first.
        fps: Environment steps per second: the rate at which the worker ran.
        util_pct: Utilisation of the worker's GPU; of one core by the process tree on a CPU slot.
        metrics: The last values of the metrics that the script names, without repetitions.
    """

    def __init__(self) -> None:
        self.end = 0
        self.fps: deque[float | None] = deque(maxlen=KEPT_S)
        self.util_pct: deque[float | None] = deque(maxlen=KEPT_S)
        self.metrics: dict[str, deque[float]] = {}

    def seed(self, series: Series) -> None:
        """Start with what the engine remembers from before this client connected."""
        for fps, util in zip(series.fps, series.gpu_util_pct, strict=False):
            self._append(fps, util, max(1, round(series.step_s)))
        self.end = int(series.end)

    def add(self, time: float, worker: Worker, sample: GpuSample | None) -> None:
        """Add a snapshot's values at the Unix time `time`; the latest of each second counts.

        A few seconds without a snapshot repeat the point before. More of them are a gap: the worker had ended, or
        the engine or this process stood still.
        """
        for name, value in worker.newest.metrics.items():
            if name not in self.metrics and len(self.metrics) == METRICS:
                continue
            values = self.metrics.setdefault(name, deque(maxlen=METRIC_VALUES))
            if not values or values[-1] != value:
                values.append(value)
        fps = worker.current_fps
        util = sample.gpu_util_pct if sample else worker.cpu_pct
        second = int(time)
        if second > self.end:
            missed = min(second - self.end - 1, KEPT_S)
            if self.fps and missed:
                carried = missed < CARRIED_S
                self._append(self.fps[-1] if carried else None, self.util_pct[-1] if carried else None, missed)
            self._append(fps, util)
            self.end = second
        elif self.fps:
            self.fps[-1], self.util_pct[-1] = fps, util

    def _append(self, fps: float | None, util: float | None, times: int = 1) -> None:
        self.fps.extend([fps] * times)
        self.util_pct.extend([util] * times)


def buckets(points: deque[float | None], end: int, width: int, seconds: int) -> list[float | None]:
    """The means of the last points over spans of `seconds`, at most `width` of them, oldest first.

    The spans are aligned to the clock, not to the newest point: a graph of them moves one cell every `seconds` and is
    the same in between, which is what makes it cheap on a slow line. `points` are values at every second, the newest
    last, at the Unix time `end` in whole seconds.
    """
    newest = end % seconds + 1  # points in the last span, which is not over
    latest = list(islice(reversed(points), newest + (width - 1) * seconds)) if width > 0 else []
    if not latest:
        return []
    spans = [latest[max(0, start) : start + seconds] for start in range(newest - seconds, len(latest), seconds)]
    means = []
    for span in reversed(spans):
        present = [value for value in span if value is not None]
        means.append(sum(present) / len(present) if present else None)
    return means
