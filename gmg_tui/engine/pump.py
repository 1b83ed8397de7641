"""Reads many pipes at once, in few large chunks.

Waking for each line that a worker prints would cost more than reading it: at 20 lines a second and 8 workers there
are 160 wake-ups a second. So the pipes are looked at together at even, short intervals; a pipe that gave a full chunk
is read again at once, after the loop has had its turn, and soon after that. The pipes are made large, so that no
worker waits for its reader in between.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable

INTERVAL_S = 0.05
_FLOOD_INTERVAL_S = 0.005
"""After a full chunk: a loop that only prints fills the largest pipe within `INTERVAL_S`, and would wait there."""
_CHUNK_BYTES = 256 * 1024
_PIPE_BYTES = (1 << 20, 1 << 18)
"""Wanted sizes of a pipe, the first that the system grants (`/proc/sys/fs/pipe-max-size`, per-user soft limit)."""


class Pump:
    """The readers of all pipes of an engine, on one event loop."""

    def __init__(self) -> None:
        self._pipes: dict[int, tuple[Callable[[bytes], None], Callable[[int], None]]] = {}
        self._buffer = bytearray(_CHUNK_BYTES)
        self._timer: asyncio.Handle | None = None
        self._flooded = False
        """Whether the last round had a full chunk."""

    def open(self, take: Callable[[bytes], None], ended: Callable[[int], None]) -> tuple[int, int]:
        """Make a pipe and read it from now on.

        Args:
            take: Called with each chunk.
            ended: Called once with the reading end, when nobody can write to the pipe any more; not after `drop`.

        Returns:
            The reading end, which names the pipe here, and the writing end, which the caller closes after handing it
            to a child.

        Raises:
            OSError: There are too many open files.
        """
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        for size in _PIPE_BYTES:
            try:
                fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, size)
                break
            except OSError:
                continue  # a smaller pipe serves as well
        self._pipes[reading] = (take, ended)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(INTERVAL_S, self._round)
        return reading, writing

    def drop(self, reading: int) -> None:
        """Read what is left in a pipe, then close it."""
        while self._read(reading):
            continue
        self._forget(reading)

    def close(self) -> None:
        """Close all pipes."""
        for reading in list(self._pipes):
            self._forget(reading)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _round(self) -> None:
        full = False
        for reading in list(self._pipes):
            full = self._read(reading) or full
        loop = asyncio.get_running_loop()
        if not self._pipes:
            self._timer = None
        elif full:
            self._timer = loop.call_soon(self._round)
        else:
            self._timer = loop.call_later(_FLOOD_INTERVAL_S if self._flooded else INTERVAL_S, self._round)
        self._flooded = full

    def _read(self, reading: int) -> bool:
        """Read one chunk. Whether more is likely to be there."""
        if reading not in self._pipes:
            return False
        take, ended = self._pipes[reading]
        try:
            size = os.readv(reading, [self._buffer])
        except BlockingIOError:
            return False
        except OSError:
            size = 0  # a pipe that cannot be read is as good as ended
        if size == 0:
            self._forget(reading)
            ended(reading)
            return False
        take(bytes(memoryview(self._buffer)[:size]))
        return size >= _CHUNK_BYTES // 4

    def _forget(self, reading: int) -> None:
        if self._pipes.pop(reading, None) is not None:
            os.close(reading)
