"""The measured curve: its maximum, and bounds for values between and beyond the points.

A step of n environments takes a time t(n) = n / rate, which is flat at first, then grows in proportion, with occasional
jumps, and hardly ever grows more slowly. A straight line through two measured points is therefore a lower bound of t beyond
them, and n divided by it an upper bound of the rate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

_MIN_RATIO = 1.8
"""The smallest ratio of two values for a line through their points: between nearer ones it would be noise."""


class Point(NamedTuple):
    """A measured value."""

    value: int
    score: float
    """The rate; higher is better."""

    @property
    def time(self) -> float:
        """The time of a step, in arbitrary units."""
        return self.value / self.score


class Curve:
    """The measured points, by value."""

    def __init__(self, points: Iterable[Point]) -> None:
        self.points = tuple(sorted(points))

    @property
    def best(self) -> Point:
        """The fastest point; ValueError without points."""
        return max(self.points, key=lambda point: (point.score, -point.value))

    @property
    def top(self) -> Point:
        """The point of the largest value."""
        return self.points[-1]

    def gain(self) -> float:
        """Returns the relative gain of the better of the last two doublings; infinite if there were fewer."""
        steps = [self._best_until(self.top.value / part) for part in (1, 2, 4)]
        if steps[2] <= 0:
            return math.inf
        return max(steps[0] / steps[1], steps[1] / steps[2]) - 1

    def promise(self, index: int, end: int) -> float:
        """Returns the upper bound of scores between a point and the value `end`."""
        point = self.points[index]
        clearly = [other for other in self.points if other.value * _MIN_RATIO <= point.value]
        before = clearly[-1] if clearly else self.points[0]
        slope = 0.0 if before == point else max(0.0, (point.time - before.time) / (point.value - before.value))
        return max(point.score, end / (point.time + slope * (end - point.value)))

    def _best_until(self, value: float) -> float:
        return max((point.score for point in self.points if point.value <= value), default=0.0)


def rounded_down(value: float, *, nearest: bool = False) -> int:
    """Rounds down, or to the nearest, to a value that a person would type.

    It is a multiple of a power of two of at most 1.6 %: of 64 at 4,096, of 256 at 16,384, of 1 up to 127.
    """
    grain = 1 << max(0, math.floor(math.log2(max(value, 1))) - 6)
    return math.floor(value / grain + nearest / 2) * grain


def between(low: int, high: int, count: int = 1) -> list[int]:
    """Returns up to `count` values strictly between the two, evenly spaced by their logarithm."""
    ratio = (high / low) ** (1 / (count + 1))
    values = {rounded_down(low * ratio**step, nearest=True) for step in range(1, count + 1)}
    return sorted(value for value in values if low < value < high)
