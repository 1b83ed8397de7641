"""The rate change from one session to another, with its confidence interval."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean, stdev
from typing import NamedTuple

from gmg_tui.jobs.tune.fit import MIN_MARGIN, t_95

BLOCK_S = 10.0
"""Length of a block, equal to the window of the current rate: shorter blocks would repeat its samples."""
_MIN_BLOCKS = 4
_MAX_BLOCKS = 20
"""Maximum blocks of a run; more are merged into longer ones, which are less correlated."""
_MIN_CORRELATION = 0.25
"""Minimum correlation to assume between consecutive blocks of `BLOCK_S`, whose windows overlap by half."""
_MAX_CORRELATION = 0.7


class MeasuredRate(NamedTuple):
    """The rate of a run, and the rates of its consecutive blocks, if known."""

    rate: float
    blocks: Sequence[float] = ()


class RateChange(NamedTuple):
    """The rate change from one session to another, in percent."""

    pct: float
    interval_pct: tuple[float, float] | None
    """The 95 % interval; None if unknown."""
    pairs: int
    """The number of slots, jobs or values measured in both."""

    def is_slower(self, than_pct: float) -> bool:
        """Returns True if the rate fell by more than `than_pct`, and beyond the noise, if that is known."""
        return self.pct < -than_pct and (self.interval_pct is None or self.interval_pct[1] < 0)


def compare_rates(before: Mapping[str, MeasuredRate], after: Mapping[str, MeasuredRate]) -> RateChange | None:
    """Returns the mean change of the rates that have the same name in both sessions; None if there are none.

    The interval is the larger of two estimates: from the spread of the changes, and from the noise within the runs. A
    single pair has no spread.
    """
    pairs = [(rate, after[name]) for name, rate in before.items() if name in after]
    pairs = [pair for pair in pairs if min(pair[0].rate, pair[1].rate) > 0]
    if not pairs:
        return None
    logs = [math.log(new.rate / old.rate) for old, new in pairs]
    spread = (stdev(logs) / math.sqrt(len(logs)), len(logs) - 1) if len(logs) > 1 else None
    errors = [error for error in (spread, _noise(pairs)) if error is not None]
    mean, interval_pct = fmean(logs), None
    if errors:
        # Add the degrees of freedom, as the spread of two or three slots is uncertain.
        half_width = max(MIN_MARGIN, t_95(sum(freedom for _, freedom in errors)) * max(error for error, _ in errors))
        interval_pct = _pct(mean - half_width), _pct(mean + half_width)
    return RateChange(_pct(mean), interval_pct, len(pairs))


def _pct(log: float) -> float:
    return 100 * math.expm1(log)


def _noise(pairs: Sequence[tuple[MeasuredRate, MeasuredRate]]) -> tuple[float, int] | None:
    """Returns the standard error due to noise, and its degrees of freedom; None if a run has too few blocks."""
    variances = [_variance(run) for pair in pairs for run in pair]
    known = [variance for variance in variances if variance is not None]
    if len(known) < len(variances):
        return None
    error = math.sqrt(sum(variance for variance, _ in known)) / len(pairs)
    return error, sum(count - 1 for _, count in known)


def _variance(run: MeasuredRate) -> tuple[float, int] | None:
    """Returns the relative variance of a run's mean, and the number of merged blocks; None if too few or 0."""
    if len(run.blocks) < _MIN_BLOCKS or min(run.blocks) <= 0:
        return None
    merged = math.ceil(len(run.blocks) / _MAX_BLOCKS)
    end = len(run.blocks) // merged * merged
    blocks = [fmean(run.blocks[first : first + merged]) for first in range(0, end, merged)]
    mean = fmean(blocks)
    deviations = [block / mean - 1 for block in blocks]
    squares = sum(value * value for value in deviations)
    observed = sum(one * following for one, following in pairwise(deviations)) / squares if squares else 0.0
    correlation = min(max(observed, _MIN_CORRELATION / merged), _MAX_CORRELATION)
    variance = squares / (len(blocks) - 1) / len(blocks) * (1 + correlation) / (1 - correlation)
    return variance, len(blocks)
