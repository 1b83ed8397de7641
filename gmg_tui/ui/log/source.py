"""The rows of a log by position: the newest from the engine, all others from the log file."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import takewhile
from operator import neg
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.ui.log.rows import LIVE, LogRow, Query, fold, index_of, join

if TYPE_CHECKING:
    from gmg_tui.ui.log.file import LogFile

MAX_LIVE_ROWS: Final = 2000
"""Rows kept while the log is followed; dropped in batches above `_SLACK` times this."""
_SLACK: Final = 1.125
MAX_ROWS: Final = 4000
"""Rows kept while the log is paused; reading more drops rows at the other end."""
MAX_MATCHES: Final = 100_000
"""Matches after which a search stops."""
_SEARCHED_BYTES: Final = 4 << 20
"""Bytes searched at once."""
_PAGE_ROWS: Final = 500
"""Rows read from the file at once."""


class LogSource:
    """The log of one worker, or of a job in a file.

    A run of progress lines is one row. While the log is followed, `rows` ends with the newest line. While paused, `rows`
    is another list, extended above and below; positions in it only grow.

    Attributes:
        name: The slot's name.
        rows: The loaded rows.
        file: The file that offsets in the rows refer to; None before it is read.
    """

    def __init__(self, name: str, path: Callable[[], Path | None] = lambda: None) -> None:
        """`path` returns the path of the log file; None if there is none."""
        self.name = name
        self._path = path
        self.file: LogFile | None = None
        self._first, self._next = -1, 0
        """Numbers of the first line received (-1 before it) and of the next."""
        self._live: list[LogRow] = []
        self._end = LIVE
        """The position after the newest line."""
        self.rows = self._live

    @property
    def following(self) -> bool:
        """True if new lines appear in the rows."""
        return self.rows is self._live

    @property
    def printed(self) -> int:
        """The number of lines printed so far."""
        return self._next

    @property
    def has_above(self) -> bool:
        """True if the first row is not the first one of the log."""
        return bool(self.rows) and (self.rows[0].gap or self.rows[0].start not in {0, LIVE})

    @property
    def has_below(self) -> bool:
        """True if there are newer lines than the last row, or may be in the file."""
        return not self.following and bool(self.rows) and (self.rows[-1].end != self._end)

    # Lines from the engine

    def extend(self, first: int, lines: Sequence[str]) -> None:
        """Adds lines, numbered from `first`, skipping known ones."""
        from gmg_tui.scripts.genesis.output import line_patterns  # the first frame needs no expressions

        rows, is_start = self._live, self._first < 0
        if is_start or first < self._first:
            # Lines in transit when this log was reopened may precede the requested ones.
            rows.clear()
            self._first, self._next, self._end, is_start = first, 0, LIVE, True
        known = self._next
        if missing := max(0, first - known):
            self._end += missing
            rows.append(_gap(missing, self._end, "earlier lines" if is_start else "lines skipped"))
        for line in lines[max(0, known - first) :]:
            self._end += 1
            fold(rows, LogRow(line, self._end - 1, self._end, progress=line_patterns.is_progress_only(line)))
        self._next = max(known, first + len(lines))
        if len(rows) > MAX_LIVE_ROWS * _SLACK:
            del rows[:-MAX_LIVE_ROWS]
            self._mark_missing()

    def _mark_missing(self) -> None:
        if self._live and (missing := self._live[0].start - LIVE) > 0:
            self._live.insert(0, _gap(missing, self._live[0].start, "earlier lines"))

    def lines_below(self, index: int) -> int | None:
        """Returns the number of lines below a row; None if it is read from the file."""
        row = self.rows[index]
        return max(0, self._end - row.end) if row.end >= LIVE else None

    # Following

    def pause(self) -> None:
        """Keeps the rows as they are until `follow`."""
        if self.following and self.rows:
            self.rows = [*self._live]

    def follow(self) -> None:
        """Shows new lines again."""
        self.rows = self._live

    def catch_up(self) -> None:
        """Adds lines received since the last row, up to the first gap."""
        newer = [*takewhile(lambda row: not row.gap, self._newer())]
        if newer and len(self.rows) < MAX_ROWS:
            self.rows = join(self.rows, newer)

    def _newer(self) -> list[LogRow]:
        """Returns the engine's rows after the last row of a paused log."""
        if self.following or not self.rows or (end := self.rows[-1].end) < LIVE:
            return []
        newer = [row for row in self._live if row.end > end]
        if newer and newer[0].gap:
            newer[0] = _gap(newer[0].end - end, newer[0].end, "lines skipped")
        return newer

    def cut_at_gap(self, index: int) -> None:
        """Drops rows before the last gap above a row, so that it is filled from the file."""
        gap = next((number for number in range(index, 0, -1) if self.rows[number].gap), 0)
        if not self.following and gap and self._path() is not None:
            del self.rows[:gap]

    # Lines from the file

    async def open(self) -> LogFile | None:
        """Returns the log file; None if none can be read."""
        from gmg_tui.ui.log.file import LogFile  # the first frame needs no expressions

        path = self._path()
        try:
            file = None if path is None else await in_daemon_thread(LogFile, path)
        except OSError:
            return self.file
        is_known = file is not None and self.file is not None and file.identity == self.file.identity
        return self.file if is_known else file

    async def load_end(self) -> None:
        """Loads the end of the file, if no engine sends lines. Raises `OSError`."""
        self.file = await self.open()
        if self.file is not None:
            self._live[:] = await in_daemon_thread(self.file.before, self.file.size, _PAGE_ROWS)

    async def load_above(self) -> bool:
        """Loads rows above the first. Returns False if there are none. Raises `OSError`."""
        rows, skipped = self.rows, int(self.has_above and self.rows[0].gap)
        if not self.has_above or len(rows) <= skipped:
            return False
        top, first = rows[0], rows[skipped]
        file = self.file if first.start < LIVE else await self.open()
        if file is None:
            return False
        at = first.start if first.start < LIVE else await self.offset_after(first, file)
        page = await in_daemon_thread(file.before, at, _PAGE_ROWS) if at >= 0 else []
        if not page or rows is not self.rows or rows[0] is not top or rows[skipped].start != first.start:
            return False
        if first.start >= LIVE:
            page[-1] = page[-1]._replace(end=first.end)  # it is the same row
        self.file = file
        rows[:] = join(page, rows[skipped:])
        if not self.following:
            del rows[MAX_ROWS:]
        return True

    async def load_below(self) -> int | None:
        """Loads rows below the last row of a paused log. Raises `OSError`.

        Returns:
            That row's position, a new one if the log continues in the file; None if nothing follows.
        """
        rows, last, page, file = self.rows, self.rows[-1], self._newer(), self.file
        if last.end < LIVE and file is not None:
            page = await in_daemon_thread(file.after, last.end, _PAGE_ROWS)
        elif page and page[0].gap and (at := await self._continue_in_file(last)) > 0:
            return at - 1
        if not page or page[-1].end == last.end or rows is not self.rows:
            return None
        self.rows = join(rows, page)[-MAX_ROWS:]
        return last.position

    async def _continue_in_file(self, row: LogRow) -> int:
        """Shows the file's rows around the end of an engine row. Returns its offset; -1 if unknown."""
        file = await self.open()
        at = await self.offset_after(row, file) if file is not None else -1
        return at if at > 0 and await self.jump(at, Query(), file) else -1

    async def jump(self, offset: int, query: Query, file: LogFile | None = None) -> bool:
        """Pauses at the rows around an offset of the file. Returns False if there are none. Raises `OSError`."""
        file = file or await self.open()
        page = await in_daemon_thread(file.around, offset, _PAGE_ROWS, query) if file is not None else []
        if not page:
            return False
        if file is not self.file:
            self._forget_file()
        self.rows, self.file = page, file
        return True

    async def offset_after(self, row: LogRow, file: LogFile) -> int:
        """Returns the file offset after a row; -1 if unknown. Raises `OSError`."""
        return row.end if row.end < LIVE else await in_daemon_thread(file.locate, row.text, self._end - row.end)

    def index(self, position: int, file: LogFile | None) -> int | None:
        """Returns the index of the row at a position (an offset if in a `file`); None if there is none."""
        if not self.rows or file not in {None, self.file}:
            return None
        row = self.rows[index := index_of(self.rows, position)]
        return index if row.start <= position < row.end and (file is None or row.end < LIVE) else None

    def _forget_file(self) -> None:
        """Drops the rows of the previously open file."""
        kept = [row._replace(start=max(row.start, LIVE)) for row in self._live if row.end > LIVE]
        self._live[:] = kept
        self._mark_missing()


class Search:
    """The matches of a query in a log file, or without one in some rows.

    Attributes:
        found: Positions of the matches, last first.
    """

    def __init__(self, query: Query, file: LogFile | None, rows: Sequence[LogRow]) -> None:
        self.query, self.file = query, file
        self.found = self._matches(rows) if file is None else []
        self._size = self._left = file.size if file is not None else 0

    @property
    def is_full(self) -> bool:
        """True if the limit of matches is reached."""
        return len(self.found) >= MAX_MATCHES

    @property
    def running(self) -> bool:
        """True if there is more to search."""
        return self._left > 0 and not self.is_full

    @property
    def searched_pct(self) -> int:
        """Percent of the file searched."""
        return 100 - 100 * self._left // max(1, self._size)

    async def step(self) -> None:
        """Searches the next part of the file, from the end backwards. Raises `OSError`."""
        if self.file is not None and self.running:
            try:
                start = await in_daemon_thread(self.file.start_of_line, self._left - _SEARCHED_BYTES)
                self.found += await in_daemon_thread(self._search, self.file, start, self._left)
                self._left = start
            except OSError:
                self._left = 0
                raise

    async def catch_up(self) -> None:
        """Searches lines written since. Raises `OSError`."""
        if self.file is not None and (size := self.file.size) > self._size:
            start, self._size = self.file.start_of_line(self._size), size
            newer = await in_daemon_thread(self._search, self.file, start, size)
            self.found = [*newer, *(position for position in self.found if position < start)]

    def _search(self, file: LogFile, start: int, end: int) -> list[int]:
        if not file.may_match(self.query, start, end):
            return []
        rows, below = file.rows(start, end), file.after(end, 1)
        if rows and rows[-1].progress and below and below[0].progress:  # the run of progress continues
            rows.pop()
        return self._matches(rows)

    def _matches(self, rows: Sequence[LogRow]) -> list[int]:
        return [row.position for row in reversed(rows) if self._is_match(row)]

    def _is_match(self, row: LogRow) -> bool:
        is_shown = self.query.pattern.search(row.shown) is not None
        return is_shown or (self.file is not None and bool(self.file.hidden_match(row, self.query)))

    def nearest(self, direction: str, origin: int) -> int | None:
        """Returns the nearest match `up` or `down` from a position, wrapping around; None if there are none."""
        if not self.found:
            return None
        if direction == "up":
            return self.found[bisect_right(self.found, -origin, key=neg) % len(self.found)]
        return self.found[bisect_left(self.found, -origin, key=neg) - 1]


def _gap(missing: int, end: int, what: str) -> LogRow:
    return LogRow(f"… {missing:,} {what}", end - missing, end, missing, gap=True)
