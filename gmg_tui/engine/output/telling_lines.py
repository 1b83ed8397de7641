"""The newest lines of a worker that say more than progress: progress lines push all others out of a ring buffer."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gmg_tui.genesis.output import progress


class Run(NamedTuple):
    """Neighbouring lines."""

    first: int
    """The number of the first."""
    lines: list[bytes]
    after_progress: bool = False
    """Whether all lines between what was asked for, or the run before, and this one say mere progress."""


class TellingLines:
    """Lines with their numbers, at most so many and so many bytes; the oldest go first.

    A line of mere progress is known by a cheap look at its bytes, so that a flood costs little.
    """

    def __init__(self, max_lines: int, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._numbers: deque[int] = deque(maxlen=max_lines)
        self._lines: deque[bytes] = deque(maxlen=max_lines)
        self._complete_from = 0
        """All telling lines from this number on are kept."""

    def take(self, block: bytes, first: int, lines: Sequence[bytes]) -> None:
        """Take the lines of a block, the first of which has the number `first`."""
        places = progress.telling_places(block, lines)
        if not places:
            return
        numbers: Sequence[int] = range(first, first + len(lines))
        if len(places) < len(lines):
            numbers, lines = [first + place for place in places], [lines[place] for place in places]
        gone = len(self._numbers) + len(numbers) > (self._numbers.maxlen or 0)
        self._numbers.extend(numbers)
        self._lines.extend(lines)
        size = sum(map(len, self._lines))
        while size > self._max_bytes and len(self._lines) > 1:
            size -= len(self._lines.popleft())
            self._numbers.popleft()
            gone = True
        if gone:
            self._complete_from = self._numbers[0]

    def between(self, start: int, end: int) -> Iterator[Run]:
        """The lines from number `start` to before `end`; last comes a run without lines, whose `first` is `end`."""
        at, run = start, Run(start, [])
        for number, line in zip(self._numbers, self._lines, strict=True) if start < end else ():
            if not start <= number < end:
                continue
            if number != at or not run.lines:
                if run.lines:
                    yield run
                run = Run(number, [], after_progress=self._complete_from <= at)
            run.lines.append(line)
            at = number + 1
        if run.lines:
            yield run
        yield Run(end, [], after_progress=self._complete_from <= at)
