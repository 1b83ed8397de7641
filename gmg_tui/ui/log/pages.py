"""The rows of a log: the newest ones, as the engine sends them, or a part of the log file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.model import units
from gmg_tui.ui.drawing import SIGNS
from gmg_tui.ui.log.buffer import NO_RANKS, LogBuffer
from gmg_tui.ui.log.rows import LogRow, Query, index_of

if TYPE_CHECKING:
    from gmg_tui.ui.log.file import FileSearch, LogFile, Page

_PAGE_ROWS: Final = 500
"""Rows read from the file at once."""


class LogPages:
    """The rows that can be scrolled through without reading the file, and what replaces or extends them.

    Attributes:
        buffer: The newest rows.
        window: A part of the file, which is shown instead; None while the buffer is shown.
        file: The file of the window.
    """

    def __init__(self, ranks: Mapping[str, int] = NO_RANKS, path: Callable[[], Path | None] = lambda: None) -> None:
        """`path` returns the path of the log file; None if there is none."""
        self.buffer = LogBuffer(ranks=ranks)
        self.window: Page | None = None
        self.file: LogFile | None = None
        self._path = path
        self._inode = 0
        """The file that the offsets in the buffer refer to."""

    @property
    def rows(self) -> Sequence[LogRow]:
        """The rows shown."""
        return self.buffer.rows if self.window is None else self.window.rows

    @property
    def starts_later(self) -> bool:
        """True if the first row is not the first one of the log."""
        return self.buffer.has_gap if self.window is None else self.window.start > 0

    def close(self) -> None:
        """Show the buffer again."""
        self.window = self.file = None

    async def open(self) -> LogFile | None:
        """Returns the log file; None if there is none that can be read."""
        if self.file is not None:
            return self.file
        from gmg_tui.ui.log.file import LogFile  # the first frame needs no expressions

        path = self._path()
        try:
            return None if path is None else await in_daemon_thread(LogFile, path)
        except OSError:
            return None

    async def load_above(self) -> int | None:
        """Read what precedes the first row; its index afterwards, None if nothing was found. Raises `OSError`."""
        if (window := self.window) is None or self.file is None:
            return await self._load_into_buffer()
        if window.start == 0:
            return None
        page = await in_daemon_thread(self.file.before, window.start, _PAGE_ROWS)
        if window is not self.window:
            return None
        self.window = page.followed_by(window)
        return index_of(self.window.rows, window.rows[0].end - 1)

    async def _load_into_buffer(self) -> int | None:
        """Put rows of the file in place of the gap at the top, or continue in the file once the buffer is large."""
        buffer, file = self.buffer, await self.open()
        if file is None or not buffer.has_gap or len(buffer.rows) < 2:
            return None
        first, at, replaced = buffer.rows[1], buffer.rows[1].offset, 1
        if file.inode != self._inode or not 0 <= at <= file.size:
            lines, replaced = buffer.printed - first.end, 2
            at = await in_daemon_thread(file.locate, first.text, lines)
            if at < 0:
                return None
        if buffer.paused and buffer.is_over(1):
            return index_of(self.rows, at) if await self.jump(at, Query(), file) else None
        page = await in_daemon_thread(file.before, at, _PAGE_ROWS)
        if not buffer.has_gap or buffer.rows[1] is not first:
            return None
        self._inode = file.inode
        return max(0, 1 + buffer.prepend(page.rows, replaced, complete=page.start == 0))

    async def load_below(self) -> bool:
        """Read what follows the window; False at the end of the file. Raises `OSError`."""
        if (window := self.window) is None or self.file is None:
            return False
        page = await in_daemon_thread(self.file.after, window.end, _PAGE_ROWS)
        if page.rows and window is self.window:
            self.window = window.followed_by(page, keep_last=True)
        return bool(page.rows)

    async def jump(self, offset: int, query: Query, file: LogFile | None = None) -> bool:
        """Show the rows around an offset of the file; False if it has none. Raises `OSError`."""
        file = file or await self.open()
        if file is None:
            return False
        page = await in_daemon_thread(file.around, offset, _PAGE_ROWS, query)
        if page.rows:
            self.file, self.window = file, page
        return bool(page.rows)

    async def offset_of(self, row: LogRow, file: LogFile) -> int:
        """Returns the offset in the file after a row of the buffer; the end of the file if it is unknown."""
        at = await in_daemon_thread(file.locate, row.text, self.buffer.printed - row.end)
        return at if at >= 0 else file.size


def paused_text(pages: LogPages, last: int) -> str:
    """Returns where the log is paused; `last` is the last visible row."""
    if pages.file is not None:
        size, rows = pages.file.size, pages.rows[: last + 1]
        return f"paused at {100 * rows[-1].end / max(size, 1):.0f} % of {units.size(size)}"
    below = sum(row.lines for row in islice(pages.rows, last + 1, None)) + pages.buffer.below
    return f"paused, {units.count(below, 'line')} below {SIGNS.down}" if below > 0 else "paused"


def search_text(ends: Sequence[int], match: int | None, search: FileSearch | None, buffer: LogBuffer) -> str:
    """Returns which match is shown of how many, and the progress of the search."""
    running = search is not None and search.running
    progress = f"searching, {search.searched_pct} %" if search is not None and running else ""
    if not ends and (running or search is not None or not buffer.has_gap):
        return progress or "no match"
    if not ends:
        return f"no match in the newest {units.count(buffer.printed - buffer.rows[0].lines, 'line')}"
    number = f"{ends.index(match) + 1:,}" if match in ends else SIGNS.ellipsis
    more = "+" if search is not None and search.is_full else ""
    return f"match {number} of {len(ends):,}{more}{', ' if progress else ''}{progress}"
