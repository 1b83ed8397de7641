"""A worker's metrics over time, in bounded memory: its whole life, the finer the nearer."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from typing import NamedTuple, Self

from gmg_tui.model import Fps, GpuSample, Series

STEP_S = 1.0
RECENT_POINTS = 300
_POINTS = 720
"""At most so many in each level."""
_SLACK = _POINTS // 8
"""So many more before the oldest go, all at once."""
_FINE = (1, 4, 32)
"""Steps of a point in each level that keeps the newest points only: the last 12 and 48 minutes, and 6 hours."""


class Point(NamedTuple):
    """Figures at one moment; None where not known."""

    fps: float | None
    gpu_util_pct: float | None
    memory_used_mib: float | None
    power_w: float | None
    sm_pct: float | None = None

    @classmethod
    def of(cls, fps: Fps | None, sample: GpuSample | None) -> Self:
        """A worker's rate and its GPU's figures."""
        if sample is None:
            return cls(fps.best_known if fps else None, None, None, None)
        figures = sample.gpu_util_pct, sample.memory_used_mib, sample.power_w, sample.sm_pct
        return cls(fps.best_known if fps else None, *figures)


class _Level:
    """Points of so many steps each, means of what is known: the newest ones.

    Attributes:
        per_point: How many steps a point stands for.
        columns: The values of the points, one column for each field; NaN where not known.
    """

    def __init__(self, per_point: int) -> None:
        self.per_point = per_point
        self.columns = tuple(array("d") for _ in Point._fields)
        self._begin()

    def _begin(self) -> None:
        self._steps = 0
        self._sums = [0.0] * len(self.columns)
        self._known = [0] * len(self.columns)

    def add(self, point: Point) -> None:
        """Add the point of one step."""
        self._steps += 1
        for place, value in enumerate(point):
            if value is not None:
                self._sums[place] += value
                self._known[place] += 1
        if self._steps >= self.per_point:
            for column, value in zip(self.columns, self._means(), strict=True):
                column.append(value)
            self._begin()
            self._limit()

    def _means(self) -> Iterable[float]:
        pairs = zip(self._sums, self._known, strict=True)
        return [total / known if known else math.nan for total, known in pairs]

    def _limit(self) -> None:
        surplus = len(self.columns[0]) - _POINTS
        if surplus > _SLACK:
            for column in self.columns:
                del column[:surplus]

    def series(self, slot: str, end: float, first: int = 0) -> Series:
        """The points from the index `first` on, and what has come of the next; `end` is the Unix time of the last step."""
        columns = [column[first:] for column in self.columns]
        if self._steps:
            for column, value in zip(columns, self._means(), strict=True):
                column.append(value)
        if all(map(math.isnan, columns[-1])):
            columns[-1] = array("d")  # hardly any GPU reports its SMs: nothing is sent for the others
        known = (tuple(None if math.isnan(value) else value for value in column) for column in columns)
        return Series(slot, end, STEP_S * self.per_point, *known)


class _Whole(_Level):
    """Points over the whole life: where they are too many, neighbours become one, and the step doubles.

    So an hour is kept in steps of 8 s and a day in steps of 2 to 3 minutes.
    """

    def _limit(self) -> None:
        if len(self.columns[0]) >= _POINTS:
            self.columns = tuple(array("d", map(_mean, column[::2], column[1::2])) for column in self.columns)
            self.per_point *= 2


def _mean(one: float, other: float) -> float:
    if math.isnan(one):
        return other
    return one if math.isnan(other) else (one + other) / 2


class History:
    """The points of one worker, one each `STEP_S`: in full for the last minutes, at even steps for its whole life."""

    def __init__(self) -> None:
        self._fine = tuple(_Level(steps) for steps in _FINE)
        self._whole = _Whole(1)
        self._steps = 0
        self._end = 0.0

    def add(self, time: float, point: Point) -> None:
        """Add the point of this step; `time` is Unix time in seconds."""
        self._end = time
        self._steps += 1
        for level in (*self._fine, self._whole):
            level.add(point)

    def recent(self, slot: str) -> Series:
        """The last `RECENT_POINTS` steps."""
        level = self._fine[0]
        return level.series(slot, self._end, max(0, len(level.columns[0]) - RECENT_POINTS))

    def whole(self, slot: str) -> Series:
        """The worker's whole life."""
        return self._whole.series(slot, self._end)

    def since(self, slot: str, start: float) -> Series:
        """The worker's life from the Unix time `start` on, in the finest steps in which all of that is kept."""
        steps = min(self._steps, max(1, math.ceil((self._end - start) / STEP_S)))
        for level in self._fine:
            points = math.ceil(steps / level.per_point)
            if level.per_point < self._whole.per_point and points <= _POINTS:
                return level.series(slot, self._end, max(0, len(level.columns[0]) - points))
        return self.whole(slot)
