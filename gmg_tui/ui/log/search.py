"""A search through a whole log file, in a thread; its matches can be visited before it is complete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.ui.log.file import MAX_MATCHES, LogFile
from gmg_tui.ui.log.rows import Query

_REPORT_S: Final = 0.1


class FileSearch:
    """The matches of a query in a log file.

    Attributes:
        file: The file searched.
        found: Offsets of the lines that match, the last first.
        running: True until the beginning of the file, or the limit of matches, is reached.
    """

    def __init__(self, file: LogFile, query: Query) -> None:
        self.file = file
        self.found: list[int] = []
        self.running = True
        self._query = query
        self._size = file.size
        self._at = self._size
        self._stopped = False

    @property
    def is_full(self) -> bool:
        """True if there are more matches than are collected."""
        return len(self.found) >= MAX_MATCHES

    @property
    def searched_pct(self) -> int:
        """Percent of the file searched."""
        return 100 if not self._size else int(100 * (self._size - self._at) / self._size)

    def stop(self) -> None:
        """Cancel the search."""
        self._stopped = True

    async def run(self, on_progress: Callable[[], object]) -> None:
        """Search from the end to the beginning. Raises `OSError`."""
        searching = asyncio.ensure_future(
            in_daemon_thread(self.file.search, self._query, 0, self._size, self._report, lambda: self._stopped)
        )
        try:
            while not searching.done():
                await asyncio.wait({searching}, timeout=_REPORT_S)
                if not searching.done():
                    on_progress()
            await searching
        finally:
            self.stop()
            self.running = False

    async def catch_up(self) -> None:
        """Search what has been written since. Raises `OSError`."""
        start, self._size = self._size, self.file.size
        if start < self._size:
            newer: list[int] = []
            await in_daemon_thread(
                self.file.search, self._query, start, self._size, lambda found, _: newer.extend(found), lambda: False
            )
            self.found[:0] = newer

    def _report(self, found: list[int], at: int) -> None:
        self.found += found
        self._at = at
