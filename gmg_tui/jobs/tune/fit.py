"""Fits the trials: a trial's rate is the value's rate on a typical slot, times the slot's factor, times noise.

`RateMeter` measures the rate of one trial until it is steady, within the bounds of `--settle`.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from gmg_tui.model.tuning import TrialKind, TuneSpec

_FIT_ROUNDS = 8
_MIN_DIFF = 0.04
"""Relative difference above which a slot is corrected for if the noise is unknown."""
MIN_MARGIN = 0.005
"""Minimum relative half-width of an interval; rates that drift by less than twice that are steady."""

_T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""The two-sided 95 % quantiles of Student's t for 1 to 10 degrees of freedom."""
_Z_95 = 1.95996

Key = TypeVar("Key", bound=Hashable)


class Sample(NamedTuple):
    """One trial: the logarithm of a value's rate on a slot."""

    slot: str
    key: tuple[int, bool]
    """The value, and True if it was measured on all slots at once."""
    log_rate: float


class Fit(NamedTuple):
    """The factors of the slots, and the noise."""

    factors: dict[str, float]
    """The speed of each slot that differs by more than noise, relative to a typical slot."""
    spread: float
    """Relative standard deviation of a trial; infinite if no value was repeated."""
    freedom: int
    """Degrees of freedom of `spread`."""

    def correct(self, sample: Sample) -> float:
        """Returns the logarithm of the rate on a typical slot."""
        return sample.log_rate - math.log(self.factors.get(sample.slot, 1.0))

    def margin_pct(self, count: int = 1) -> float | None:
        """Returns the half-width of the 95 % interval of a mean of `count` trials, percent; None with too few repeats.

        The choice of a value costs one degree of freedom.
        """
        if self.freedom < 2:
            return None
        freedom = self.freedom - 1
        return 100 * max(MIN_MARGIN, t_95(freedom) * self.spread * math.sqrt(self.freedom / freedom / count))


def fit(samples: Sequence[Sample]) -> Fit:
    """Estimates slot factors and the spread of a trial, by least squares over the values measured on several slots."""
    slots_of: dict[tuple[int, bool], set[str]] = {}
    for sample in samples:
        slots_of.setdefault(sample.key, set()).add(sample.slot)
    shared = [sample for sample in samples if len(slots_of[sample.key]) > 1]
    logs: dict[str, float] = dict.fromkeys(sorted({sample.slot for sample in shared}), 0.0)
    for _ in range(_FIT_ROUNDS if len(logs) > 1 else 0):
        keys = _means((sample.key, sample.log_rate - logs[sample.slot]) for sample in shared)
        logs = _means((sample.slot, sample.log_rate - keys[sample.key]) for sample in shared)
    typical = (
        sorted(logs.values())[len(logs) // 2] if logs else 0.0
    )  # of two, the faster: the slower may have a problem
    logs = {slot: log - typical for slot, log in sorted(logs.items())}
    spread, freedom = _spread(samples, logs)
    counts = Counter(sample.slot for sample in shared)
    significant = {
        slot: log
        for slot, log in logs.items()
        if abs(log) > (t_95(freedom) * max(MIN_MARGIN, spread * math.sqrt(2 / counts[slot])) if freedom else _MIN_DIFF)
    }
    spread, freedom = _spread(samples, significant)
    return Fit({slot: math.exp(log) for slot, log in significant.items()}, spread, freedom)


def _spread(samples: Sequence[Sample], logs: Mapping[str, float]) -> tuple[float, int]:
    """Returns the standard deviation of a trial and its degrees of freedom, given the logarithms of slot factors."""
    keys = _means((sample.key, sample.log_rate - logs.get(sample.slot, 0.0)) for sample in samples)
    residual = sum((sample.log_rate - logs.get(sample.slot, 0.0) - keys[sample.key]) ** 2 for sample in samples)
    freedom = len(samples) - len(keys) - max(0, len(logs) - (1 if 0.0 in logs.values() else 0))
    return (math.sqrt(residual / freedom), freedom) if freedom > 0 else (math.inf, 0)


def _means(pairs: Iterable[tuple[Key, float]]) -> dict[Key, float]:
    grouped: dict[Key, list[float]] = {}
    for key, number in pairs:
        grouped.setdefault(key, []).append(number)
    return {key: sum(numbers) / len(numbers) for key, numbers in grouped.items()}


def t_95(freedom: int) -> float:
    """Returns the two-sided 95 % quantile of Student's t, to within 1 %, for at least 1 degree of freedom."""
    return _T_95[freedom - 1] if freedom <= len(_T_95) else _Z_95 * (1 + 1.25 / freedom)


class Mark(NamedTuple):
    """An amount of work and its time, both counted from the first step."""

    amount: float
    time_s: float


class RateMeter:
    """The rate of one trial as its counts arrive.

    Windows before one with a different rate are warm-up, and do not count. The rate has no confidence interval: its
    uncertainty shows between trials, not within one.
    """

    def __init__(self, spec: TuneSpec, kind: TrialKind) -> None:
        """Prepares for a trial of `kind`; one on all slots at once is measured for the maximum time."""
        self._max_s = 3 * spec.settle_s
        self._min_s = self._max_s if kind is TrialKind.TOGETHER else spec.settle_s
        self._window_s = spec.settle_s / 2
        self._marks: list[Mark] = []
        """The ends of the windows, after the start of the measurement."""
        self._last: Mark | None = None
        self._steady_from = 0
        """Index of the mark at which the consistent windows start."""

    def add(self, amount: float, time_s: float) -> None:
        """Adds a count. One smaller than the last comes from another loop, and restarts the measurement."""
        mark = Mark(amount, time_s)
        if self._last is not None and (amount < self._last.amount or time_s < self._last.time_s):
            self._marks, self._steady_from = [], 0
        self._last = mark
        if not self._marks:
            self._marks.append(mark)
        elif time_s - self._marks[-1].time_s >= self._window_s:
            self._marks.append(mark)
            previous = len(self._marks) - 2
            if previous > self._steady_from:
                steady = _rate(self._marks[self._steady_from], self._marks[previous])
                if abs(_rate(self._marks[previous], mark) - steady) > 2 * MIN_MARGIN * abs(steady):
                    self._steady_from = previous

    @property
    def rate(self) -> float | None:
        """The rate of the last consistent windows, else of the second half; None before the second count."""
        if self._last is None or self._last == self._marks[0]:
            return None
        if len(self._marks) < 2:
            return _rate(self._marks[0], self._last)
        start = self._marks[self._steady_from if self._is_steady else len(self._marks) // 2 - (len(self._marks) == 2)]
        return _rate(start, self._marks[-1])

    @property
    def measured_s(self) -> float:
        """Seconds between the first and the last count."""
        return self._last.time_s - self._marks[0].time_s if self._last is not None else 0.0

    @property
    def is_done(self) -> bool:
        """True once the rate has been steady long enough, or the maximum time has passed."""
        return self.measured_s >= (self._min_s if self._is_steady else self._max_s)

    @property
    def _is_steady(self) -> bool:
        return len(self._marks) - self._steady_from > 2


def _rate(start: Mark, end: Mark) -> float:
    return (end.amount - start.amount) / (end.time_s - start.time_s) if end.time_s > start.time_s else 0.0
