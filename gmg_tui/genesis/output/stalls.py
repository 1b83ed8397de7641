"""How long the lines of a loop with stalls took, by the wall time of the last half minute.

Genesis prints after the step that completes 0.05 s, so that a line of steps alone is of as many as take that long. A stall
is part of the step before it, and such a line may be of any number up to that. Which one, it does not tell by when it
arrives, for lines are read late by an unknown part of a second. Over many of them the times must add up to what has
passed: one quantity is chosen so that they do. It is the length of the stalls, where those of a loop are alike, or the
number of steps between two, whichever leaves the lines nearer to when they were read.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Collection, Sequence

from gmg_tui.genesis.output.line_times import STALLED, Alike, Line, Loop, most_steps, plain_steps

LATE_S = 0.25
"""How far the last line of a block is taken to lie from the moment at which the block was read, at most. Lines that arrive
in blocks of a second or two lie no nearer; with more, a block's stalls would be counted in the next one too."""
_SPAN_S = 30.0
"""Blocks of so many seconds are looked at."""
_APART_S = 0.5
"""Blocks that are nearer to each other count as one."""
_AGAIN_S, _AGAIN = 1.0, 0.15
"""The stalls are looked at so often at most, and when the time that is known has grown by this share or been renewed."""
_MANY = 200
"""More lines at once, or each second, are not what Genesis prints, and not looked at."""
_FEWEST, _SHORTEST_S = 3, 1.0
"""Fewer stalls, or a shorter time, tell nothing."""
_HIDDEN = 1.3
"""Where more than this multiple of the lines' longest time has passed, more of them hold stalls than it seems."""
_LEFT = 0.005
"""The share of the time that the lines may exceed. Where each stall follows a single step, its rate says how long it is,
and all shorter ones would explain the time as well."""
_EXACT_S = 0.05
"""How exactly it is known when a block was read."""
_LEAST, _GREATEST, _HALVINGS = 1e-2, 1e4, 20
"""The lengths, or steps, that are looked for."""
_NEAR, _FEW_HALVINGS = 1.5, 8
"""They are looked for within this factor of what they were before, where they lie there."""
_MOSTLY = 0.7
_ANYWAY, _CLEARLY = 0.5, 1.2
"""How far all blocks together are off in any case, squared; another kind of loop must then be so many times nearer."""


class _Block:
    """Lines that were read together."""

    __slots__ = ("arrival", "begins", "fastest", "plain_s", "plain_steps", "rates", "slowest")

    def __init__(self, arrival: float, *, begins: bool) -> None:
        self.arrival = arrival
        self.begins = begins
        """Whether nothing is known of the time before it; it is then without lines."""
        self.rates: list[float] = []
        self.plain_steps = self.plain_s = 0.0
        """How many steps its lines are of, and how long they took, if they hold no stalls."""
        self.slowest, self.fastest = math.inf, 0.0

    def add(self, rates: Sequence[float]) -> None:
        self.rates += rates
        steps = [plain_steps(rate) for rate in rates]
        self.plain_steps += sum(steps)
        self.plain_s += sum(count / rate for count, rate in zip(steps, rates, strict=True))
        self.slowest = min(self.slowest, *rates)
        self.fastest = max(self.fastest, *rates)

    def split(self, loop: Loop, plain: float) -> tuple[float, list[Line], float]:
        """How long the lines without stalls took, the others, and the plain steps since the last of these."""
        if self.slowest >= loop.fast:
            return self.plain_s, [], plain + self.plain_steps
        lines, plain = loop.lines(self.rates, plain)
        stalled = [line for line in lines if line.slope]
        return sum(line.least_s for line in lines if not line.slope), stalled, plain


class Stalls:
    """The lines of one scene, and what is known of its stalls. All rates are per environment, and above 0."""

    def __init__(self) -> None:
        self._blocks: deque[_Block] = deque()
        self._due = 0.0
        self._line_s = 0.0
        """How long a line takes on average."""
        self._loop: Loop | None = None
        self._alike: dict[Alike, float] = {}
        """What the stalls have in common, by each kind of loop."""
        self._plain = math.inf
        """Steps since the last line that holds a stall; infinite where they are not known."""

    def add(self, rates: Sequence[float], now: float, usual: float) -> None:
        """Take all lines since the last block, read at `now`; `usual` is the rate of those without a stall."""
        blocks = self._blocks
        if not blocks or len(blocks[-1].rates) > _MANY:
            blocks.clear()
            self._loop = None
            self.begin(now)
            return
        if blocks[-1].begins or now - blocks[-2].arrival >= _APART_S:
            blocks.append(_Block(now, begins=False))
        blocks[-1].arrival = now
        blocks[-1].add(rates)
        self._forget(now)
        if now >= self._due:
            self._due = now + max(_AGAIN_S, _AGAIN * (now - blocks[0].arrival))
            self._look(usual)

    def begin(self, now: float) -> None:
        """Know only from now on which lines are printed, and when."""
        if self._blocks and self._blocks[-1].begins:
            self._blocks.pop()
        self._blocks.append(_Block(now, begins=True))
        self._plain = math.inf
        self._forget(now)

    def times_s(self, rates: Sequence[float], since_s: float, before_s: float) -> list[float] | None:
        """How long each of the last lines took; None where there are no stalls, or nothing is known of them.

        The line before them was printed `since_s` ago, and the last of them not more than `before_s` ago.
        """
        if self._loop is None:
            return None
        lines, self._plain = self._loop.lines(rates, self._plain)
        alike = self._alike[self._loop.kind]
        taken_s = _taken_s(lines, alike)
        # A stall that is unlike the others shows in when its line arrives.
        late_s = LATE_S + min(before_s, self._alike.get(Alike.LENGTH, self._line_s))
        wanted_s = min(max(taken_s, since_s - late_s), since_s + LATE_S)
        if wanted_s != taken_s:
            alike = _greatest(lambda alike: wanted_s - _taken_s(lines, alike), _LEAST, _GREATEST, _HALVINGS)
        times_s = [line.time_s(alike) for line in lines]
        if self._loop.kind is Alike.LENGTH and self._loop.most > 5:
            # A line that is too quick to hold most of such a stall is of steps that were slow by chance.
            usual_s = self._alike[Alike.LENGTH]
            times_s = [
                line.least_s if line.most_s < _MOSTLY * usual_s else time_s
                for line, time_s in zip(lines, times_s, strict=True)
            ]
        return [
            max(1.0, round(rate * time_s)) / rate if line.slope else time_s
            for line, rate, time_s in zip(lines, rates, times_s, strict=True)
        ]

    def stalled(self, rate: float) -> bool | None:
        """Whether a line of this rate is slow for a stall; None as `times_s`. Where all lines hold one, none is."""
        return None if self._loop is None else rate < self._loop.fast < math.inf

    def _forget(self, now: float) -> None:
        blocks = self._blocks
        while len(blocks) > 2 and blocks[1].arrival < now - _SPAN_S:
            blocks.popleft()
            blocks[0] = _Block(blocks[0].arrival, begins=True)

    def _look(self, usual: float) -> None:
        """Find out what the lines may be of, and what the stalls have in common."""
        before, self._loop = self._loop, None
        usual_kind = before.kind if before is not None else Alike.LENGTH
        found: dict[Alike, tuple[float, float]] = {}
        least = math.inf
        for loop in self._loops(usual):
            left = _Left(self._blocks, loop, self._line_s)
            alike = _solved(left, self._alike.get(loop.kind))
            unlike = (left.unlike(alike) + _ANYWAY) * (1.0 if loop.kind is usual_kind else _CLEARLY)
            found[loop.kind] = min(found.get(loop.kind, (math.inf, 0.0)), (unlike, alike))
            if unlike < least:
                least, self._loop = unlike, loop
        self._alike = {kind: alike for kind, (_, alike) in found.items()}

    def _loops(self, usual: float) -> list[Loop]:
        """The kinds of loops that it may be; none where there are no stalls."""
        blocks = self._blocks
        passed_s = sum(
            after.arrival - before.arrival for before, after in itertools.pairwise(blocks) if not after.begins
        )
        count = sum(len(block.rates) for block in blocks)
        if passed_s < _SHORTEST_S or not 0 < count <= _MANY * _SPAN_S:
            return []
        self._line_s = passed_s / count
        fastest = max(block.fastest for block in blocks)
        loops: dict[int, Loop] = {}
        for fast in (STALLED * min(usual, fastest), STALLED * fastest):
            loop = Loop(fast, 1 / fastest, most_steps(fastest), Alike.LENGTH)
            split = [block.split(loop, 0.0) for block in blocks]
            longest_s = sum(plain_s + _taken_s(stalled, math.inf) for plain_s, stalled, _ in split)
            if passed_s > self._line_s + _HIDDEN * longest_s:
                continue
            count = sum(len(stalled) for _, stalled, _ in split)
            if count < _FEWEST:
                return []
            loops[count] = loop
        if not loops:
            return [Loop(math.inf, 0.0, math.inf, Alike.STEPS)]
        return [loop._replace(kind=kind) for loop in loops.values() for kind in Alike]


class _Left:
    """What is left of the time of all blocks."""

    def __init__(self, blocks: Collection[_Block], loop: Loop, line_s: float) -> None:
        self._runs: list[list[tuple[float, float, list[Line], Line]]] = []
        """Blocks that follow each other: when each was read, its plain lines' seconds, the others, the line awaited then."""
        usual = Line(0.0, 0.0, line_s, line_s)
        plain = unknown = math.inf if loop.fast < math.inf else 0.0
        for block, after in zip(blocks, [*itertools.islice(blocks, 1, None), None], strict=True):
            if block.begins:
                self._runs.append([])
            plain_s, stalled, plain = block.split(loop, unknown if block.begins else plain)
            awaited = loop.lines(after.rates[:1], plain)[0][0] if after is not None and after.rates else usual
            self._runs[-1].append((block.arrival, plain_s, stalled, awaited))

    def __call__(self, alike: float) -> float:
        """The share of the time that is left, or a little more."""
        by_time, time, _ = self._squares(alike)
        return (by_time / time if time > 0 else 0.0) + _LEFT

    def unlike(self, alike: float) -> float:
        """How far the blocks lie from where they should, squared."""
        by_time, time, late = self._squares(alike)
        return late - (by_time**2 / time if time > 0 else 0.0)

    def _squares(self, alike: float) -> tuple[float, float, float]:
        """Weighted sums, each run's from its means: how late blocks are by when they were read; the squares of both."""
        by_time = time = late = 0.0
        for run in self._runs:
            taken_s = w = wx = wy = wxx = wxy = wyy = 0.0
            begin = run[0][0]
            for arrival, plain_s, stalled, awaited in run:
                taken_s += plain_s + _taken_s(stalled, alike)
                # The last line was printed at any moment of the time that the next one took.
                next_s = awaited.time_s(alike)
                x = arrival - begin
                y = x - taken_s - next_s / 2
                weight = 1 / (_EXACT_S + next_s) ** 2
                w += weight
                wx += weight * x
                wy += weight * y
                wxx += weight * x * x
                wxy += weight * x * y
                wyy += weight * y * y
            by_time += wxy - wx * wy / w
            time += wxx - wx * wx / w
            late += wyy - wy * wy / w
        return by_time, time, late


def _taken_s(lines: Sequence[Line], alike: float) -> float:
    # Spelled out, as nearly all of the time of a look is spent here.
    return sum(
        [
            least_s if (time_s := slope * (alike - offset)) < least_s else most_s if time_s > most_s else time_s
            for slope, offset, least_s, most_s in lines
        ]
    )


def _solved(left: Callable[[float], float], before: float | None) -> float:
    """The greatest value for which something is left; it was `before`."""
    if before is not None and left(before / _NEAR) > 0 >= left(before * _NEAR):
        return _greatest(left, before / _NEAR, before * _NEAR, _FEW_HALVINGS)
    return _greatest(left, _LEAST, _GREATEST, _HALVINGS)


def _greatest(left: Callable[[float], float], low: float, high: float, halvings: int) -> float:
    for _ in range(halvings):
        middle = math.sqrt(low * high)
        if left(middle) > 0:
            low = middle
        else:
            high = middle
    return low
