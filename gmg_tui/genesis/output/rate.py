"""The rate behind the numbers that a script prints: environment steps by wall time over the last seconds.

Genesis prints an exponential moving average that weights each sample by 5 % (`FPS_tracker_alpha=.95`), seeded with the
first sample, which in 1.4.5 includes the rest of compiling: it starts a hundred times too low and takes some 80 lines
to settle. Two neighbouring numbers give the sample between them. A sample is of the steps since the line before; lines
are not evenly spaced, so that a mean must weight each sample by its time, or the stalls of a loop would hardly count.
That time is not printed, but bounded: Genesis prints after the step that completes 0.05 s, and a sample is of whole
steps (`line_times`). Between the bounds, the times at which the lines arrive decide: those of the last half minute where
a loop stalls (`stalls`), else those of the block that was read.

- 1.x averages rates (`engine/scene.py`, `RunningMean`): `x = (v - 0.95 u) / 0.05` for the numbers u, v in that order.
- Before 0.3.7 the seconds of each step are averaged (`utils/tools.py`, `FPSTracker`): the same holds for `1/u`, `1/v`.
- From 0.3.7 to 0.4.5 the seconds between two lines are, but the steps are not: the printed number follows the rate.
- rsl_rl and the benchmark scripts print no average; rsl_rl says how many steps each iteration had.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from gmg_tui.genesis.output.line_times import STALLED, least_steps, most_steps, plain_steps
from gmg_tui.genesis.output.stalls import LATE_S, Stalls
from gmg_tui.genesis.output.stretches import Settled, Stretches

_KEPT = 0.95
"""Share of the old average in the next one (`ProfilingOptions.FPS_tracker_alpha`)."""
_ROUNDED = 0.005
"""The error of a number with two decimals."""
_SURE = 10.0
"""A rate that is so many times as large as its error is sure."""
_MOST, _FEW = 128, 16
"""Numbers of one block that are looked at: 6 s of lines. In a flood, a few of the last ones stand for all."""
_HALVINGS = 20
"""How finely the time of a block is shared out."""
_INSTANT_S = 1e-3
"""The time of a number of which none is known: its place is kept until others have more."""
_RISE, _FALL = 0.1, 0.01
"""How quickly the usual fast sample follows greater and smaller ones."""


class Smoothing(Enum):
    """What kind of average the printed numbers are."""

    RATES = "rates"
    SECONDS = "seconds"
    """Of each step."""
    NONE = "none"
    """None to speak of; a line each 0.05 s at most."""
    FOREIGN = "foreign"
    """None, at times of the script's own."""


def smoothing(version: str | None) -> Smoothing:
    """How this version of Genesis averages; None counts as the latest."""
    parts = (version or "").split(".")[:3]
    if not all(part.isdigit() for part in parts) or (number := tuple(map(int, parts))) > (0, 4, 5):
        return Smoothing.RATES
    return Smoothing.NONE if number >= (0, 3, 7) else Smoothing.SECONDS


class _Sample(NamedTuple):
    """The steps between two lines."""

    rate: float
    """Environment steps per second."""
    least: float
    most: float
    """Environment steps."""
    least_s: float
    most_s: float
    sure: bool = True
    """Whether the rate is known well enough to tell how long so many steps took."""


class RateWindow:
    """The printed numbers of one scene, and the rate behind them."""

    def __init__(self, kind: Smoothing, n_envs: int | None = None) -> None:
        """Read numbers of this `kind`, over `n_envs` environments (None for a scene without)."""
        self._kind = kind
        self._n_envs = n_envs or 1
        self._before: float | None = None
        self._arrival = self._clock = 0.0
        """When the last block arrived, and when its last line was printed as far as known, monotonic seconds."""
        self._begun = False
        self._fast = 0.0
        """The usual fast sample."""
        self._fastest = 0.0
        """The fastest of the last samples: where most lines hold a stall, few samples show how fast the steps are."""
        self._stalls = Stalls()
        self.stretches = Stretches()
        """What the last numbers say of the loop."""

    def add(self, numbers: Sequence[float], now: float) -> None:
        """Take the next printed numbers, in order, which arrived at `now` (monotonic seconds); finite, not negative."""
        known = self._begun
        if len(numbers) > _MOST:
            self._clock = now - (now - self._clock) * _FEW / len(numbers)
            self._before, numbers = numbers[-_FEW - 1], numbers[-_FEW:]
            known = False
        if not self._begun:
            self._begun = True
            self._arrival = self._clock = now
            if self._kind is not Smoothing.FOREIGN:
                # Nobody knows how long the first sample took: it only begins the average.
                self._before, numbers = numbers[0], numbers[1:]
        samples = list(self._samples(numbers))
        for one, (steps, time_s) in zip(
            samples, self._taken(samples, now, known=known and len(samples) == len(numbers)), strict=True
        ):
            self._clock += time_s
            self.stretches.add(steps, time_s, one.rate, self._stalls.stalled(one.rate / self._n_envs))
        # A line may tell of the step before the one that it was printed after, and arrive after the stall of the next.
        self._clock = min(now + LATE_S, max(self._arrival - LATE_S, self._clock))
        self._arrival = now

    def add_known(self, steps: float, rate: float, now: float) -> None:
        """Take a rate at which so many environment steps were done, which was printed at `now`; both greater than 0."""
        self._begun, self._arrival, self._clock = True, now, now
        self.stretches.add(steps, steps / rate, rate)

    def settled(self) -> Settled | None:
        """The rate of the last seconds; None before it is known, and for an average of another kind."""
        return self.stretches.settled()

    def _taken(self, samples: Sequence[_Sample], now: float, *, known: bool) -> list[tuple[float, float]]:
        """The steps and the seconds of each sample; `known` if these are all since the last ones."""
        if self._kind is Smoothing.RATES:
            if known and samples and all(one.sure for one in samples):
                rates = [one.rate / self._n_envs for one in samples]
                self._stalls.add(rates, now, self._fast / self._n_envs)
                times_s = self._stalls.times_s(rates, now - self._clock, now - self._arrival)
                if times_s is not None:
                    return [(one.rate * time_s, time_s) for one, time_s in zip(samples, times_s, strict=True)]
            else:
                self._stalls.begin(now)
        times_s = _shared_s(samples, now - self._clock)
        return [
            (min(one.most, max(one.least, one.rate * time_s)), time_s)
            for one, time_s in zip(samples, times_s, strict=True)
        ]

    def _samples(self, numbers: Sequence[float]) -> Iterator[_Sample]:
        """What the numbers say of the steps before each."""
        for number in numbers:
            before, self._before = self._before, number
            sample: _Sample | None
            if self._kind is Smoothing.FOREIGN:
                sample = _Sample(number, 0.0, math.inf, _INSTANT_S, math.inf)
            elif self._kind is Smoothing.SECONDS:
                sample = self._of_seconds(before or 0.0, number)
            elif self._kind is Smoothing.NONE:
                sample = self._of_rates(number, _ROUNDED)
            else:
                error = _ROUNDED * (1 + _KEPT) / (1 - _KEPT)
                sample = self._of_rates((number - _KEPT * (before or 0.0)) / (1 - _KEPT), error)
            if sample is None:
                self.stretches.doubt()
            else:
                yield sample

    def _of_rates(self, rate: float, error: float) -> _Sample | None:
        """A sample of this rate, give or take an `error`; None if there is no such rate."""
        if rate <= -error:
            return None
        rate = max(rate, 0.0)
        self._fast += (_RISE if rate > self._fast > 0 else _FALL if self._fast else 1.0) * (rate - self._fast)
        self._fastest = max(rate, self._fastest * (1 - _FALL))
        least = most = plain_steps(rate / self._n_envs)
        if rate < STALLED * self._fast:
            least = least_steps(rate / self._n_envs)
            most = max(least, most_steps(self._fastest / self._n_envs))
        least, most = least * self._n_envs, most * self._n_envs
        least_s = least / (rate + error)
        return _Sample(rate, least, most, least_s, most / max(rate - error, 1e-9), rate > _SURE * error)

    def _of_seconds(self, before: float, number: float) -> _Sample | None:
        """A sample of one step of each environment; None if it cannot have been one."""
        if before <= 0 or number <= 0:
            return None
        seconds = (1 / number - _KEPT / before) / (1 - _KEPT)
        error = _ROUNDED * (1 / number**2 + _KEPT / before**2) / (1 - _KEPT)
        # The numbers are of all environments.
        least_s, most_s = ((seconds + off) * self._n_envs for off in (-error, error))
        if most_s <= 0:
            return None
        steps = float(self._n_envs)
        least_s = max(least_s, 0.0)
        return _Sample(steps / max(seconds * self._n_envs, 1e-9), steps, steps, least_s, most_s)


def _shared_s(samples: Sequence[_Sample], passed_s: float) -> list[float]:
    """How long each sample took, between its bounds, when all of them took `passed_s`: stalls alike, as far as may be."""
    if passed_s <= sum(one.least_s for one in samples):
        return [one.least_s for one in samples]
    if passed_s >= sum(one.most_s for one in samples):
        return [one.most_s for one in samples]
    low_s, high_s = 0.0, passed_s
    for _ in range(_HALVINGS if len(samples) > 1 else 0):
        even_s = (low_s + high_s) / 2
        if sum(min(one.most_s, max(one.least_s, even_s)) for one in samples) < passed_s:
            low_s = even_s
        else:
            high_s = even_s
    return [min(one.most_s, max(one.least_s, high_s)) for one in samples]
