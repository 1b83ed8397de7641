"""A metric of one attempt over time and over the script's steps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct, structs

from gmg_tui.model.states import Moment

_MINIMISED = ("loss", "error", "cost", "perplexity", "regret")
"""Less is better of metrics whose names have these words."""
_FIRST = ("reward", "return", "success", "loss")
"""Metrics whose names have these words come first."""


class Point(NamedTuple):
    """A value of a metric."""

    time: Moment
    """Unix time, seconds."""
    step: int | None
    """The script's, such as its iteration; None if it names none."""
    value: float


class Broken(NamedTuple):
    """A metric that is NaN or infinite."""

    value: float
    finite: float | None
    """Its last finite value; None if it never had one."""
    at: str
    """The progress at which it broke, such as `iteration 212`; empty if unknown."""
    since: Moment = 0.0
    """Unix time, seconds."""


class Curve(Struct, frozen=True, omit_defaults=True):
    """A metric of one attempt, thinned evenly as it grows: the newest value is always there. All tuples are as long."""

    times: tuple[Moment, ...]
    """Unix time of each point, seconds."""
    steps: tuple[int | None, ...]
    """The script's step of each point, such as its iteration; None if it names none."""
    values: tuple[float | None, ...]
    """JSON, which has no NaN, has null for it and for infinity, but the store has what was reported."""
    count: int = 0
    """Count of the values that the script has reported."""
    lowest: Point | None = None
    """The first of the least finite values of all that were reported; None without any."""
    highest: Point | None = None

    def __post_init__(self) -> None:
        if not 0 < len(self.times) == len(self.steps) == len(self.values):
            raise ValueError("a curve has points, and as many times as steps and values")

    @property
    def points(self) -> Iterator[Point]:
        """The points, NaN if the script has reported that."""
        for time, step, value in zip(self.times, self.steps, self.values, strict=True):
            yield Point(time, step, math.nan if value is None else value)

    @property
    def last(self) -> float:
        """The newest value, NaN if the script has reported that."""
        return math.nan if self.values[-1] is None else self.values[-1]

    def best(self, name: str) -> Point | None:
        """Returns the highest value, or the lowest of a loss or an error; `name` is the metric's."""
        return best_of(name, (self.lowest, self.highest))

    def thinned(self, count: int) -> Curve:
        """Returns the curve with at most `count` points, the newest among them."""
        kept = evenly(len(self.times), count)
        return structs.replace(self, times=self.times[kept], steps=self.steps[kept], values=self.values[kept])


def evenly(size: int, count: int) -> slice:
    """Returns a slice of `size` items with at most `count`, the last among them; all of them if `count` is 0."""
    every = -(-size // count) if count else 1
    return slice(max(0, size - 1) % max(1, every), None, max(1, every))


def rank(name: str) -> int:
    """Returns the place of a metric among others, 0 for what a trainer wants to see first."""
    return next((place for place, word in enumerate(_FIRST) if word in name.lower()), len(_FIRST))


def best_of(name: str, points: Iterable[Point | None]) -> Point | None:
    """Returns the first point with the highest value, of a loss or an error with the lowest; None without any."""
    sign = -1 if any(word in name.lower() for word in _MINIMISED) else 1
    return max((point for point in points if point is not None), key=lambda point: sign * point.value, default=None)
