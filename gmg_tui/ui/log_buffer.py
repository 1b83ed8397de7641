"""The lines of the chosen worker that are kept for the screen, with their numbers, and the search through them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

KEPT_LINES = 5000
"""Older lines are in the worker's log file only."""
KEPT_CHARS = 2_000_000
"""So are older ones when the lines are long: the engine cuts a line at 8 KiB, and 5000 of these were 40 MB."""


class LogRow(NamedTuple):
    """One row of the log."""

    text: str
    gap: bool = False
    """Whether this says that lines were left out, rather than being one."""


class LogBuffer:
    """The newest lines of one worker. A row keeps its number when older ones are dropped.

    Attributes:
        first: Number of the oldest row that is kept, from 0.
        next_line: Number that the worker's next line is expected to have; None before the first.
    """

    def __init__(self, kept: int = KEPT_LINES, kept_chars: int = KEPT_CHARS) -> None:
        self.first = 0
        self.next_line: int | None = None
        self._rows: deque[LogRow] = deque()
        self._kept = kept
        self._kept_chars = kept_chars
        self._chars = 0
        self._query = ""
        self.matches: list[int] = []
        """Numbers of the rows that hold the query, ascending."""

    @property
    def end(self) -> int:
        """Number of the row behind the newest."""
        return self.first + len(self._rows)

    @property
    def query(self) -> str:
        """What is searched for; empty when nothing is."""
        return self._query

    def row(self, number: int) -> LogRow:
        """The row of that number, which must be one that is kept."""
        return self._rows[number - self.first]

    def extend(self, first: int, lines: Sequence[str]) -> None:
        """Take in lines of which the first has the number `first`; what is there already is passed over."""
        if self.next_line is not None:
            if first > self.next_line:
                self._append(LogRow(f"… {first - self.next_line:,} lines left out", gap=True))
            else:
                lines = lines[self.next_line - first :]
                first = self.next_line
        elif first > 0:
            self._append(LogRow(f"… {first:,} lines before", gap=True))
        for line in lines:
            self._append(LogRow(line))
        self.next_line = first + len(lines)
        if self.matches and self.matches[0] < self.first:
            self.matches = [number for number in self.matches if number >= self.first]

    def search(self, query: str) -> None:
        """Search for `query`, in any case of letters; an empty one ends the search."""
        self._query = query.casefold()
        self.matches = [number for number, row in enumerate(self._rows, self.first) if self._holds(row)]

    def match(self, origin: int, direction: str) -> int | None:
        """The nearest match from the row `origin`, beginning again at the other end; None where there is none.

        Args:
            origin: Where to look from; itself no answer, unless it is the only one.
            direction: `up` or `down`.
        """
        if not self.matches:
            return None
        if direction == "down":
            return next((number for number in self.matches if number > origin), self.matches[0])
        return next((number for number in reversed(self.matches) if number < origin), self.matches[-1])

    def _holds(self, row: LogRow) -> bool:
        return bool(self._query) and self._query in row.text.casefold()

    def _append(self, row: LogRow) -> None:
        if self._holds(row):
            self.matches.append(self.end)
        self._rows.append(row)
        self._chars += len(row.text)
        while len(self._rows) > self._kept or (self._chars > self._kept_chars and len(self._rows) > 1):
            self._chars -= len(self._rows.popleft().text)
            self.first += 1
