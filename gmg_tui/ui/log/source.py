"""The loaded rows of a log file, and a search of the whole file."""

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
"""Maximum rows to keep; loading more drops rows at the other end."""
MAX_MATCHES: Final = 100_000
"""Number of matches at which a search stops."""
_SEARCH_STEP_BYTES: Final = 4 << 20
_PAGE_ROWS: Final = 500


class LogSource:
    """A log file with some of its rows loaded. The methods raise `OSError` if the file cannot be read.

    Attributes:
        name: The name of the slot or job.
        rows: The loaded rows; a run of progress lines is one.
        file: The file that the rows were read from; None before the first read.
        size: The size of the file when last read, in bytes.
        following: True if the rows extend to the newest line.
    """

    def __init__(self, name: str, path: Callable[[], Path | None] = lambda: None) -> None:
        """Creates a source without rows; `path` returns the path of the log file, or None if there is none."""
        self.name = name
        self._path = path
        self.rows: list[LogRow] = []
        self.file: LogFile | None = None
        self.size = 0
        self.following = True

    @property
    def has_above(self) -> bool:
        """True if the log has lines above the first row."""
        return bool(self.rows) and self.rows[0].start > 0

    @property
    def has_below(self) -> bool:
        """True if the log is paused and has lines below the last row."""
        return not self.following and bool(self.rows) and self.rows[-1].end < self.size

    async def open(self) -> LogFile | None:
        """Returns the log file, opened again if it was replaced; None if there is none yet."""
        return await in_daemon_thread(self._open)

    def _open(self) -> LogFile | None:
        from gmg_tui.ui.log.file import LogFile  # imported after the first frame

        path = self._path()
        try:
            file = None if path is None else LogFile(path)
        except FileNotFoundError:
            return self.file
        is_known = file is None or (self.file is not None and file.identity == self.file.identity)
        return self.file if is_known else file

    async def refresh(self) -> None:
        """Updates the size of the log, and loads its new lines if following."""
        file, self.size, rows = await in_daemon_thread(self._read_newest)
        if self.following and file is not None:
            self.file, self.rows = file, rows[-MAX_ROWS:]

    def _read_newest(self) -> tuple[LogFile | None, int, list[LogRow]]:
        """Returns the file, its size, and its rows up to the newest line; if paused, only the size."""
        file = self._open()
        if file is None or not self.following:
            return None, file.size if file is not None else 0, []
        size, rows = file.extend(self.rows if file is self.file else [], _PAGE_ROWS)
        return file, size, rows

    async def load_above(self) -> bool:
        """Loads rows above the first one. Returns False if there are none."""
        if self.file is None or not self.has_above:
            return False
        page = await in_daemon_thread(self.file.read_before, self.rows[0].start, _PAGE_ROWS)
        self.rows = join(page, self.rows)
        if not self.following:
            del self.rows[MAX_ROWS:]
        return bool(page)

    async def load_below(self) -> bool:
        """Loads rows below the last one. Returns False if there are none."""
        if self.file is None or not self.has_below:
            return False
        last = self.rows[-1]
        page = await in_daemon_thread(self.file.read_after, last.end, _PAGE_ROWS)
        self.rows = join(self.rows, page)[-MAX_ROWS:]
        return self.rows[-1].end > last.end

    async def jump(self, offset: int, query: Query, file: LogFile | None = None) -> bool:
        """Loads the rows around an offset of the file, and pauses there. Returns False if there are none."""
        file = file or await self.open()
        page = await in_daemon_thread(file.read_around, offset, _PAGE_ROWS, query) if file is not None else []
        if page:
            self.rows, self.file, self.following = page, file, False
        return bool(page)

    def index_at(self, offset: int, file: LogFile | None) -> int | None:
        """Returns the index of the row at an offset of `file`; None if that row is not loaded."""
        if not self.rows or file is not self.file:
            return None
        row = self.rows[index := index_of(self.rows, offset)]
        return index if row.start <= offset < row.end else None


class Search:
    """A search for a query in a log file, from the end of the file upwards.

    Attributes:
        query: The query.
        file: The log file; None until the search begins.
        matches: The positions of the matches, last first.
    """

    def __init__(self, query: Query, file: LogFile | None) -> None:
        self.query, self.file = query, file
        self.matches: list[int] = []
        self._size = self._unsearched_bytes = file.size if file is not None else 0

    @property
    def is_full(self) -> bool:
        """True if the search has found at least `MAX_MATCHES` matches."""
        return len(self.matches) >= MAX_MATCHES

    @property
    def running(self) -> bool:
        """True if there is more to search."""
        return self._unsearched_bytes > 0 and not self.is_full

    @property
    def searched_pct(self) -> int:
        """The searched share of the file, in percent."""
        return 100 - 100 * self._unsearched_bytes // max(1, self._size)

    async def step(self) -> None:
        """Searches the next part of the file. Raises `OSError` if it cannot be read."""
        if self.file is None:
            return
        try:
            start = await in_daemon_thread(self.file.start_of_line, self._unsearched_bytes - _SEARCH_STEP_BYTES)
            self.matches += await in_daemon_thread(self._search, self.file, start, self._unsearched_bytes)
            self._unsearched_bytes = start
        except OSError:
            self._unsearched_bytes = 0
            raise

    async def catch_up(self) -> None:
        """Searches the lines written since the last search. Raises `OSError` if they cannot be read."""
        if self.file is not None and (size := self.file.size) > self._size:
            start, self._size = self.file.start_of_line(self._size), size
            newer = await in_daemon_thread(self._search, self.file, start, size)
            self.matches = [*newer, *(position for position in self.matches if position < start)]

    def _search(self, file: LogFile, start: int, end: int) -> list[int]:
        if not file.may_match(self.query, start, end):
            return []
        rows, below = file.read(start, end), file.read_after(end, 1, 1)
        if rows and rows[-1].progress and below and below[0].progress:  # the run of progress continues below
            rows.pop()
        matching = (row for row in rows if self.query.pattern.search(row.shown) or file.find_hidden(row, self.query))
        return [row.position for row in matching][::-1]

    def nearest(self, direction: str, origin: int) -> int | None:
        """Returns the nearest match `up` or `down` from a position, wrapping around; None if there are none."""
        if not self.matches:
            return None
        if direction == "up":
            return self.matches[bisect_right(self.matches, -origin, key=neg) % len(self.matches)]
        return self.matches[bisect_left(self.matches, -origin, key=neg) - 1]
