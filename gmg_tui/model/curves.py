"""A metric of one attempt over time and over the script's steps."""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec import Struct


class Curve(Struct, frozen=True, omit_defaults=True):
    """A metric of one attempt, thinned evenly as it grows: the newest value is always there. All tuples are as long."""

    times: tuple[float, ...] = ()
    """Unix time of each point, seconds."""
    steps: tuple[int | None, ...] = ()
    """The script's step of each point, such as its iteration; None if it names none."""
    values: tuple[float | None, ...] = ()
    """JSON, which has no NaN, has null for it and for infinity."""
    count: int = 0
    """Count of the values that the script has reported."""

    @property
    def points(self) -> Iterator[tuple[float, int | None, float]]:
        """Time, step and value of each point, NaN if the script has reported that."""
        for time, step, value in zip(self.times, self.steps, self.values, strict=True):
            yield time, step, math.nan if value is None else value
