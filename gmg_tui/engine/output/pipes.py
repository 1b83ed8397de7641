"""Reads the output of all workers from their pipes, in a few large chunks.

Waking for each line would cost more than reading it: 8 workers at 20 lines a second would wake the engine 160 times a
second. So rounds of reading alternate with pauses, which are short after a silence or when a pipe fills quickly, longer
while workers print steadily, and never so long that a worker blocks.
"""

import asyncio
import fcntl
import logging
import os
import select
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

_log = logging.getLogger(__name__)

_MIN_PAUSE_S = 0.05
_MAX_PAUSE_S = 1.2
"""Maximum pause: slightly longer than the interval of the engine's beat, which reads the pipes too."""
_MAX_ROUND_S = 0.1
"""Seconds after which a round reads no further pipe: clients are served between rounds."""
_MAX_FILL_SHARE = 0.25
"""Share of any pipe's capacity that may fill during a pause."""
_CHUNK_BYTES = 256 * 1024
_PIPE_BYTES = (1 << 20, 1 << 18)
"""Pipe sizes, the larger for the first pipes: beyond 64 MiB per unprivileged user the kernel limits pipes to two pages
(`/proc/sys/fs/pipe-user-pages-soft`)."""
_MAX_LARGE_PIPES = 32
"""Maximum number of pipes of the larger size."""
_MAX_CLOSING_CHUNKS = 64
"""Maximum chunks read from a closing pipe: more than it holds, but finite, as a leftover process may write forever."""


class Pipe(NamedTuple):
    """The read end of a pipe."""

    file: int
    on_chunk: Callable[[bytes], None]
    """Called with each chunk."""
    capacity_bytes: int


class Pipes:
    """All pipes that an engine reads.

    Nothing is read while `is_full`, so that writers block.

    Attributes:
        on_read: Called after each round of reading.
    """

    def __init__(self, is_full: Callable[[], bool] = lambda: False) -> None:
        self.on_read: Callable[[], None] = lambda: None
        self._is_full = is_full
        self._pipes: dict[int, Pipe] = {}
        self._buffer = bytearray(_CHUNK_BYTES)
        self._epoll = select.epoll()  # one registration with the loop for all pipes
        self._timer: asyncio.TimerHandle | None = None
        """Timer of the pause; None while waiting for a pipe."""
        self._pause_s = self._read_at = 0.0
        self._unread = list[int]()
        """Descriptors that were ready but not read in the last round; the next round starts with them."""

    def open(self, on_chunk: Callable[[bytes], None]) -> tuple[Pipe, int]:
        """Makes a pipe that calls `on_chunk` with its output. Raises `OSError` if too many files are open.

        Returns the pipe and its write end, which the caller passes to a child and closes.
        """
        read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)
        for size in _PIPE_BYTES[len(self._pipes) >= _MAX_LARGE_PIPES :]:
            with suppress(OSError):  # over the user's limit: try the next size
                fcntl.fcntl(read_end, fcntl.F_SETPIPE_SZ, size)
                break
        pipe = Pipe(read_end, on_chunk, fcntl.fcntl(read_end, fcntl.F_GETPIPE_SZ))
        if not self._pipes and self._timer is None:
            self._listen()
        self._pipes[read_end] = pipe
        self._epoll.register(read_end, select.EPOLLIN)
        return pipe, write_end

    def _listen(self) -> None:
        self._timer, self._pause_s = None, 0.0
        asyncio.get_running_loop().add_reader(self._epoll, self._on_ready)

    def _on_ready(self) -> None:
        asyncio.get_running_loop().remove_reader(self._epoll)
        self._read_all()

    def read(self) -> None:
        """Reads what has arrived without waiting for the end of a pause."""
        if self._timer is not None and not self._is_full():
            self._timer.cancel()
            self._read_all()

    def _read_all(self) -> None:
        """Reads a chunk of each pipe that is ready, and schedules the next round."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._is_full():
            self._timer = loop.call_later(_MIN_PAUSE_S, self._read_all)
            return
        ready = [file for file, _ in self._epoll.poll(0)]
        if not ready:
            self._listen()
            return
        pause_s = min(max(2 * self._pause_s, _MIN_PAUSE_S), _MAX_PAUSE_S)
        turns = {file: turn for turn, file in enumerate(self._unread)}
        ready.sort(key=lambda file: turns.get(file, len(turns)))
        while ready and loop.time() < now + _MAX_ROUND_S:
            pipe = self._pipes.get(ready.pop(0))
            if pipe is None:  # closed by the callback of another one
                continue
            size = self._read(pipe)
            if size == _CHUNK_BYTES:
                pause_s = 0.0  # there is more
            elif size:
                pause_s = min(pause_s, _MAX_FILL_SHARE * pipe.capacity_bytes / size * (now - self._read_at))
        self._unread = ready
        if ready:
            pause_s = 0.0
        self._epoll.poll(0)  # drops drained pipes, so that the next poll lists pipes in the order they became ready
        self._pause_s, self._read_at = pause_s, now
        self._timer = loop.call_later(pause_s, self._read_all)
        self.on_read()

    def _read(self, pipe: Pipe) -> int:
        """Reads one chunk. Returns its size in bytes; 0 if there is none."""
        try:
            size = os.readv(pipe.file, [self._buffer])
        except BlockingIOError:
            return 0
        except OSError:
            size = 0  # a pipe that cannot be read counts as ended
        if not size:
            self._forget(pipe)
            return 0
        try:
            pipe.on_chunk(bytes(memoryview(self._buffer)[:size]))
        except Exception:  # must not affect the other pipes
            _log.exception("a worker's output could not be handled; this chunk may be lost")
        return size

    def close(self, pipe: Pipe) -> None:
        """Drains a pipe, then closes it, even if a process holds it open.

        Pipes that became ready first are read first, so that a script's two streams keep their order.
        """
        for file, _ in self._epoll.poll(0):
            if (ready := self._pipes.get(file)) is not None:
                self._read(ready)
        for _ in range(_MAX_CLOSING_CHUNKS):
            if self._pipes.get(pipe.file) is not pipe or not self._read(pipe):
                break
        self._forget(pipe)

    def close_all(self) -> None:
        """Closes all pipes without reading them."""
        for pipe in list(self._pipes.values()):
            self._forget(pipe)
        if self._timer is not None:
            self._timer.cancel()
        asyncio.get_running_loop().remove_reader(self._epoll)
        self._epoll.close()

    def _forget(self, pipe: Pipe) -> None:
        if self._pipes.get(pipe.file) is pipe:  # another pipe may have its number by now
            del self._pipes[pipe.file]
            self._epoll.unregister(pipe.file)
            os.close(pipe.file)
