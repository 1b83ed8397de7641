"""The fit of the trials: a rate is its value's on a usual slot, times the slot's factor, times chance."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

_ROUNDS = 8
_UNKNOWN = 0.04
"""Slots that differ by more than this are corrected for before the noise is measured."""
MIN_INTERVAL = 0.005
"""The smallest half of an interval, as a share: a rate that drifts by less than twice that is steady."""

_T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""The two-sided 95 % quantiles of Student's t for 1 to 10 degrees of freedom."""
_Z_95 = 1.95996

Key = TypeVar("Key", bound=Hashable)


class Sample(NamedTuple):
    """One trial: the rate of a value on a slot, as its logarithm."""

    slot: str
    key: tuple[int, bool]
    """The value, and whether all slots were measured at once."""
    log: float


class Fit(NamedTuple):
    """The values and slots that the trials distinguish."""

    factors: dict[str, float]
    """The speed of each slot that differs by more than noise, as a multiple of a usual slot's."""
    spread: float
    """Standard deviation of a trial, as a share of the rate; infinite where no value was repeated."""
    freedom: int
    """Its degrees of freedom."""

    def corrected(self, sample: Sample) -> float:
        """Returns the logarithm of the rate on a usual slot."""
        return sample.log - math.log(self.factors.get(sample.slot, 1.0))

    def margin_pct(self, count: int = 1) -> float | None:
        """Returns half of the 95 % interval of a rate, the mean of `count` trials, per cent of it.

        None if too little was repeated. The choice of a value costs one degree of freedom.
        """
        if self.freedom < 2:
            return None
        left = self.freedom - 1
        return 100 * max(MIN_INTERVAL, t_95(left) * self.spread * math.sqrt(self.freedom / left / count))


def fit(samples: Sequence[Sample]) -> Fit:
    """Estimate the factors of the slots and the spread of a trial, by least squares over the values that slots share."""
    slots_of: dict[tuple[int, bool], set[str]] = {}
    for sample in samples:
        slots_of.setdefault(sample.key, set()).add(sample.slot)
    shared = [sample for sample in samples if len(slots_of[sample.key]) > 1]
    slots: dict[str, float] = dict.fromkeys(sorted({sample.slot for sample in shared}), 0.0)
    for _ in range(_ROUNDS if len(slots) > 1 else 0):
        keys = _means((sample.key, sample.log - slots[sample.slot]) for sample in shared)
        slots = _means((sample.slot, sample.log - keys[sample.key]) for sample in shared)
    usual = sorted(slots.values())[len(slots) // 2] if slots else 0.0  # of two the faster: something ails the slow one
    slots = {slot: log - usual for slot, log in sorted(slots.items())}
    spread, freedom = _spread(samples, slots)
    counts = Counter(sample.slot for sample in shared)
    clear = {
        slot: log
        for slot, log in slots.items()
        if abs(log) > (t_95(freedom) * max(MIN_INTERVAL, spread * math.sqrt(2 / counts[slot])) if freedom else _UNKNOWN)
    }
    spread, freedom = _spread(samples, clear)
    return Fit({slot: math.exp(log) for slot, log in clear.items()}, spread, freedom)


def _spread(samples: Sequence[Sample], slots: Mapping[str, float]) -> tuple[float, int]:
    """Returns the standard deviation of a trial whose slots differ by `slots`, and its degrees of freedom."""
    keys = _means((sample.key, sample.log - slots.get(sample.slot, 0.0)) for sample in samples)
    left = sum((sample.log - slots.get(sample.slot, 0.0) - keys[sample.key]) ** 2 for sample in samples)
    freedom = len(samples) - len(keys) - max(0, len(slots) - (1 if 0.0 in slots.values() else 0))
    return (math.sqrt(left / freedom), freedom) if freedom > 0 else (math.inf, 0)


def _means(pairs: Iterable[tuple[Key, float]]) -> dict[Key, float]:
    grouped: dict[Key, list[float]] = {}
    for key, number in pairs:
        grouped.setdefault(key, []).append(number)
    return {key: sum(numbers) / len(numbers) for key, numbers in grouped.items()}


def t_95(freedom: int) -> float:
    """The two-sided 95 % quantile of Student's t, to within 1 %; the degrees of freedom are at least 1."""
    return _T_95[freedom - 1] if freedom <= len(_T_95) else _Z_95 * (1 + 1.25 / freedom)
