"""Scans of all processes, shared by all that ask at the same time, beside the event loop."""

from __future__ import annotations

import asyncio

from gmg_tui.engine.daemon_thread import in_daemon_thread
from gmg_tui.engine.processes import process_tree

ROUND_S = 0.1
"""The shortest time between two scans: a pass over `/proc` costs 10 to 20 microseconds per process."""


class Scans:
    """However many workers stop at once, `/proc` is read at most once per round."""

    def __init__(self) -> None:
        self._next: asyncio.Task[process_tree.Table] | None = None
        self._due = 0.0
        """When the next may begin, by the loop's clock."""

    async def table(self) -> process_tree.Table:
        """All processes, by a scan that begins after the call. Raises `OSError` with too many open files."""
        if self._next is None:
            self._next = asyncio.create_task(self._scan())
        return await asyncio.shield(self._next)

    async def _scan(self) -> process_tree.Table:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._due - loop.time())
        self._next = None  # who asks from here on may look for what this scan has passed already
        self._due = loop.time() + ROUND_S
        return await in_daemon_thread(process_tree.scan)
