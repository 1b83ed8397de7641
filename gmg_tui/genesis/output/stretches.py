"""The last minutes of a loop as stretches of even pace, and its rate over whole periods of them."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

WINDOW_S = 10.0
"""The rate is of so many seconds, and of more where the loop's periods are longer."""
_KEPT = 128
"""Stretches, of a second each or, in a loop with stalls, two for each period."""
_LENGTH_S = 1.0
_SLOW, _EVEN = 0.7, 0.85
"""A slow stretch begins below the first and ends above the second share of the mean rate."""
_RARE = 0.02
"""Slow stretches that take a smaller share of the time make no periods."""
_LONGEST_S = 60.0
"""Where none of the last seconds held a stall, no earlier one is looked for."""
_REGULAR = 1.5
"""Periods of a loop differ by less than this; those of a machine that is busy now and then do not."""
_SHORT_S = 2.5
"""Where there are no periods, the window begins and ends behind slow stretches that are so near."""
_OVERDUE = 1.5
"""A stall that is later than this, as a multiple of the longest period, is not expected any more."""
_BAD_SHARE = 0.1
"""More samples than this that cannot be: the numbers are not the average that they are taken for."""


class Settled(NamedTuple):
    """Environment steps by wall time."""

    rate: float
    """Environment steps per second."""
    spread: float | None
    """The standard deviation of the rates of its periods, or of its seconds; None where there is only one."""


class Block(NamedTuple):
    """A second or more of a loop and, where the loop stalls, whole periods of it, so that blocks can be compared."""

    steps: float
    """Environment steps."""
    time_s: float


class Blocks(NamedTuple):
    """The blocks of a loop that were closed since a mark."""

    mark: int
    """To ask with next time; it only grows."""
    begun: int
    """The mark at which the loop began: where it is greater than the mark that was asked with, all blocks that were given
    until then are of another loop."""
    blocks: tuple[Block, ...]
    """The newest last; at most the last 128."""


class _Stretch:
    """Neighbouring samples."""

    __slots__ = ("bad", "good", "slow", "steps", "time_s")

    def __init__(self, *, slow: bool) -> None:
        self.slow = slow
        self.steps = self.time_s = 0.0
        self.good = self.bad = 0

    def add(self, other: _Stretch) -> None:
        """Make `other`, which follows, part of this one."""
        self.steps += other.steps
        self.time_s += other.time_s
        self.good += other.good
        self.bad += other.bad


class Stretches:
    """The samples of one scene, in bounded memory."""

    def __init__(self) -> None:
        self._past: deque[_Stretch] = deque(maxlen=_KEPT)
        self._last = _Stretch(slow=False)
        self._level = 0.0
        """The mean rate when the last stretch was closed."""
        self._open = _Stretch(slow=False)
        """What the next block has so far, without the last stretch."""
        self._blocks: deque[Block] = deque(maxlen=_KEPT)
        self.closed = 0
        """How many blocks have been closed."""

    def add(self, steps: float, time_s: float, rate: float, stalled: bool | None = None) -> None:
        """Take the environment steps of `time_s` seconds; where it is not known if they hold a stall, `rate` decides."""
        last = self._last
        slow = rate < self._level * (_EVEN if last.slow else _SLOW) if stalled is None else stalled
        if slow is not last.slow or last.time_s >= _LENGTH_S:
            last = self._close(slow=slow, known=stalled is not None)
        last.steps += steps
        last.time_s += time_s
        last.good += 1
        if not self._level:
            self._level = rate

    def doubt(self) -> None:
        """Take a sample that cannot be."""
        self._last.bad += 1

    def blocks(self, after: int) -> tuple[Block, ...]:
        """The blocks that followed the first `after`, as far as they are kept."""
        kept = len(self._blocks)
        return tuple(itertools.islice(self._blocks, max(0, kept - self.closed + after), kept))

    def _close(self, *, slow: bool, known: bool) -> _Stretch:
        """Begin another stretch; `known` if it is known to be `slow` without a level."""
        last = self._last
        self._past.append(last)
        self._last = _Stretch(slow=slow)
        self._open.add(last)
        same = slow is last.slow
        whole = False
        if same or not known:
            window, whole = self._window()
            self._level = _rate(window) or self._level
        # A stall belongs to the steps before it, and is waited for while the loop has periods.
        waits = whole if same else slow
        if not waits and self._open.time_s >= (_SHORT_S if slow else _LENGTH_S) and (known or not slow):
            self._close_block()
        return self._last

    def _close_block(self) -> None:
        block, self._open = self._open, _Stretch(slow=False)
        if not _doubtful([(block, 1.0)]):
            self._blocks.append(Block(block.steps, block.time_s))
            self.closed += 1

    def _window(self) -> tuple[list[tuple[_Stretch, float]], bool]:
        """The stretches that the rate is of and how much of each, the newest first; whether they are whole periods."""
        newest = [self._last, *reversed(self._past)]
        begin, end = _whole_periods(newest)
        if end:
            return [(stretch, 1.0) for stretch in newest[begin:end]], True
        return list(_last(newest)), False

    def settled(self) -> Settled | None:
        """The rate over the last seconds, whole periods of them; None where it is not known."""
        window, whole = self._window()
        rate = _rate(window)
        if rate is None or _doubtful(window):
            return None
        return Settled(rate, _spread(window, rate, periods=whole))


def _rate(window: list[tuple[_Stretch, float]]) -> float | None:
    """Steps by time."""
    time_s = sum(stretch.time_s * share for stretch, share in window)
    return sum(stretch.steps * share for stretch, share in window) / time_s if time_s > 0 else None


def _doubtful(window: list[tuple[_Stretch, float]]) -> bool:
    """Whether too many samples could not be."""
    bad = sum(stretch.bad for stretch, _ in window)
    return bad > _BAD_SHARE * (bad + sum(stretch.good for stretch, _ in window))


def _last(newest: list[_Stretch]) -> Iterator[tuple[_Stretch, float]]:
    """The stretches of the last seconds, and how much of each; they begin and end behind slow ones where these are near."""
    ages_s = list(itertools.accumulate((stretch.time_s for stretch in newest), initial=0.0))
    slow = [place for place, stretch in enumerate(newest) if stretch.slow]
    begin = slow[0] if slow and ages_s[slow[0]] <= _SHORT_S else 0
    until_s = ages_s[begin] + WINDOW_S
    end = next((place for place in slow if until_s <= ages_s[place] <= until_s + _SHORT_S), None)
    for stretch, age_s in itertools.islice(zip(newest, ages_s, strict=False), begin, end):
        left_s = until_s - age_s
        if end is None and left_s <= 0:
            return
        yield stretch, min(1.0, left_s / stretch.time_s) if end is None and stretch.time_s > 0 else 1.0


def _whole_periods(newest: list[_Stretch]) -> tuple[int, int]:
    """Which of the stretches are the last whole periods, each from one stall's end to the next's; (0, 0) if none are."""
    ends: list[tuple[float, int]] = []  # seconds ago, and the place of the stall
    age_s = slow_s = 0.0
    after_slow = True
    for place, stretch in enumerate(newest):
        if stretch.slow and not after_slow:
            ends.append((age_s, place))
            if age_s - ends[0][0] >= WINDOW_S and len(ends) > 2:
                break
        after_slow = stretch.slow
        age_s += stretch.time_s
        if stretch.slow:
            slow_s += stretch.time_s
        elif age_s > _LONGEST_S and not ends:
            break
    if len(ends) < 2 or slow_s < _RARE * age_s:
        return 0, 0
    since_s, begin = ends[0]
    until_s, end = next((one for one in ends if one[0] - since_s >= WINDOW_S), ends[-1])
    periods_s = [before - after for (after, _), (before, _) in itertools.pairwise(ends)]
    if max(periods_s) > _REGULAR * min(periods_s) or since_s > _OVERDUE * max(periods_s):
        return 0, 0  # it stalls by chance, or no longer
    if until_s - since_s < WINDOW_S / 2 and age_s > WINDOW_S:
        return 0, 0
    return begin, end


def _spread(window: list[tuple[_Stretch, float]], rate: float, *, periods: bool) -> float | None:
    """The standard deviation of the rates of periods, each from one stall's end to the next, or of stretches."""
    parts: list[list[float]] = []
    after_slow = False
    for stretch, share in window:
        if not periods or (stretch.slow and not after_slow):
            parts.append([0.0, 0.0])
        after_slow = stretch.slow
        parts[-1][0] += stretch.steps * share
        parts[-1][1] += stretch.time_s * share
    rates = [(steps / time_s, time_s) for steps, time_s in parts if time_s > 0]
    if len(rates) < 2:
        return None
    return math.sqrt(sum(time_s * (each - rate) ** 2 for each, time_s in rates) / sum(time_s for _, time_s in rates))
