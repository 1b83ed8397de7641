"""The newest log lines of a worker, or of the ranks of a group, as the engine sends them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from gmg_tui.ui.log.rows import LogRow, fold

MAX_FOLLOWED_ROWS: Final = 2000
"""Rows kept while the log is followed; older lines are in the log file only."""
_SLACK: Final = 1.125
"""Rows are dropped in batches, above this multiple of the limit."""
_PAUSED: Final = 2
"""The multiple of the limit kept while the log is paused."""
NO_RANKS: Final[Mapping[str, int]] = MappingProxyType({})
"""The ranks in the log of one worker."""


class LogBuffer:
    """The newest lines of one worker, or with `ranks` (by slot) of all of them, in order of arrival.

    A run of progress lines is one row. While it is paused, no row changes or is dropped, and lines that exceed the limit
    are not kept: the log file has them, and the engine the newest ones.

    Attributes:
        rows: All rows, in order.
        paused: True if the existing rows must stay as they are.
    """

    def __init__(self, kept: int = MAX_FOLLOWED_ROWS, *, ranks: Mapping[str, int] = NO_RANKS) -> None:
        width = len(str(max(ranks.values(), default=0)))
        self._prefixes = {slot: f"[{rank:>{width}}] " for slot, rank in ranks.items()}
        self._kept = kept
        self._first: dict[str, int] = {}
        """The number of each worker's first line that arrived."""
        self._next: dict[str, int] = {}
        """The number of each worker's next line."""
        self._printed: dict[str, int] = {}
        self._count = 0
        """Number of lines that arrived or were skipped."""
        self._closed = 0
        """Number of rows that are paused."""
        self.rows: list[LogRow] = []
        self.paused = False

    @property
    def printed(self) -> int:
        """The number of lines printed so far."""
        return sum(self._printed.values())

    @property
    def empty(self) -> bool:
        """True until the first line arrives."""
        return not self._next

    @property
    def below(self) -> int:
        """The number of printed lines that are newer than the newest row."""
        return self.printed - sum(self._next.values())

    @property
    def has_gap(self) -> bool:
        """True if earlier lines are missing at the top."""
        return bool(self.rows) and self.rows[0].gap

    def pause(self) -> None:
        """Keep all rows as they are until `resume`."""
        self.paused, self._closed = True, len(self.rows)

    def resume(self) -> None:
        """Let rows change and drop again."""
        self.paused, self._closed = False, 0
        self._drop()

    def extend(self, first: int, lines: Sequence[str], *, slot: str = "") -> None:
        """Add lines, numbered from `first`, of a group's rank on `slot`; known ones are skipped."""
        from gmg_tui.scripts.genesis.output import line_patterns  # the first frame needs no expressions

        self._printed[slot] = max(self._printed.get(slot, 0), first + len(lines))
        if self.paused and self.is_over(_PAUSED):
            return
        prefix = self._prefixes.get(slot, "")
        if first < self._first.setdefault(slot, first):
            self._restart(slot, first, prefix)
        begun, start = slot in self._next, self._next.get(slot, 0)
        missing = max(0, first - start)
        self._count += missing
        if missing:
            self._append(_gap(missing, self._count, "lines skipped" if begun else "earlier lines", prefix))
        for line in lines[max(0, start - first) :]:
            self._count += 1
            self._append(LogRow(line, self._count, progress=line_patterns.is_mere(line), prefix=prefix))
        self._next[slot] = max(start, first + len(lines))
        if not self.paused and self.is_over(_SLACK):
            self._drop()

    def prepend(self, rows: Sequence[LogRow], replaced: int, *, complete: bool) -> int:
        """Put rows of the log file in place of the gap and all else of the first `replaced` rows.

        `complete`: the first of them is the first of the file. Returns how many rows further down the others are.
        """
        before, end = len(self.rows), self.rows[replaced - 1].end
        made = list[LogRow]()
        for row in reversed(rows):
            made.append(row._replace(end=end))
            end -= row.lines
        if not complete:
            made.append(_gap(max(0, end), end, "earlier lines"))
        made.reverse()
        for row in self.rows[replaced : replaced + 1]:
            fold(made, row)
        self.rows = made + self.rows[replaced + 1 :]
        moved = len(self.rows) - before
        self._closed += moved if self.paused else 0
        return moved

    def _restart(self, slot: str, first: int, prefix: str) -> None:
        """Forget a worker's lines, since an earlier one has arrived.

        A line may be on its way when another log is opened and then this one again; it arrives before the requested ones.
        """
        self._first[slot] = first
        self._next.pop(slot, None)
        self.rows = [row for row in self.rows if row.prefix != prefix]

    def _append(self, row: LogRow) -> None:
        fold(self.rows, row, self._closed)

    def is_over(self, times: float) -> bool:
        """True if there are more rows than this multiple of the limit."""
        return len(self.rows) > times * self._kept

    def _drop(self) -> None:
        """Drop the oldest rows above the limit."""
        gone = max(0, len(self.rows) - self._kept)
        if gone:
            end = self.rows[gone - 1].end
            self.rows = [_gap(end, end, "earlier lines"), *self.rows[gone:]]


def _gap(missing: int, end: int, what: str, prefix: str = "") -> LogRow:
    return LogRow(f"… {missing:,} {what}", end, missing, gap=True, prefix=prefix)
