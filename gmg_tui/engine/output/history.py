"""A slot's history in bounded memory: the last few minutes in full, the whole session in coarser steps."""

import math
from array import array
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from msgspec import structs

from gmg_tui.model import Series

STEP_S = 1.0
RECENT_POINTS = 300
_MAX_POINTS = 720
"""Maximum points of the overall history, which are 8 s apart after an hour and 128 s apart after a day."""


class Point(NamedTuple):
    """Figures at one point in time."""

    fps: float | None
    gpu_util_pct: float | None
    memory_used_mib: float | None
    power_w: float | None
    sm_pct: float | None = None


class History:
    """The points of one slot, `STEP_S` apart."""

    def __init__(self) -> None:
        self._recent: deque[Point] = deque(maxlen=RECENT_POINTS)
        self._overall = [array("d") for _ in Point._fields]
        """The overall history, a column for each field, NaN if unknown; when full, neighbours are merged."""
        self._steps_per_point = 1
        """Steps per point of the overall history."""
        self._pending: list[Point] = []
        """Steps collected for the overall history's next point."""
        self._end = 0.0
        """Unix time of the newest step, seconds."""

    def add(self, time: float, point: Point) -> None:
        """Adds the point of the next step; `time` is its Unix time in seconds."""
        self._end = time
        self._recent.append(point)
        self._pending.append(point)
        if len(self._pending) < self._steps_per_point:
            return
        for column, (first, *others) in zip(self._overall, zip(*self._pending, strict=True), strict=True):
            column.append(_mean((first, *others)) if others else math.nan if first is None else first)
        self._pending.clear()
        if len(self._overall[0]) >= _MAX_POINTS:
            self._overall = [
                array("d", map(_mean, zip(column[::2], column[1::2], strict=True))) for column in self._overall
            ]
            self._steps_per_point *= 2

    def recent(self, slot: str) -> Series:
        """Returns the last `RECENT_POINTS` steps."""
        return _series(slot, self._end, STEP_S, zip(*self._recent, strict=True))

    def overall(self, slot: str) -> Series:
        """Returns the overall history, up to its last complete point."""
        columns = [[None if math.isnan(value) else value for value in column] for column in self._overall]
        return _series(slot, self._end - STEP_S * len(self._pending), STEP_S * self._steps_per_point, columns)


def _mean(values: Iterable[float | None]) -> float:
    """Returns the mean of the values; NaN if there are none."""
    numbers = [value for value in values if value is not None and not math.isnan(value)]
    return sum(numbers) / len(numbers) if numbers else math.nan


def _series(slot: str, end: float, step_s: float, columns: Iterable[Iterable[float | None]]) -> Series:
    series = Series(slot, end, step_s, *map(tuple, columns))
    # Few GPUs report their SM use: send nothing for the others.
    return series if any(value is not None for value in series.sm_pct) else structs.replace(series, sm_pct=())
