"""The log lines that the screen keeps of a worker or of the ranks of a group, those it shows, and the search in them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

KEPT_LINES = 5000
"""Older lines are in the worker's log file only."""
KEPT_CHARS = 2_000_000
"""Long lines count too: the engine cuts a line at 8 KiB, and 5000 of those would be 40 MB."""
_SLACK = 8
"""An eighth more may be kept than the limit: what is dropped goes many at a time, since all rows are made anew then."""
_PROGRESS_SHARE = 2
"""One line in so many kept ones may say mere progress: such lines give way to others."""


class LogRow(NamedTuple):
    """One row of the log: a line, a marker of lines that were left out, or progress lines folded into their newest."""

    text: str
    end: int = 0
    """How many lines have come up to this one, over all ranks: it identifies the row, and grows from row to row."""
    lines: int = 1
    """How many lines it stands for."""
    progress: bool = False
    """Whether they say nothing but progress."""
    gap: bool = False
    """Whether this marks lines that were left out."""
    prefix: str = ""
    """The rank that printed it, where there are several."""


def progress_gap(end: int, count: int) -> LogRow:
    """The marker of `count` progress lines that were left out before the line number `end`."""
    lines = "line" if count == 1 else "lines"
    return LogRow(f"… {count:,} progress {lines}", end, count, progress=True, gap=True)


def _folded(row: LogRow, newer: LogRow) -> LogRow:
    """Two neighbouring rows of progress lines as one."""
    count = row.lines + newer.lines
    if row.gap and newer.gap:
        return progress_gap(newer.end, count)._replace(prefix=newer.prefix)
    return (row if newer.gap else newer)._replace(end=newer.end, lines=count, gap=False)


_NONE: Mapping[str, int] = MappingProxyType({})


class LogBuffer:
    """The newest lines of one worker, and the rows that are shown of them.

    With `ranks` (by slot) it has the lines of all of them in the order in which they came, each with its rank.

    Lines that say mere progress are folded: neighbours make one row, that of the newest. A filter shows the lines that
    hold it, and folds none. Search and filter look at a line as it is shown.

    While it is held no row changes or is dropped: as many lines again are kept, and those beyond that are not taken until
    it is let go. The worker's log file has them, and the engine its newest ones.

    Attributes:
        rows: What is shown, in order.
        query: What is searched for, in lower case; empty when nothing is.
        matches: Indices of the rows that hold the query, ascending.
        filter: What the shown lines hold, in lower case; empty when all are shown.
        kept: How many lines are kept, whether they are shown or not.
    """

    def __init__(
        self,
        kept: int = KEPT_LINES,
        kept_chars: int = KEPT_CHARS,
        *,
        ranks: Mapping[str, int] = _NONE,
        shown: Callable[[str], str] = str,
    ) -> None:
        """Keep so many lines and characters; `shown` makes of a line what is shown."""
        width = len(str(max(ranks.values(), default=0)))
        self._prefixes = {slot: f"[{rank:>{width}}] " for slot, rank in ranks.items()}
        self._next: dict[str, int] = {}
        """The number of each worker's next line."""
        self._starts: dict[str, int] = {}
        """The number of the first line that is kept of each."""
        self._count = 0
        self._printed: dict[str, int] = {}
        """How many lines each worker has printed, as far as that is known here."""
        self.rows: list[LogRow] = []
        self.query = ""
        self.matches: list[int] = []
        self.filter = ""
        self.kept = 0
        self._shown = shown
        self._held = False
        self._closed = 0
        """How many rows do not take the next progress lines, as they are held."""
        self._lines: list[LogRow] = []
        """All that is kept, unfolded: lines and gaps."""
        self._most = kept
        self._most_chars = kept_chars
        self._chars = 0

    @property
    def held(self) -> bool:
        """Whether the rows that are there must stay as they are."""
        return self._held

    @held.setter
    def held(self, held: bool) -> None:
        if held == self._held:
            return
        self._held = held
        self._closed = len(self.rows) if held else 0
        if not held:
            self._drop()
            self._make_rows()

    @property
    def known(self) -> int:
        """How many lines have been printed, as far as that is known here."""
        return sum(self._printed.values())

    @property
    def next_line(self) -> int | None:
        """How many of them have come here or were left out; None before the first."""
        return sum(self._next.values()) if self._next else None

    @property
    def end(self) -> int:
        """How many rows there are."""
        return len(self.rows)

    @property
    def below(self) -> int:
        """How many lines the worker has printed that are newer than the newest that is kept."""
        return self.known - (self.next_line or 0)

    @property
    def complete(self) -> bool:
        """Whether all that the worker has printed is kept."""
        return self.kept == self.known

    def text_of(self, row: LogRow) -> str:
        """What is shown of a row."""
        return row.prefix + (row.text if row.gap else self._shown(row.text))

    def extend(self, first: int, lines: Sequence[str], *, after_progress: bool = False, slot: str = "") -> bool:
        """Add lines, the first of which has the number `first`; known ones are skipped.

        `after_progress`: the lines missing before them are mere progress. `slot`: the worker that printed them, where
        there are several. Returns whether anything but progress has come.
        """
        from gmg_tui.genesis.output import lines as genesis_lines  # the first frame needs no expressions

        self._printed[slot] = max(self._printed.get(slot, 0), first + len(lines))
        if self._held and self._is_full(2):
            return True
        prefix = self._prefixes.get(slot, "")
        if first < self._starts.setdefault(slot, first):
            self._restart(slot, first, prefix)
        begun, start = slot in self._next, self._next.get(slot, 0)
        end = self._count + max(0, first - start)
        if first > start:
            count = first - start
            if after_progress:
                row = progress_gap(end, count)
            else:
                row = LogRow(f"… {count:,} {'lines skipped' if begun else 'earlier lines'}", end, count, gap=True)
            self._append(row._replace(prefix=prefix))
        else:
            lines = lines[start - first :]
            first = start
        telling = False
        for number, line in enumerate(lines, end + 1):
            mere = genesis_lines.is_mere(line)
            telling |= not mere
            self._append(LogRow(line, number, progress=mere, prefix=prefix))
        self._count = end + len(lines)
        self._next[slot] = first + len(lines)
        if not self._held and self._is_full(1 + 1 / _SLACK):
            self._drop()
            self._make_rows()
        return telling

    def _restart(self, slot: str, first: int, prefix: str) -> None:
        """Forget a worker's lines: what comes now starts earlier.

        A line that was under way when another log was opened and this one again comes before those that were asked for.
        """
        self._starts[slot] = first
        self._next.pop(slot, None)
        self._lines = [line for line in self._lines if line.prefix != prefix]
        self._chars = sum(len(line.text) for line in self._lines)
        self.kept = sum(not line.gap for line in self._lines)
        self._make_rows()

    def only(self, text: str) -> None:
        """Show only lines that hold `text`, ignoring case; all of them when it is empty."""
        self.filter = text.casefold()
        self._make_rows()

    def search(self, query: str) -> None:
        """Search for `query`, ignoring case; an empty one ends the search."""
        self.query = query.casefold()
        self._find()

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
        return max(0, min(bisect_right(self.rows, line, key=lambda row: row.end), self.end - 1))

    def _holds(self, row: LogRow, text: str) -> bool:
        return text in (row.prefix + self._shown(row.text)).casefold()

    def _find(self) -> None:
        query = self.query
        self.matches = [i for i, row in enumerate(self.rows) if self._holds(row, query)] if query else []

    def _append(self, line: LogRow) -> None:
        self._lines.append(line)
        self._chars += len(line.text)
        self.kept += not line.gap
        self._add_row(line)

    def _add_row(self, line: LogRow) -> None:
        if self.filter:
            if line.gap or not self._holds(line, self.filter):
                return
        elif (
            line.progress
            and len(self.rows) > self._closed
            and self.rows[-1].progress
            and self.rows[-1].prefix == line.prefix
        ):
            self.rows[-1] = _folded(self.rows[-1], line)
            self._note_match()
            return
        self.rows.append(line)
        self._note_match()

    def _note_match(self) -> None:
        """Have `matches` say whether the newest row is one."""
        newest = len(self.rows) - 1
        if self.matches and self.matches[-1] == newest:
            self.matches.pop()
        if self.query and self._holds(self.rows[newest], self.query):
            self.matches.append(newest)

    def _make_rows(self) -> None:
        query, self.query = self.query, ""
        self.rows, self.matches, self._closed = [], [], 0  # rows that are made anew need not stay as they were
        for line in self._lines:
            self._add_row(line)
        self.query = query
        self._find()
        self._closed = len(self.rows) if self._held else 0

    def _is_full(self, times: float = 1.0) -> bool:
        """Whether there are more lines, or longer ones, than `times` what is kept."""
        return len(self._lines) > times * self._most or self._chars > times * self._most_chars

    def _drop(self) -> None:
        """Drop the oldest lines that are too many, first those that say mere progress."""
        if not self._is_full():
            return
        self._lines = list(self._without_old_progress())
        gone, chars = 0, sum(len(line.text) for line in self._lines)
        while gone < len(self._lines) - 1 and (len(self._lines) - gone > self._most or chars > self._most_chars):
            chars -= len(self._lines[gone].text)
            gone += 1
        if gone:
            end = self._lines[gone - 1].end
            self._lines[:gone] = [LogRow(f"… {end:,} earlier lines", end, end, gap=True)]
        self._chars = sum(len(line.text) for line in self._lines)
        self.kept = sum(1 for line in self._lines if not line.gap)

    def _without_old_progress(self) -> Iterable[LogRow]:
        """What is kept, with no more progress lines than their share; those dropped are counted in gaps."""
        surplus = sum(line.progress and not line.gap for line in self._lines) - self._most // _PROGRESS_SHARE
        gap: LogRow | None = None
        for line in self._lines:
            if line.progress and (line.gap or surplus > 0):
                surplus -= not line.gap
                gap = progress_gap(line.end, line.lines + (gap.lines if gap is not None else 0))
                continue
            if gap is not None:
                yield gap
                gap = None
            yield line
        if gap is not None:
            yield gap
