"""A worker's figures over time, in bounded memory: the last minutes closely, its whole life evenly."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from gmg_tui.model import Series

STEP_S = 1.0
RECENT_POINTS = 300
_WHOLE_POINTS = 720


class Point(NamedTuple):
    """Figures at one moment; None where not known."""

    fps: float | None
    gpu_util_pct: float | None
    memory_used_mib: float | None
    power_w: float | None


class History:
    """The points of one worker, one each `STEP_S`.

    The whole life is kept in at most 720 points: when they are full, neighbours are joined to their mean and the step
    doubles, so an hour is kept in steps of 8 s and a day in steps of 2 to 3 minutes.
    """

    def __init__(self) -> None:
        self._recent: deque[Point] = deque(maxlen=RECENT_POINTS)
        self._whole: list[Point] = []
        self._per_point = 1
        self._pending: list[Point] = []
        self._end = 0.0

    def add(self, time: float, point: Point) -> None:
        """Take the point of this step; `time` is Unix time in seconds."""
        self._end = time
        self._recent.append(point)
        self._pending.append(point)
        if len(self._pending) < self._per_point:
            return
        self._whole.append(_joined(self._pending))
        self._pending.clear()
        if len(self._whole) >= _WHOLE_POINTS:
            pairs = zip(self._whole[::2], self._whole[1::2], strict=True)
            self._whole = [_joined(pair) for pair in pairs]
            self._per_point *= 2

    def recent(self, slot: str) -> Series:
        """The last `RECENT_POINTS` steps."""
        return _series(slot, self._end, STEP_S, self._recent)

    def whole(self, slot: str) -> Series:
        """The worker's whole life."""
        points = [*self._whole, _joined(self._pending)] if self._pending else self._whole
        return _series(slot, self._end, STEP_S * self._per_point, points)


def _joined(points: Iterable[Point]) -> Point:
    return Point(*(_mean(column) for column in zip(*points, strict=True)))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _series(slot: str, end: float, step_s: float, points: Iterable[Point]) -> Series:
    columns = tuple(zip(*points, strict=True)) or ((), (), (), ())
    return Series(slot, end, step_s, *columns)
