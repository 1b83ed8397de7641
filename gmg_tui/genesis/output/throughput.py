"""Environment steps per second of one attempt, from the best of its sources."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from enum import IntEnum

from gmg_tui.genesis.output import lines
from gmg_tui.genesis.output.rate import RateWindow, Smoothing, smoothing
from gmg_tui.genesis.output.repeated_lines import Rates
from gmg_tui.genesis.output.stretches import Blocks
from gmg_tui.model import Fps

_STALE_FACTOR, _STALE_S = 3.0, 5.0
"""Without a number for so many times the usual gap, and so many seconds at least, the last is no longer current."""
_FIRST_GAP_S = 60.0
"""The gap after the first number, before any is known."""
_GAPS_OF_S = 60.0
"""The gaps of about so many of the last seconds are the usual ones."""


class Source(IntEnum):
    """Who prints the rate; the greater wins, being closer to the simulation or printed more often."""

    RSL = 1
    BENCHMARK = 2
    RAW = 3
    """Genesis's lines through the root logger, the second time (up to 0.4.5)."""
    GENESIS = 4
    SCRIPT = 5
    """The script itself, by the means of gmg-tui."""


class Throughput:
    """The printed numbers of one attempt: last, mean, greatest, count, and the settled rate behind them."""

    def __init__(self) -> None:
        self.n_envs: int | None = None
        """Environments according to Genesis's lines; None if they do not say."""
        self.version: str | None = None
        """The version of Genesis, which decides what its numbers are an average of."""
        self._source: Source | None = None
        self._raw_envs = b""
        self._last_at: float | None = None
        self._gaps_s = self._gaps_s2 = 0.0
        """The sum of the last gaps, and of their squares."""
        self._window: RateWindow | None = None
        self._blocks_begun = 0
        """The mark of `blocks` at which the numbers of the window begin."""
        self._reset()

    def _reset(self) -> None:
        self._last = self._max = self._sum = 0.0
        self._samples = 0
        self.new_scene()

    def new_scene(self) -> None:
        """Another scene is being built, with a fresh average."""
        if self._window is not None:
            self._blocks_begun += self._window.stretches.closed + 1
            self._window = None

    def take_uniform(self, rates: Rates, now: float) -> bool:
        """Take progress lines of Genesis that all look the same; returns whether they counted.

        `now` is when they arrived, here and below, in monotonic seconds.
        """
        if not self._admit(Source.RAW if rates.marker else Source.GENESIS):
            return False
        self._environments(rates.environments)
        # One call for all numbers: in a flood it takes half the time of one for each.
        self._add([*map(float, b" ".join(rates.numbers).replace(b",", b"").split())], now)
        return True

    def take_lines(self, found: Sequence[tuple[bytes, bytes, bytes]], now: float) -> bool:
        """Take progress lines of Genesis, in order, as `lines.FPS` finds them; returns whether any counted."""
        plain = [each for each in found if not each[0]]
        if not self._admit(Source.GENESIS if plain else Source.RAW):
            return False
        for environments, same in itertools.groupby(plain or found, operator.itemgetter(2)):
            self._environments(environments)
            self._add([float(rate.replace(b",", b"")) for _, rate, _ in same], now)
        return True

    def take_number(self, source: Source, value: float, now: float, steps: int = 0) -> bool:
        """Take a number that is no moving average, of so many environment steps where that is known, else 0.

        Returns whether it counted.
        """
        if not self._admit(source):
            return False
        if self._window is None:
            self._window = RateWindow(Smoothing.FOREIGN)
        if steps and value > 0:
            self._window.add_known(steps, value, now)
            self._count([value], now)
        else:
            self._add([value], now)
        return True

    def set_environments(self, n_envs: int) -> None:
        """Take the number of environments that a script gives; the numbers of another one are of another loop."""
        if n_envs != self.n_envs:
            self.n_envs = n_envs
            self.new_scene()

    @property
    def of_group(self) -> bool:
        """Whether the numbers are the whole group's: rsl_rl multiplies them by the world size (`utils/logger.py`)."""
        return self._source is Source.RSL

    def fps(self) -> Fps | None:
        """All metrics; None before the first number."""
        if not self._samples:
            return None
        settled, spread = (self._window.settled() if self._window else None) or (None, None)
        return Fps(self._last, self._sum / self._samples, self._max, self._samples, settled, spread)

    def blocks(self, after: int) -> Blocks:
        """The blocks of the loop that were closed since the mark `after`; of all of them since 0.

        Another scene, another number of environments and a better source of numbers begin another loop.
        """
        begun = self._blocks_begun
        if self._window is None:
            return Blocks(begun, begun, ())
        stretches = self._window.stretches
        return Blocks(begun + stretches.closed, begun, stretches.blocks(max(0, after - begun)))

    def silent_s(self, now: float) -> float | None:
        """Seconds without a number at `now`, where these are several times as many as usual; None where they are not.

        What is usual is the gap that one of the last seconds was in, on average: a loop that learns for long after
        many quick lines is silent for that long again.
        """
        if self._last_at is None:
            return None
        usual_s = self._gaps_s2 / self._gaps_s if self._gaps_s > 0 else _FIRST_GAP_S / _STALE_FACTOR
        silent_s = now - self._last_at
        return silent_s if silent_s > max(_STALE_S, _STALE_FACTOR * usual_s) else None

    def _admit(self, source: Source) -> bool:
        """Whether numbers of `source` count; those of a lesser one are then forgotten."""
        if self._source is not None and source < self._source:
            return False
        if source is not self._source:
            self._source = source
            self._reset()
        return True

    def _environments(self, raw: bytes) -> None:
        if raw != self._raw_envs or self._window is None:
            self._raw_envs = raw
            self.n_envs = int(lines.number(raw)) if raw else None
            self.new_scene()
            self._window = RateWindow(smoothing(self.version), self.n_envs)

    def _add(self, numbers: list[float], now: float) -> None:
        self._count(numbers, now)
        if self._window is not None:
            self._window.add(numbers, now)

    def _count(self, numbers: list[float], now: float) -> None:
        self._samples += len(numbers)
        self._sum += sum(numbers)
        self._max = max(self._max, *numbers)
        self._last = numbers[-1]
        if self._last_at is not None:
            gap_s = now - self._last_at
            kept = 1 / (1 + gap_s / _GAPS_OF_S)
            self._gaps_s, self._gaps_s2 = self._gaps_s * kept + gap_s, self._gaps_s2 * kept + gap_s**2
        self._last_at = now
