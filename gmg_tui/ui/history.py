"""The last minutes of a worker's figures, one point a second, for the small graphs."""

from __future__ import annotations

from collections import deque
from itertools import islice

from gmg_tui.model import GpuReading, Series, Worker, WorkerState

KEPT_S = 900
"""How many seconds a history reaches back."""


class History:
    """Figures of one worker at every second, the newest last; None where a figure was not known.

    Attributes:
        end: Unix time of the newest point, whole seconds; 0 before the first.
        fps: Environment steps per second, as printed.
        util_pct: Utilisation of the worker's card; of one core by the process tree on a CPU slot.
        fps_max: Greatest FPS seen, which is the top of the scale; 0 before the first.
    """

    def __init__(self) -> None:
        self.end = 0
        self.fps: deque[float | None] = deque(maxlen=KEPT_S)
        self.util_pct: deque[float | None] = deque(maxlen=KEPT_S)
        self.fps_max = 0.0

    def seed(self, series: Series) -> None:
        """Begin with what the engine remembers of the time before this client came."""
        repeats = max(1, round(series.step_s))
        for fps, util in zip(series.fps, series.gpu_util_pct, strict=False):
            for _ in range(repeats):
                self._append(fps, util)
        self.end = int(series.end)

    def add(self, time: float, worker: Worker, reading: GpuReading | None) -> None:
        """Take in what a snapshot of the Unix time `time` says; the latest of a second counts.

        Seconds for which there was no snapshot carry on the point before: a snapshot comes when something changed.
        """
        fps = worker.fps.last if worker.fps and worker.state is WorkerState.RUNNING else None
        util = reading.gpu_util_pct if reading else worker.cpu_pct
        second = int(time)
        if self.fps and second > self.end:
            for _ in range(min(second - self.end - 1, KEPT_S)):
                self._append(self.fps[-1], self.util_pct[-1])
        if second > self.end:
            self._append(fps, util)
            self.end = second
        elif self.fps:
            self.fps[-1], self.util_pct[-1] = fps, util
            self.fps_max = max(self.fps_max, fps or 0.0)

    def _append(self, fps: float | None, util: float | None) -> None:
        self.fps.append(fps)
        self.util_pct.append(util)
        self.fps_max = max(self.fps_max, fps or 0.0)


def buckets(points: deque[float | None], end: int, width: int, seconds: int) -> list[float | None]:
    """The means of the last points over spans of `seconds`, at most `width` of them, oldest first.

    The spans are aligned to the clock, not to the newest point: a graph of them moves one cell every `seconds` and is
    the same in between, which is what makes it cheap on a slow line.

    Args:
        points: Figures at every second, the newest last.
        end: Unix time of the newest point, whole seconds.
        width: How many spans.
        seconds: Length of a span.
    """
    groups: list[list[float]] = []
    bucket = None
    for age, value in enumerate(islice(reversed(points), width * seconds)):
        if (end - age) // seconds != bucket:
            if len(groups) == width:
                break
            bucket = (end - age) // seconds
            groups.append([])
        if value is not None:
            groups[-1].append(value)
    return [sum(group) / len(group) if group else None for group in reversed(groups)]
