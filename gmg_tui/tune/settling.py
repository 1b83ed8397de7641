"""When a rate is settled: its mean, its 95 % interval, and whether it still drifts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

_T95 = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131)
"""Two-sided 95 % quantiles of Student's t for 1, 2, 3 … degrees of freedom."""
TARGET_PCT = 2.0
"""Half the interval, per cent of the rate, at which the rate is settled."""
_LEAST_S = 5.0
_LEAST_BLOCKS = 5
_BATCHES = 8
"""Batches that show whether neighbouring blocks are alike: few enough that each is long."""
_LONGEST = 30
"""Blocks of the longest period that is looked for."""
_PERIODIC = 0.4
"""Batches of whole periods vary less than single blocks would make them, by this at least."""
_CLEARLY = 3.0
"""A ramp-up has so many times the squared error that is left without it; less is chance."""
_EXACT = 1e-10
"""Squares differ by more than this share, or not at all."""
_LOOKS = 1.15
"""An interval that is looked at after each block is narrow by luck at some time: how much wider it must be."""
_DRIFT = 0.02
"""A rise or fall by less than this share of the rate is none, whatever the noise."""


class Block(NamedTuple):
    """What was done in a stretch of time."""

    amount: float
    time_s: float


class Estimate(NamedTuple):
    """A rate and the ends of its 95 % interval."""

    rate: float
    low: float
    high: float


class Settling:
    """The rate of one trial while its blocks come in."""

    def __init__(self, limit_s: float, at_least_s: float = _LEAST_S) -> None:
        self._limit_s = limit_s
        self._at_least_s = min(at_least_s, limit_s)
        self._blocks: list[Block] = []
        self._cut = 0
        self._drifts = True
        self._known: Estimate | None = None

    def add(self, amount: float, time_s: float) -> None:
        """Take the next block; one without time or with an impossible amount is left out."""
        if not (time_s > 0 and math.isfinite(time_s) and math.isfinite(amount)):
            return
        self._blocks.append(Block(amount, time_s))
        self._cut = _steady_from(self._blocks)
        tail = self._blocks[self._cut :]
        self._drifts, self._known = _drifts(tail), _estimate(tail)

    def estimate(self) -> Estimate | None:
        """The rate of what is left after the ramp-up; None before there are two blocks of it."""
        return self._known

    @property
    def measured_s(self) -> float:
        """Seconds of all blocks."""
        return sum(block.time_s for block in self._blocks)

    @property
    def ramp_s(self) -> float:
        """Seconds of the first blocks, which are left out as they differ from the rest."""
        return sum(block.time_s for block in self._blocks[: self._cut])

    @property
    def steady(self) -> bool:
        """Whether more blocks would hardly change the rate."""
        known, tail = self._known, self._blocks[self._cut :]
        return (
            known is not None
            and known.rate != 0
            and not self._drifts
            and len(tail) >= _LEAST_BLOCKS
            and sum(block.time_s for block in tail) >= _LEAST_S
            and known.high - known.low <= 2 * TARGET_PCT / 100 * abs(known.rate)
        )

    @property
    def settled(self) -> bool:
        """Whether it is steady, and was measured as long as asked for."""
        return self.steady and self.measured_s >= self._at_least_s

    @property
    def over(self) -> bool:
        """Whether measuring ends: settled, or as long as it may take."""
        return self.settled or self.measured_s >= self._limit_s


def _rate(blocks: Sequence[Block]) -> float:
    return sum(block.amount for block in blocks) / sum(block.time_s for block in blocks)


def _t95(freedom: int) -> float:
    return _T95[freedom - 1] if freedom <= len(_T95) else 1.96 + 2.5 / freedom


def _half_width(blocks: Sequence[Block], size: int = 1) -> float:
    """Half the 95 % interval of the rate, by batches of `size` neighbouring blocks that begin with each one.

    As they overlap, it does not matter where a period of the loop begins.
    """
    count = len(blocks) / size
    if count < 2:
        return math.inf
    rate = _rate(blocks)
    left = [block.amount - rate * block.time_s for block in blocks]
    sums = [0.0, *accumulate(left)]
    residues = [sums[end] - sums[end - size] for end in range(size, len(sums))]
    mean_s = sum(block.time_s for block in blocks) / count
    variance = sum(residue * residue for residue in residues) / len(residues) * count / (count - 1)
    return _t95(math.floor(count) - 1) * math.sqrt(variance / count) / mean_s


def _period(blocks: Sequence[Block]) -> int:
    """How many blocks the loop's period has; 1 where none is seen.

    Blocks that make up whole periods are alike, where single ones hold a stall or none.
    """
    alone = _half_width(blocks)
    sizes = range(2, min(len(blocks) // 5, _LONGEST) + 1)
    widths = {size: _half_width(blocks, size) for size in sizes}
    size = min(widths, key=lambda size: widths[size], default=1)
    return size if size > 1 and widths[size] < _PERIODIC * alone else 1


def _estimate(blocks: Sequence[Block]) -> Estimate | None:
    if len(blocks) < 2:
        return None
    size = _period(blocks)
    whole = blocks[len(blocks) % size :]
    half = _half_width(whole, size)
    if len(whole) // size > 2 * _BATCHES:  # Neighbours that are alike make single ones look surer than they are.
        half = max(half, _half_width(whole, len(whole) // size // _BATCHES * size))
    rate, half = _rate(whole), _LOOKS * half
    return Estimate(rate, rate - half, rate + half)


def _steady_from(blocks: Sequence[Block]) -> int:
    """The first block after the ramp-up: leaving out more does not make the mean clearly surer (as in MSER, White 1997)."""
    errors: list[float] = []
    amount = time_s = of_amounts = of_both = of_times = 0.0
    for block in reversed(blocks):
        amount, time_s = amount + block.amount, time_s + block.time_s
        of_amounts += block.amount**2
        of_both += block.amount * block.time_s
        of_times += block.time_s**2
        rate = amount / time_s
        off = of_amounts - 2 * rate * of_both + rate**2 * of_times
        errors.append(max(off, _EXACT * of_amounts) / time_s**2)
    errors = errors[min(_LEAST_BLOCKS, len(errors)) - 1 :][::-1]
    enough = _CLEARLY * min(errors)
    return next(cut for cut, error in enumerate(errors) if error <= enough)


def _drifts(blocks: Sequence[Block]) -> bool:
    """Whether a straight line through the blocks rises or falls by more than chance and the loop's stalls explain."""
    count = len(blocks)
    if count < 4:
        return True
    ends = [0.0, *accumulate(block.time_s for block in blocks)]
    middle = ends[-1] / 2
    times = [(begin + end) / 2 - middle for begin, end in pairwise(ends)]
    rate = _rate(blocks)
    off = [block.amount / block.time_s - rate for block in blocks]
    spread = sum(time * time for time in times)
    slope = sum(time * apart for time, apart in zip(times, off, strict=True)) / spread
    left = sum((apart - slope * time) ** 2 for time, apart in zip(times, off, strict=True))
    chance = _t95(count - 2) * math.sqrt(left / (count - 2) / spread)
    return abs(slope) * ends[-1] > max(_DRIFT * abs(rate), chance * ends[-1])
