"""The axes of a tuning's curve: values on a logarithmic one, rates on a linear one."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from gmg_tui.model import Answer, Trial, TrialKind, TrialState, Tuning

_PAD: Final = 0.04
"""Room at both ends of the axis of values, as a share of it."""
_STEPS: Final = 6
"""Steps of the axis of rates, about."""
_ROUND: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
_MOST: Final = 1e15
"""A greater rate is none; its label would have no room either."""


class Scale(NamedTuple):
    """Where values and rates stand."""

    left: float
    """Logarithm (base 2) of the value at the left end."""
    right: float
    bottom: float
    """The rate at the lower end."""
    top: float

    def x(self, value: int) -> float:
        """The place of a value, from 0 at the left to 1."""
        return (math.log2(value) - self.left) / (self.right - self.left)

    def y(self, rate: float) -> float:
        """The place of a rate, from 0 at the top to 1; what is beyond stands at the end."""
        return max(0.0, min(1.0, (self.top - rate) / (self.top - self.bottom)))

    def ticks(self, low: int, gap: float) -> list[int]:
        """Values for the axis: the least one, `low`, times powers of two; `gap` apart, as a share of the axis."""
        first = max(1, low)
        doublings = range(math.ceil(self.left - math.log2(first)), math.floor(self.right - math.log2(first)) + 1)
        each = max(1, math.ceil(gap * (self.right - self.left)))
        return [first << power for power in doublings if power >= 0 and power % each == 0]


def drawable(rate: float | None) -> bool:
    """Whether a rate has a place: one that is not known has none, nor has NaN, which compares as false."""
    return rate is not None and abs(rate) <= _MOST


def points(tuning: Tuning, answer: Answer) -> list[Trial]:
    """The trials that are points of the curve: those with a rate, on a slot of `answer`, not of all slots at once."""
    return [trial for trial in _alone(tuning, answer) if drawable(trial.rate)]


def failures(tuning: Tuning, answer: Answer) -> list[int]:
    """The values that failed."""
    return [trial.value for trial in _alone(tuning, answer) if trial.state is TrialState.FAILED]


def limits(answer: Answer) -> tuple[int | None, int | None]:
    """Where the memory ends and where the edge is, as far as that is known."""
    memory = answer.memory.most if answer.memory is not None else None
    edge = answer.edge.value if answer.edge is not None else None
    return (memory if memory and memory > 0 else None), (edge if edge and edge > 0 else None)


def scale(tuning: Tuning, answer: Answer) -> Scale | None:
    """The axes for everything that is drawn of the slots of `answer`; None where nothing has a rate."""
    shown = points(tuning, answer)
    if not shown:
        return None
    values = [trial.value for trial in _alone(tuning, answer)]
    values += [limit for limit in limits(answer) if limit is not None]
    left, right = math.log2(min(values)), math.log2(max(values))
    if right - left < 1:
        left, right = left - 1, right + 1
    pad = (right - left) * _PAD
    rates = [rate for trial in shown for rate in (trial.rate, trial.rate_low, trial.rate_high) if rate is not None]
    rates = [rate for rate in rates if drawable(rate)]
    least, greatest = min(rates), max(rates)
    # Small differences are visible only where the axis does not begin at 0.
    floor = least if least < 0 or (least > greatest / 2 and len(shown) > 1) else 0.0
    step = _step((greatest - floor if greatest > floor else abs(greatest)) / _STEPS)
    bottom = math.floor(floor / step) * step
    return Scale(left - pad, right + pad, bottom, max(math.ceil(greatest / step) * step, bottom + step))


def _alone(tuning: Tuning, answer: Answer) -> list[Trial]:
    return [
        trial
        for trial in tuning.trials
        if trial.kind is not TrialKind.TOGETHER and trial.slot in answer.slots and trial.value > 0
    ]


def _step(least: float) -> float:
    """The least round number that is not below `least`."""
    if least < 1 / _MOST:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(share * power for share in _ROUND if share * power >= least or share == _ROUND[-1])
