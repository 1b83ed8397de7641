"""Reads many pipes at once, in few large chunks.

Waking for each line that a worker prints would cost more than reading it: at 20 lines a second and 8 workers there
are 160 wake-ups a second. So the pipes are looked at together at even, short intervals, and a round costs the more the
more pipes there are: with many the intervals grow, so that what is read and parsed in a second costs about the same. A
pipe that gave a full chunk is read again at once, after the loop has had its turn, and soon after that, alone: the
others need not pay for a flood. The pipes are made large, so that no worker waits for its reader in between.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple

INTERVAL_S = 0.1
"""Between two rounds while there are few pipes. Waking up costs the engine more than all that it then does."""
_LONGEST_S = 0.2
"""The same however many pipes there are; the screens' log is four times a second."""
_FEW = 16
"""Pipes that are looked at each `INTERVAL_S`."""
_FLOOD_INTERVAL_S = 0.005
"""After a full chunk: a loop that only prints fills the largest pipe within `INTERVAL_S`, and would wait there."""
_CHUNK_BYTES = 256 * 1024
_PIPE_BYTES = (1 << 20, 1 << 18)
"""Wanted sizes of a pipe, the first that the system grants (`/proc/sys/fs/pipe-max-size`)."""
_LEFT_CHUNKS = 64
"""What is read at most of a pipe whose writer has ended: more than a pipe holds, but not all that a stranger who has it
open as well can write."""
_LARGE = 32
"""Pipes that may have the larger size. A user who is not root has 64 MiB for all pipes before the kernel makes his
further ones two pages small (`/proc/sys/fs/pipe-user-pages-soft`)."""


class _Found(Enum):
    """What was in a pipe."""

    NOTHING = 0
    SOME = 1
    MORE = 2
    """A full chunk: more is there, or soon will be."""


class _Pipe(NamedTuple):
    take: Callable[[bytes], None]
    ended: Callable[[int], None]
    full_bytes: int
    """A chunk of this size says that there is more, or soon will be."""


class Pump:
    """The readers of all pipes of an engine, on one event loop."""

    def __init__(self) -> None:
        self._pipes: dict[int, _Pipe] = {}
        self._buffer = bytearray(_CHUNK_BYTES)
        self._timer: asyncio.Handle | None = None
        self._due = 0.0
        """When all pipes are looked at next, by the loop's clock."""
        self._flooded: dict[int, bool] = {}
        """Pipes that are read in between; whether the last chunk was full, or the one before."""

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
        room = _enlarge(reading, _PIPE_BYTES[len(self._pipes) >= _LARGE :])
        self._pipes[reading] = _Pipe(take, ended, min(room, _CHUNK_BYTES) // 4)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._due = loop.time() + INTERVAL_S
            self._timer = loop.call_at(self._due, self._round)
        return reading, writing

    def look(self, readings: Iterable[int]) -> None:
        """Read what is in some pipes without waiting for the next round: their writer has ended."""
        for reading in readings:
            for _ in range(_LEFT_CHUNKS):
                if self._read(reading) is _Found.NOTHING:
                    break

    def drop(self, reading: int) -> None:
        """Read what is left in a pipe, then close it."""
        self.look([reading])
        self._forget(reading)

    def close(self) -> None:
        """Close all pipes."""
        for reading in list(self._pipes):
            self._forget(reading)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _round(self) -> None:
        """Read all pipes when they are due, else those that are flooded."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now >= self._due:
            self._due = now + min(_LONGEST_S, INTERVAL_S * max(1.0, len(self._pipes) / _FEW))
            self._read_each(list(self._pipes))
        else:
            self._read_each(list(self._flooded))
        if not self._pipes:
            self._timer = None
        elif any(self._flooded.values()):
            self._timer = loop.call_soon(self._round)
        else:
            soon = now + _FLOOD_INTERVAL_S if self._flooded else self._due
            self._timer = loop.call_at(min(soon, self._due), self._round)

    def _read_each(self, pipes: Iterable[int]) -> None:
        for reading in pipes:
            if self._read(reading) is _Found.MORE:
                self._flooded[reading] = True
            elif self._flooded.pop(reading, False):
                self._flooded[reading] = False

    def _read(self, reading: int) -> _Found:
        """Read one chunk."""
        pipe = self._pipes.get(reading)
        if pipe is None:
            return _Found.NOTHING
        try:
            size = os.readv(reading, [self._buffer])
        except BlockingIOError:
            return _Found.NOTHING
        except OSError:
            size = 0  # a pipe that cannot be read is as good as ended
        if size == 0:
            self._forget(reading)
            pipe.ended(reading)
            return _Found.NOTHING
        pipe.take(bytes(memoryview(self._buffer)[:size]))
        return _Found.MORE if size >= pipe.full_bytes else _Found.SOME

    def _forget(self, reading: int) -> None:
        if self._pipes.pop(reading, None) is not None:
            self._flooded.pop(reading, None)
            os.close(reading)


def _enlarge(pipe: int, sizes: Iterable[int]) -> int:
    """Give a pipe the first of `sizes`, bytes, that the system grants. Returns what it has room for."""
    for size in sizes:
        try:
            return fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, size)
        except OSError:
            continue  # a smaller pipe serves as well
    return fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
