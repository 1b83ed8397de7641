"""How many steps a progress line may be of, and so how long it took: its rate is known nearly exactly."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

_LINE_S = 0.05
"""Genesis prints when steps have taken so long since the last line (`STEP_RATE_LOG_INTERVAL`)."""
STALLED = 0.7
"""A line below this share of the fast ones holds a stall."""
_UNEVEN = 1.1
"""A line's fastest steps, as a multiple of their mean."""
_NEARLY, _ONE_MORE = 0.1, 0.2
"""Where steps nearly complete the time, so many more are taken on average."""


def least_steps(rate: float) -> float:
    """The fewest steps of a line of this rate."""
    return max(1.0, math.ceil(_LINE_S * rate - 1e-6))


def plain_steps(rate: float) -> float:
    """The steps of a line of this rate that holds no stall."""
    least = least_steps(rate)
    return least + _ONE_MORE if least - _NEARLY < _LINE_S * rate and least < 1 / _NEARLY else least


def most_steps(fastest: float) -> float:
    """The most steps of a line that holds a stall: those before the last took less than the time, at the usual pace."""
    return int(_UNEVEN * _LINE_S * fastest) + 1.0


class Alike(Enum):
    """What the stalls of a loop have in common."""

    LENGTH = "length"
    """Seconds, the step that a stall is part of included."""
    STEPS = "steps"
    """How many steps lie between two."""


class Line(NamedTuple):
    """How long a line took, by the `Alike` of all stalls: `slope` times what that exceeds `offset` by, in bounds."""

    slope: float
    offset: float
    least_s: float
    most_s: float

    def time_s(self, alike: float) -> float:
        """Its seconds."""
        return min(self.most_s, max(self.least_s, self.slope * (alike - self.offset)))


class Loop(NamedTuple):
    """What the lines of a loop may be of. All rates are per environment, and above 0."""

    fast: float
    """Lines of this rate or more hold no stall."""
    step_s: float
    most: float
    """Steps of a line that holds a stall."""
    kind: Alike

    def lines(self, rates: Iterable[float], plain: float) -> tuple[list[Line], float]:
        """The lines of these rates, and the plain steps since the last one that holds a stall, which were `plain`."""
        lines: list[Line] = []
        for rate in rates:
            if rate >= self.fast:
                steps = plain_steps(rate)
                lines.append(Line(0.0, 0.0, steps / rate, steps / rate))
                plain += steps
                continue
            least = least_steps(rate)
            bounds_s = least / rate, max(least, self.most) / rate
            if self.kind is Alike.STEPS:
                lines.append(Line(1 / rate, plain, *bounds_s))
            else:
                # n steps at this rate are n - 1 plain ones and the stall.
                lines.append(Line(1 / (1 - self.step_s * rate), self.step_s, *bounds_s))
            plain = 0.0
        return lines, plain
