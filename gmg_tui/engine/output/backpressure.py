"""Has a worker wait for a slow disk by its pipes, so that nothing else does."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from gmg_tui.engine.output.log_writer import Log

_WINDOW_S = 5.0
_SLOW = "waits for the disk, which is slower than the worker's output"


class Backpressure:
    """Holds up the reading of one attempt's output while too much of its log waits for the disk.

    `hold` is called with True to stop reading, with False to go on. The worker blocks once its pipes are full.
    """

    def __init__(self, log: Log, hold: Callable[[bool], None]) -> None:
        self._log = log
        self._hold = hold
        self._waiting: asyncio.Task[None] | None = None
        self._since: float | None = None
        """Since when it has been held up, monotonic seconds."""
        self._held: deque[tuple[float, float]] = deque()
        """From when to when it was held up, of the last seconds."""

    def look(self) -> None:
        """See whether too much waits; called after each write to the log."""
        if self._waiting is None and self._log.crowded:
            self._hold(True)
            self._since = time.monotonic()
            self._waiting = asyncio.create_task(self._until_room())

    async def _until_room(self) -> None:
        await self._log.room()
        self.release()

    def release(self) -> None:
        """Read on, whatever waits."""
        if self._waiting is None or self._since is None:
            return
        self._waiting.cancel()
        self._waiting = None
        self._held.append((self._since, time.monotonic()))
        self._since = None
        self._hold(False)

    @property
    def trouble(self) -> str | None:
        """That the worker waits for the disk, if it has most of the time lately; a flood does for moments."""
        now = time.monotonic()
        earliest = now - _WINDOW_S
        while self._held and self._held[0][1] < earliest:
            self._held.popleft()
        held = [*self._held, (self._since, now)] if self._since is not None else self._held
        held_s = sum(until - max(since, earliest) for since, until in held)
        return _SLOW if held_s > _WINDOW_S / 2 else None
