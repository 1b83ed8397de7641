"""Reads many pipes at once, in few large chunks, as rarely as their fill allows.

Waking for each line that a worker prints would cost more than reading it: 8 workers at 20 lines a second would wake the
engine 160 times a second. So all pipes are read together, in rounds. A pipe that has been silent for a while sleeps: it
is left to the event loop, which reports its next line at once. The rounds after that follow soon, then ever later, so
that a worker that is building is heard promptly and one that prints steadily is read once a second. The pipes are made
large, and rounds come so often that the fullest pipe is about a quarter full: no worker blocks in between.

A pipe that gave a full chunk is read again at once, after the loop has had its turn, and soon after that, alone: the
others do not pay for a flood. An exception in what takes one pipe's chunks does not stop the reading of any pipe.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from collections.abc import Callable, Iterable
from enum import Enum
from typing import TypeVar

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

_SHORTEST_S = 0.1
"""Between two rounds after a silence, or where the pipes fill quickly."""
_LONGEST_S = 1.2
"""Between two rounds at most, and of silence before a pipe sleeps. Slightly longer than the engine's beat, which reads all
pipes: it wakes the engine anyway."""
_FILL = 0.25
"""How much of the fullest pipe may be filled between two rounds."""
_FLOOD_INTERVAL_S = 0.005
"""After a full chunk: a loop that only prints fills the largest pipe within `INTERVAL_S`, and would block."""
_CHUNK_BYTES = 256 * 1024
_PIPE_BYTES = (1 << 20, 1 << 18)
"""Wanted sizes of a pipe, the first that the system grants (`/proc/sys/fs/pipe-max-size`)."""
_LEFT_CHUNKS = 64
"""What is read at most of a pipe whose writer has ended: more than fits in a pipe, but not everything that another process
with the pipe open can write."""
_LARGE = 32
"""How many pipes get the larger size. An unprivileged user has 64 MiB for all pipes before the kernel limits further ones
to two pages (`/proc/sys/fs/pipe-user-pages-soft`)."""


class _Found(Enum):
    """What was in a pipe."""

    NOTHING = 0
    SOME = 1
    MORE = 2
    """A full chunk: more is there, or soon will be."""


class _Pipe:
    """One pipe's reader."""

    def __init__(self, take: Callable[[bytes], None], ended: Callable[[int], None], room: int) -> None:
        self.take = take
        self.ended = ended
        self.room_bytes = room
        self.full_bytes = min(room, _CHUNK_BYTES) // 4
        """A chunk of this size means that there is more, or soon will be."""
        self.came_bytes = 0
        """Since the last round."""
        self.heard = 0.0
        """When a round last found that something had come, by the loop's clock."""
        self.asleep = False
        """Whether the event loop waits for it, and rounds leave it out."""


class Pump:
    """The readers of all pipes of an engine, on one event loop; `came` is called when something has been read."""

    def __init__(self, came: Callable[[], None] = lambda: None) -> None:
        self._came = came
        self._pipes: dict[int, _Pipe] = {}
        self._buffer = bytearray(_CHUNK_BYTES)
        self._timer: asyncio.Handle | None = None
        self._read_at = self._due = 0.0
        """When all pipes were read last and are read next, by the loop's clock."""
        self._interval_s = _SHORTEST_S
        self._flooded: dict[int, bool] = {}
        """Pipes that are read in between, and whether their last chunk was full rather than the one before."""
        self._paused: set[int] = set()
        """Pipes that are not read for now."""
        self._faulty: set[int] = set()
        """Pipes whose first exception has been logged."""

    def open(self, take: Callable[[bytes], None], ended: Callable[[int], None]) -> tuple[int, int]:
        """Make a pipe and give what is read from it to `take`. Raises `OSError` with too many open files.

        `ended` is called once with the reading end, when no process can write to the pipe any longer; not after `drop`.

        Returns the reading end, which identifies the pipe, and the writing end, which the caller passes to a child and
        closes.
        """
        pipe, writing = os.pipe()
        os.set_blocking(pipe, False)
        room = _enlarge(pipe, _PIPE_BYTES[len(self._pipes) >= _LARGE :])
        self._pipes[pipe] = _Pipe(take, ended, room)
        self._sleep(pipe)
        return pipe, writing

    def read_rest(self, pipes: Iterable[int]) -> None:
        """Read pipes whose writer has ended, without waiting for the next round."""
        for pipe in pipes:
            for _ in range(_LEFT_CHUNKS):
                if self._read(pipe) is _Found.NOTHING:
                    break

    def pause(self, pipe: int) -> None:
        """Read nothing from a pipe until `resume`: who writes to it waits once it is full."""
        if pipe in self._pipes:
            self._wake(pipe)
            self._paused.add(pipe)

    def resume(self, pipe: int) -> None:
        """Read a paused pipe again, at once."""
        if pipe in self._paused:
            self._paused.discard(pipe)
            self._flooded[pipe] = True
            self._plan()

    def drop(self, pipe: int) -> None:
        """Read what is left in a pipe, then close it."""
        self.read_rest([pipe])
        self._forget(pipe)

    def close(self) -> None:
        """Close all pipes."""
        for pipe in list(self._pipes):
            self._forget(pipe)
        self._plan()

    @property
    def awake(self) -> list[int]:
        """The pipes that are read in rounds; the event loop waits for the others."""
        return [pipe for pipe, known in self._pipes.items() if not known.asleep]

    def read(self) -> None:
        """Read all pipes that are awake, and choose when to do so again."""
        now = asyncio.get_running_loop().time()
        came = self._read_each(self.awake)
        self._choose_interval(now)
        self._read_at = now
        self._plan()
        if came:
            self._came()

    def _choose_interval(self, now: float) -> None:
        """As it was, doubled, but no longer than the fullest pipe takes to fill to `_FILL`; put silent pipes to sleep."""
        fill = 0.0
        for pipe in self.awake:
            known = self._pipes[pipe]
            if known.came_bytes:
                known.heard = now
                fill, known.came_bytes = max(fill, known.came_bytes / known.room_bytes), 0
            elif now - known.heard >= _LONGEST_S and pipe not in self._paused:
                self._sleep(pipe)
        fills_s = _FILL / fill * (now - self._read_at) if fill else _LONGEST_S
        self._interval_s = min(max(fills_s, _SHORTEST_S), 2 * self._interval_s, _LONGEST_S)
        self._due = now + self._interval_s

    def _sleep(self, pipe: int) -> None:
        self._pipes[pipe].asleep = True
        asyncio.get_running_loop().add_reader(pipe, self._spoke, pipe)

    def _spoke(self, pipe: int) -> None:
        """A sleeping pipe holds something, or has ended: it is read at once, and the next round comes soon."""
        loop = asyncio.get_running_loop()
        self._wake(pipe)
        now = loop.time()
        if self._timer is None:
            self._read_at, self._due = now, now + _SHORTEST_S
        self._interval_s, self._due = _SHORTEST_S, min(self._due, now + _SHORTEST_S)
        came = self._read_each([pipe])
        self._plan()
        if came:
            self._came()

    def _wake(self, pipe: int) -> None:
        known = self._pipes[pipe]
        if known.asleep:
            known.asleep = False
            asyncio.get_running_loop().remove_reader(pipe)

    def _plan(self) -> None:
        """Set the timer: for those that are flooded, else for all that are awake."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.awake:
            return
        loop = asyncio.get_running_loop()
        if any(self._flooded.values()):
            self._timer = loop.call_soon(self._round)
        else:
            soon = loop.time() + _FLOOD_INTERVAL_S if self._flooded else self._due
            self._timer = loop.call_at(min(soon, self._due), self._round)

    def _round(self) -> None:
        """Read all pipes if they are due, else those that are flooded."""
        if asyncio.get_running_loop().time() >= self._due:
            self.read()
            return
        came = self._read_each(list(self._flooded))
        self._plan()
        if came:
            self._came()

    def _read_each(self, pipes: Iterable[int]) -> bool:
        """Read a chunk of each; whether there was any."""
        came = False
        for pipe in pipes:
            if pipe in self._paused:
                self._flooded.pop(pipe, None)
                continue
            found = self._read(pipe)
            came |= found is not _Found.NOTHING
            if found is _Found.MORE:
                self._flooded[pipe] = True
            elif self._flooded.pop(pipe, False):
                self._flooded[pipe] = False
        return came

    def _read(self, pipe: int) -> _Found:
        """Read one chunk."""
        known = self._pipes.get(pipe)
        if known is None:
            return _Found.NOTHING
        try:
            size = os.readv(pipe, [self._buffer])
        except BlockingIOError:
            return _Found.NOTHING
        except OSError:
            size = 0  # a pipe that cannot be read counts as ended
        if size == 0:
            self._forget(pipe)
            self._guarded(pipe, known.ended, pipe)
            return _Found.NOTHING
        known.came_bytes += size
        self._guarded(pipe, known.take, bytes(memoryview(self._buffer)[:size]))
        return _Found.MORE if size >= known.full_bytes else _Found.SOME

    def _guarded(self, pipe: int, call: Callable[[_T], None], value: _T) -> None:
        """Call back for a pipe; only its first exception is logged."""
        try:
            call(value)
        except Exception:  # the other pipes have no part in it
            if pipe not in self._faulty:
                _log.exception("the output of pipe %d could not be taken", pipe)
            self._faulty.add(pipe)

    def _forget(self, pipe: int) -> None:
        if pipe in self._pipes:
            self._wake(pipe)
            del self._pipes[pipe]
            self._flooded.pop(pipe, None)
            self._paused.discard(pipe)
            self._faulty.discard(pipe)
            os.close(pipe)


def _enlarge(pipe: int, sizes: Iterable[int]) -> int:
    """Give a pipe the first of `sizes`, in bytes, that the system grants. Returns its size."""
    for size in sizes:
        try:
            return fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, size)
        except OSError:
            continue  # a smaller pipe will do
    return fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
