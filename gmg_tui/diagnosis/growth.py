"""Memory growth: a robust slope over the last half hour (Theil–Sen), and a forecast of when memory runs out."""

from collections import deque
from itertools import combinations
from statistics import median
from typing import NamedTuple

WINDOW_S = 1800.0
MIN_SPAN_S = 300.0
_STEP_S = 20.0
"""Seconds between two points."""
_MIN_POINTS = 12
_MIN_RISING = 0.8
"""Share of pairs of points that must rise."""
_MIN_LATE = 0.75
"""Share of the overall slope that the last third must have: a filling cache levels off."""
_MIN_GROWTH_MIB = 16.0
_MAX_FORECAST_S = 86_400.0


class Forecast(NamedTuple):
    """The rate of memory growth, and when memory will be full."""

    mib_per_min: float
    full_s: float
    """Seconds until memory is full."""


class Growth:
    """The memory use of an attempt, sampled evenly while it runs."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, float]] = deque(maxlen=int(WINDOW_S / _STEP_S) + 1)
        self._first_mib: float | None = None
        self._slope: float | None = None

    def add(self, time: float, mib: float | None) -> None:
        """Adds the memory in use at `time`, monotonic seconds."""
        if mib is None or (self._points and time - self._points[-1][0] < _STEP_S):
            return
        self._first_mib = mib if self._first_mib is None else min(self._first_mib, mib)
        self._points.append((time, mib))
        self._slope = _steady_slope(list(self._points))

    def forecast(self, room_mib: float | None) -> Forecast | None:
        """Forecasts when `room_mib` more will be in use; None unless growth is steady and already half-way there.

        Earlier, a leak looks like a buffer filling up.
        """
        if self._slope is None or room_mib is None or self._first_mib is None:
            return None
        full_s = max(0.0, room_mib) / self._slope
        grown_mib = self._points[-1][1] - self._first_mib
        is_close = grown_mib >= max(room_mib, _MIN_GROWTH_MIB) and full_s <= _MAX_FORECAST_S
        return Forecast(60 * self._slope, full_s) if is_close else None


def _steady_slope(points: list[tuple[float, float]]) -> float | None:
    """Returns the slope in MiB per second of points that rise steadily; None for all others."""
    if len(points) < _MIN_POINTS or points[-1][0] - points[0][0] < MIN_SPAN_S:
        return None
    slopes = _slopes(points)
    slope = median(slopes)
    late = median(_slopes(points[-len(points) // 3 :]))
    rising = sum(each > 0 for each in slopes) / len(slopes)
    return slope if slope > 0 and rising >= _MIN_RISING and late >= _MIN_LATE * slope else None


def _slopes(points: list[tuple[float, float]]) -> list[float]:
    return [(there - here) / (later - now) for (now, here), (later, there) in combinations(points, 2) if later > now]
