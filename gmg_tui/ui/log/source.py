"""The loaded rows of a log file, and the search in the whole file."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from operator import neg
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.ui.log.rows import LogRow, Query, index_of, join

if TYPE_CHECKING:
    from gmg_tui.ui.log.file import LogFile

MAX_ROWS: Final = 4000
"""Rows kept; reading more drops rows at the other end."""
MAX_MATCHES: Final = 100_000
"""Maximum matches, after which a search stops."""
_SEARCHED_BYTES: Final = 4 << 20
_PAGE_ROWS: Final = 500


class LogSource:
    """A log file, part of whose rows are loaded. Its methods raise `OSError` if the file cannot be read.

    Attributes:
        name: The name of the slot or job.
        rows: The loaded rows; a run of progress lines is one.
        file: The file they come from; None before the first is read.
        size: The file's size when last read, bytes.
        following: True if the rows end with the newest line.
    """

    def __init__(self, name: str, path: Callable[[], Path | None] = lambda: None) -> None:
        """`path` returns the path of the log file; None if there is none."""
        self.name = name
        self._path = path
        self.rows: list[LogRow] = []
        self.file: LogFile | None = None
        self.size = 0
        self.following = True

    @property
    def has_above(self) -> bool:
        """True if the first row is not the first one of the log."""
        return bool(self.rows) and self.rows[0].start > 0

    @property
    def has_below(self) -> bool:
        """True if lines follow the last row."""
        return not self.following and bool(self.rows) and self.rows[-1].end < self.size

    async def open(self) -> LogFile | None:
        """Returns the log file, a new one if it was replaced; None if there is none yet."""
        return await in_daemon_thread(self._open)

    def _open(self) -> LogFile | None:
        from gmg_tui.ui.log.file import LogFile  # not for the first frame

        path = self._path()
        try:
            file = None if path is None else LogFile(path)
        except FileNotFoundError:
            return self.file
        is_known = file is None or (self.file is not None and file.identity == self.file.identity)
        return self.file if is_known else file

    async def refresh(self) -> None:
        """Updates the size of the log, and loads its new lines if following."""
        file, self.size, rows = await in_daemon_thread(self._newest)
        if self.following and file is not None:
            self.file, self.rows = file, rows[-MAX_ROWS:]

    def _newest(self) -> tuple[LogFile | None, int, list[LogRow]]:
        file = self._open()
        if file is None or not self.following:
            return None, file.size if file is not None else 0, []
        size, rows = file.extend(self.rows if file is self.file else [], _PAGE_ROWS)
        return file, size, rows

    async def load_above(self) -> bool:
        """Loads rows above the first. Returns False if there are none."""
        if self.file is None or not self.has_above:
            return False
        page = await in_daemon_thread(self.file.before, self.rows[0].start, _PAGE_ROWS)
        self.rows = join(page, self.rows)
        if not self.following:
            del self.rows[MAX_ROWS:]
        return bool(page)

    async def load_below(self) -> bool:
        """Loads rows below the last. Returns False if there are none."""
        if self.file is None or not self.has_below:
            return False
        last = self.rows[-1]
        page = await in_daemon_thread(self.file.after, last.end, _PAGE_ROWS)
        self.rows = join(self.rows, page)[-MAX_ROWS:]
        return self.rows[-1].end > last.end

    async def jump(self, offset: int, query: Query, file: LogFile | None = None) -> bool:
        """Pauses at the rows around an offset of the file. Returns False if there are none."""
        file = file or await self.open()
        page = await in_daemon_thread(file.around, offset, _PAGE_ROWS, query) if file is not None else []
        if page:
            self.rows, self.file, self.following = page, file, False
        return bool(page)

    def index(self, offset: int, file: LogFile | None) -> int | None:
        """Returns the index of the row at an offset of `file`; None if it is not loaded."""
        if not self.rows or file is not self.file:
            return None
        row = self.rows[index := index_of(self.rows, offset)]
        return index if row.start <= offset < row.end else None


class Search:
    """The matches of a query in a log file: `found` has their positions, last first. Without a `file` there are none."""

    def __init__(self, query: Query, file: LogFile | None) -> None:
        self.query, self.file = query, file
        self.found: list[int] = []
        self._size = self._unsearched_bytes = file.size if file is not None else 0

    @property
    def is_full(self) -> bool:
        """True if the limit of matches is reached."""
        return len(self.found) >= MAX_MATCHES

    @property
    def running(self) -> bool:
        """True if there is more to search."""
        return self._unsearched_bytes > 0 and not self.is_full

    @property
    def searched_pct(self) -> int:
        """Percent of the file searched."""
        return 100 - 100 * self._unsearched_bytes // max(1, self._size)

    async def step(self) -> None:
        """Searches the next part of the file, from the end backwards. Raises `OSError`."""
        if self.file is None:
            return
        try:
            start = await in_daemon_thread(self.file.start_of_line, self._unsearched_bytes - _SEARCHED_BYTES)
            self.found += await in_daemon_thread(self._search, self.file, start, self._unsearched_bytes)
            self._unsearched_bytes = start
        except OSError:
            self._unsearched_bytes = 0
            raise

    async def catch_up(self) -> None:
        """Searches lines written since the search began. Raises `OSError`."""
        if self.file is not None and (size := self.file.size) > self._size:
            start, self._size = self.file.start_of_line(self._size), size
            newer = await in_daemon_thread(self._search, self.file, start, size)
            self.found = [*newer, *(position for position in self.found if position < start)]

    def _search(self, file: LogFile, start: int, end: int) -> list[int]:
        if not file.may_match(self.query, start, end):
            return []
        rows, below = file.rows(start, end), file.after(end, 1, 1)
        if rows and rows[-1].progress and below and below[0].progress:  # the run of progress continues
            rows.pop()
        found = (row for row in rows if self.query.pattern.search(row.shown) or file.hidden_match(row, self.query))
        return [row.position for row in found][::-1]

    def nearest(self, direction: str, origin: int) -> int | None:
        """Returns the nearest match `up` or `down` from a position, wrapping around; None if there are none."""
        if not self.found:
            return None
        if direction == "up":
            return self.found[bisect_right(self.found, -origin, key=neg) % len(self.found)]
        return self.found[bisect_left(self.found, -origin, key=neg) - 1]
