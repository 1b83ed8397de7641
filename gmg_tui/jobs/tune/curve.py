"""The measured curve: where it is highest, and where something higher may hide.

A step of n environments takes a time t(n), which hardly ever grows slower further on: flat at first, then in proportion,
with a step up here or there. `t = n / rate` is that time but for its unit, so that a straight line through two measured
points is the least that it can be beyond them, and n by that line the most that a rate can be.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

_MIN_RATIO = 1.8
"""The smallest ratio of two values whose points make a line: between nearer ones it would be noise."""


class Point(NamedTuple):
    """A value that was measured."""

    value: int
    score: float
    """Its rate, such that more is better."""

    @property
    def time(self) -> float:
        """The time of a step, in a unit of its own."""
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
        """Returns the gain of the better of the last two doublings, as a share; infinite if there were fewer."""
        steps = [self._best_until(self.top.value / part) for part in (1, 2, 4)]
        if steps[2] <= 0:
            return math.inf
        return max(steps[0] / steps[1], steps[1] / steps[2]) - 1

    def promise(self, index: int, end: int) -> float:
        """The highest score that can hide between this point and `end`."""
        point = self.points[index]
        clearly = [other for other in self.points if other.value * _MIN_RATIO <= point.value]
        before = clearly[-1] if clearly else self.points[0]
        slope = 0.0 if before == point else max(0.0, (point.time - before.time) / (point.value - before.value))
        return max(point.score, end / (point.time + slope * (end - point.value)))

    def _best_until(self, value: float) -> float:
        return max((point.score for point in self.points if point.value <= value), default=0.0)


def rounded_down(value: float, *, nearest: bool = False) -> int:
    """The greatest value that a person would type, not above `value`; or the nearest one.

    A multiple of a power of two: of 64 at 4,096, of 256 at 16,384, at most 1.6 % of the value; of 1 up to 127.
    """
    grain = 1 << max(0, math.floor(math.log2(max(value, 1))) - 6)
    return math.floor(value / grain + nearest / 2) * grain


def between(low: int, high: int, count: int = 1) -> list[int]:
    """Up to `count` values strictly between the two, evenly spaced in their logarithm; none where none has room."""
    ratio = (high / low) ** (1 / (count + 1))
    values = {rounded_down(low * ratio**step, nearest=True) for step in range(1, count + 1)}
    return sorted(value for value in values if low < value < high)
