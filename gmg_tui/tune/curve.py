"""The measured curve: where it is highest, where something higher may hide, and where it crosses a share of it.

A step of n environments takes a time t(n), which hardly ever grows slower further on: flat at first, then in proportion,
with a step up here or there. `t = n / rate` is that time but for its unit, so that a straight line through two measured
points is the least that it can be beyond them, and n by that line the most that a rate can be.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

_APART = 1.8
"""Points are so far from each other at least, that their rates' noise does not make the line."""


class Point(NamedTuple):
    """A value that was measured."""

    value: int
    score: float
    """Its rate, such that more is better."""

    @property
    def time(self) -> float:
        """Of a step, in a unit of its own."""
        return self.value / self.score


class Curve:
    """The points, by value."""

    def __init__(self, points: Iterable[Point]) -> None:
        self.points = tuple(sorted(points))

    @property
    def best(self) -> Point:
        """The fastest; ValueError without points."""
        return max(self.points, key=lambda point: (point.score, -point.value))

    @property
    def top(self) -> Point:
        """That of the greatest value."""
        return self.points[-1]

    def gain(self) -> float:
        """What the best of the last two doublings brought, as a share; infinite where there were fewer."""
        steps = [self._best_until(self.top.value / part) for part in (1, 2, 4)]
        if steps[2] <= 0:
            return math.inf
        return max(steps[0] / steps[1], steps[1] / steps[2]) - 1

    def promise(self, index: int, end: int) -> float:
        """The highest score that can hide between this point and `end`."""
        point = self.points[index]
        clearly = [other for other in self.points if other.value * _APART <= point.value]
        before = clearly[-1] if clearly else self.points[0]
        slope = 0.0 if before == point else max(0.0, (point.time - before.time) / (point.value - before.value))
        return max(point.score, end / (point.time + slope * (end - point.value)))

    def crossing(self, index: int, target: float) -> float:
        """Where the line of the time between this point, below the target, and the next, above it, reaches the target."""
        below, above = self.points[index], self.points[index + 1]
        slope = (above.time - below.time) / (above.value - below.value)
        where = (below.time - slope * below.value) / (1 / target - slope)
        return min(max(where, below.value), above.value)

    def _best_until(self, value: float) -> float:
        return max((point.score for point in self.points if point.value <= value), default=0.0)


def grain(value: float) -> int:
    """What values of this size are multiples of: 1 up to 127, 64 at 4,096, 256 at 16,384; at most 1.6 % of the value."""
    return 1 << max(0, math.floor(math.log2(max(value, 1))) - 6)


def rounded(value: float) -> int:
    """The nearest value that a person would type."""
    return round(value / grain(value)) * grain(value)


def rounded_down(value: float) -> int:
    """The greatest value that a person would type, not above `value`."""
    return math.floor(value / grain(value)) * grain(value)


def between(low: int, high: int, count: int = 1) -> list[int]:
    """Up to `count` values strictly between the two, evenly spaced in their logarithm; none where none has room."""
    ratio = (high / low) ** (1 / (count + 1))
    values = {rounded(low * ratio**step) for step in range(1, count + 1)}
    return sorted(value for value in values if low < value < high)
