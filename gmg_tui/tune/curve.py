"""The measured curve: where it is highest, where something higher may hide, and where it crosses a share of it.

A step of n environments takes a time t(n), which hardly ever grows slower further on: flat at first, then in proportion,
with a step up here or there. `t = n / rate` is that time but for its unit, so that a straight line through two measured
points is the least that it can be beyond them, and n by that line the most that a rate can be.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

_APART = 1.8
"""Points are so far from each other at least, that their rates' noise does not make the line."""
_LESS = 0.05
"""A doubling that brings less is not worth it."""
_PROPORTIONAL = 2 / 3
"""The share of its rate per value that a value keeps from one of the ladder to the next while it grows nearly in proportion."""


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

    def ranking(self) -> list[Point]:
        """The fastest first."""
        return sorted(self.points, key=lambda point: (-point.score, point.value))

    def proportional(self) -> bool:
        """Whether the rate still grows nearly in proportion at the top."""
        if len(self.points) < 2:
            return True
        before, top = self._before(self.top), self.top
        return top.score / top.value >= _PROPORTIONAL * before.score / before.value

    def saturated(self) -> bool:
        """Whether two doublings in a row up to the top brought less than 5 % each, or made it slower."""
        steps = [self._best_until(self.top.value / part) for part in (1, 2, 4)]
        return steps[2] > 0 and all(more < less * (1 + _LESS) for more, less in pairwise(steps))

    def promise(self, index: int, end: int) -> float:
        """The highest score that can hide between this point and `end`."""
        point = self.points[index]
        before = self._before(point)
        slope = 0.0 if before == point else max(0.0, (point.time - before.time) / (point.value - before.value))
        return max(point.score, end / (point.time + slope * (end - point.value)))

    def crossing(self, index: int, target: float) -> float:
        """Where the line of the time between this point, below the target, and the next, above it, reaches the target."""
        below, above = self.points[index], self.points[index + 1]
        slope = (above.time - below.time) / (above.value - below.value)
        where = (below.time - slope * below.value) / (1 / target - slope)
        return min(max(where, below.value), above.value)

    def _before(self, point: Point) -> Point:
        """The nearest point that is clearly smaller, or else the smallest."""
        clearly = [other for other in self.points if other.value * _APART <= point.value]
        return clearly[-1] if clearly else self.points[0]

    def _best_until(self, value: float) -> float:
        return max((point.score for point in self.points if point.value <= value), default=-math.inf)
