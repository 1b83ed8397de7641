"""The log lines that the screen keeps of a worker or of the ranks of a group, and the search in them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from gmg_tui.scripts.genesis.output.log_text import Severity, head, severity
from gmg_tui.ui.drawing import SIGNS, safe

KEPT_ROWS: Final = 2000
"""Older lines, which have at most 8 KiB each, are in the worker's log file only."""
MAX_SHOWN: Final = 610
"""Characters of a line that are shown."""
_SLACK: Final = 1.125
"""So many times more may be kept than the limit: rows are dropped many at a time."""
_PAUSED: Final = 2
"""So many times more are kept while nothing is dropped."""


class LogRow(NamedTuple):
    """One row of the log: a line, a marker of lines that were left out, or a run of progress lines as their newest."""

    text: str
    end: int = 0
    """How many lines have come up to this one, over all ranks: it identifies the row, and grows from row to row."""
    lines: int = 1
    """How many lines it stands for."""
    progress: bool = False
    """Whether they contain nothing but progress."""
    gap: bool = False
    """Whether this marks lines that were left out."""
    prefix: str = ""
    """The rank that printed it, where there are several."""

    @property
    def shown(self) -> str:
        """The text as it is drawn and searched: without Genesis's prefix, but for the time and the level.

        The end of a very long line, which would push all others out, is in the log file.
        """
        text, prefix = self.text, None if self.gap else head(self.text)
        if prefix is not None:
            level = f"{prefix.level} " if severity(text) is not Severity.NONE else ""
            text = f"{prefix.clock} {level}{text[prefix.length :]}"
        if (missing := len(text) - MAX_SHOWN) > 0:
            text = f"{text[:MAX_SHOWN]} {SIGNS.ellipsis} (+{missing:,} characters)"
        return self.prefix + safe(text)


NO_RANKS: Final[Mapping[str, int]] = MappingProxyType({})
"""The ranks of a log of one worker."""


class LogBuffer:
    """The newest lines of one worker, or with `ranks` (by slot) of all of them, in the order in which they came.

    A run of progress lines is one row, that of the newest: the log file has the others.

    While it is paused no row changes or is dropped: more rows are kept, and those beyond that are not taken until it is
    released. The worker's log file has them, and the engine its newest ones.

    Attributes:
        rows: All rows, in order.
        query: What is searched for; empty when nothing is.
        paused: Whether the rows that are there must stay as they are.
        printed: How many lines have been printed, as far as that is known here.
    """

    def __init__(self, kept: int = KEPT_ROWS, *, ranks: Mapping[str, int] = NO_RANKS) -> None:
        """Keep so many rows."""
        width = len(str(max(ranks.values(), default=0)))
        self._prefixes = {slot: f"[{rank:>{width}}] " for slot, rank in ranks.items()}
        self._most = kept
        self._first: dict[str, int] = {}
        """The number of the first line that came of each worker."""
        self._next: dict[str, int] = {}
        """The number of each worker's next line."""
        self._printed: dict[str, int] = {}
        self._count = 0
        """How many lines have come, or were left out."""
        self._closed = 0
        """How many rows do not take the next progress lines, as they are paused."""
        self._matches: list[int] | None = None
        self.rows: list[LogRow] = []
        self.search("")
        self.paused = False

    @property
    def printed(self) -> int:
        """How many lines have been printed, as far as that is known here."""
        return sum(self._printed.values())

    @property
    def empty(self) -> bool:
        """Whether no line has come yet."""
        return not self._next

    @property
    def below(self) -> int:
        """How many lines have been printed that are newer than the newest that is kept."""
        return self.printed - sum(self._next.values())

    def pause(self) -> None:
        """Leave all rows as they are from now on."""
        self.paused, self._closed = True, len(self.rows)

    def resume(self) -> None:
        """Let rows change and go again."""
        self.paused, self._closed = False, 0
        self._drop()

    def extend(self, first: int, lines: Sequence[str], *, slot: str = "") -> None:
        """Add lines, the first of which has the number `first`; known ones are skipped.

        `slot`: the worker that printed them, where there are several.
        """
        from gmg_tui.scripts.genesis.output import line_patterns  # the first frame needs no expressions

        self._printed[slot] = max(self._printed.get(slot, 0), first + len(lines))
        if self.paused and self._is_over(_PAUSED):
            return
        prefix = self._prefixes.get(slot, "")
        if first < self._first.setdefault(slot, first):
            self._restart(slot, first, prefix)
        begun, start = slot in self._next, self._next.get(slot, 0)
        missing = max(0, first - start)
        self._count += missing
        if missing:
            text = f"… {missing:,} {'lines skipped' if begun else 'earlier lines'}"
            self._append(LogRow(text, self._count, missing, gap=True, prefix=prefix))
        for line in lines[max(0, start - first) :]:
            self._count += 1
            self._append(LogRow(line, self._count, progress=line_patterns.is_mere(line), prefix=prefix))
        self._next[slot] = max(start, first + len(lines))
        self._matches = None
        if not self.paused and self._is_over(_SLACK):
            self._drop()

    def _restart(self, slot: str, first: int, prefix: str) -> None:
        """Forget a worker's lines: what comes now starts earlier.

        A line that was under way when another log was opened and this one again comes before those that were asked for.
        """
        self._first[slot] = first
        self._next.pop(slot, None)
        self._keep([row for row in self.rows if row.prefix != prefix])

    def _append(self, row: LogRow) -> None:
        last = self.rows[-1] if len(self.rows) > self._closed else None
        if last is not None and last.progress and row.progress and last.prefix == row.prefix:
            self.rows.pop()
            row = row._replace(lines=last.lines + 1)
        self.rows.append(row)

    def _is_over(self, times: float) -> bool:
        return len(self.rows) > times * self._most

    def _drop(self) -> None:
        """Drop the oldest rows that are too many."""
        gone = max(0, len(self.rows) - self._most)
        if gone:
            end = self.rows[gone - 1].end
            self._keep([LogRow(f"… {end:,} earlier lines", end, end, gap=True), *self.rows[gone:]])

    def _keep(self, rows: list[LogRow]) -> None:
        self.rows = rows
        self._matches = None

    # Search

    def search(self, query: str) -> None:
        """Search for `query`, ignoring case; an empty one ends the search."""
        self.query = query
        self._pattern = re.compile(re.escape(query), re.IGNORECASE)
        self._matches = None

    def marks(self, row: LogRow) -> list[tuple[int, int]]:
        """Where matches begin and end in what is shown of a row."""
        return [match.span() for match in self._pattern.finditer(row.shown)] if self.query else []

    @property
    def matches(self) -> list[int]:
        """Indices of the rows that contain the query, ascending."""
        if self._matches is None:
            matching = (number for number, row in enumerate(self.rows) if self._pattern.search(row.shown))
            self._matches = list(matching) if self.query else []
        return self._matches

    def match(self, origin: int, direction: str) -> int | None:
        """The nearest match `up` or `down` from the row `origin`, wrapping around; None where there is none.

        `origin` itself is returned only if it is the only match.
        """
        if not self.matches:
            return None
        if direction == "down":
            return next((index for index in self.matches if index > origin), self.matches[0])
        return next((index for index in reversed(self.matches) if index < origin), self.matches[-1])

    def at(self, line: int) -> int:
        """The index of the row that has the line after number `line`, or of the next one; the last if there is none."""
        return max(0, min(bisect_right(self.rows, line, key=lambda row: row.end), len(self.rows) - 1))
