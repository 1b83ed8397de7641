"""The change of the rates between two sessions, and its confidence interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean, stdev
from typing import NamedTuple

from gmg_tui.jobs.tune.fit import MIN_INTERVAL, t_95

BLOCK_S = 10.0
"""The rate now is a mean over 10 s: shorter blocks of it would be the same figures again."""
_MIN_BLOCKS = 4
_MAX_BLOCKS = 20
"""More blocks become longer ones, which depend less on each other."""
_SHARED = 0.25
"""Correlation of neighbouring blocks of `BLOCK_S`, half of whose windows overlap."""
_MAX_CORRELATION = 0.7


class Measured(NamedTuple):
    """A rate, with the means of consecutive blocks of its run, if known."""

    rate: float
    blocks: Sequence[float] = ()


class Change(NamedTuple):
    """The change of the rate from one session to another, per cent, and its 95 % interval, None if unknown."""

    pct: float
    interval_pct: tuple[float, float] | None
    pairs: int
    """The number of slots, jobs or values that both have measured."""

    def is_slower(self, than_pct: float) -> bool:
        """True if it is slower by more than `than_pct`, and the noise does not explain that it is slower."""
        return self.pct < -than_pct and (self.interval_pct is None or self.interval_pct[1] < 0)


def change(before: Mapping[str, Measured], after: Mapping[str, Measured]) -> Change | None:
    """The change of the rates that both have by the same name; None without any.

    The noise is how much the changes of several slots or jobs differ, and at least the noise within each run. Of a single
    one it is the latter: how much two runs differ is not known then.
    """
    pairs = [(rate, after[name]) for name, rate in before.items() if name in after]
    pairs = [pair for pair in pairs if min(pair[0].rate, pair[1].rate) > 0]
    if not pairs:
        return None
    logs = [math.log(new.rate / old.rate) for old, new in pairs]
    errors = [error for error in (_between(logs), _within(pairs)) if error is not None]
    mean, interval_pct = fmean(logs), None
    if errors:
        # The larger of two estimates of the same: two or three slots alone say little about how much they differ.
        half = max(MIN_INTERVAL, t_95(sum(freedom for _, freedom in errors)) * max(error for error, _ in errors))
        interval_pct = _pct(mean - half), _pct(mean + half)
    return Change(_pct(mean), interval_pct, len(pairs))


def _pct(log: float) -> float:
    return 100 * math.expm1(log)


def _between(logs: Sequence[float]) -> tuple[float, int] | None:
    """The standard error of the mean of these changes and its degrees of freedom; None for a single one."""
    return (stdev(logs) / math.sqrt(len(logs)), len(logs) - 1) if len(logs) > 1 else None


def _within(pairs: Sequence[tuple[Measured, Measured]]) -> tuple[float, int] | None:
    """Returns the interval by the noise within each run; None if any has no blocks."""
    errors = [_error(run) for pair in pairs for run in pair]
    known = [error for error in errors if error is not None]
    if len(known) < len(errors):
        return None
    error = math.sqrt(sum(variance for variance, _ in known)) / len(pairs)
    return error, sum(count - 1 for _, count in known)


def _error(run: Measured) -> tuple[float, int] | None:
    """The variance of a run's mean, as a share of it, and from how many blocks; None if there are too few."""
    if len(run.blocks) < _MIN_BLOCKS or min(run.blocks) <= 0:
        return None
    each = math.ceil(len(run.blocks) / _MAX_BLOCKS)
    whole = len(run.blocks) // each * each
    blocks = [fmean(run.blocks[first : first + each]) for first in range(0, whole, each)]
    mean = fmean(blocks)
    around = [block / mean - 1 for block in blocks]
    square = sum(value * value for value in around)
    seen = sum(left * right for left, right in pairwise(around)) / square if square else 0.0
    correlation = min(max(seen, _SHARED / each), _MAX_CORRELATION)
    variance = square / (len(blocks) - 1) / len(blocks) * (1 + correlation) / (1 - correlation)
    return variance, len(blocks)
