"""Standard output and standard error for a program that must not block when nobody reads them."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

_ROOM_BYTES = 1 << 20
"""How much may wait to be written before `Output.full` is true."""


class Output:
    """Writes lines to a file descriptor in a separate thread.

    A paused terminal (ctrl+s) or a pipe whose reader sleeps blocks only that thread, so that ctrl+c and the engine's
    messages are always handled. The descriptor is written directly: a blocked thread would keep the locks of Python's
    buffers when the program ends.
    """

    def __init__(self, stream: TextIO, on_error: Callable[[OSError], None] = lambda error: None) -> None:
        """Write with the descriptor and encoding of `stream`; must be made, and used, in a running event loop.

        `on_error` is called in the event loop once nothing more can be written; later lines are dropped.
        """
        stream.flush()
        self._descriptor, self._encoding = stream.fileno(), stream.encoding
        self._on_error = on_error
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._waiting_bytes = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._broken = False
        threading.Thread(target=self._run, name=f"output {self._descriptor}", daemon=True).start()

    @property
    def full(self) -> bool:
        """Whether so much waits to be written that lines should be left out."""
        return self._waiting_bytes > _ROOM_BYTES

    def write(self, *lines: str) -> None:
        """Queue `lines` for writing."""
        if lines and not self._broken:
            data = ("\n".join(lines) + "\n").encode(self._encoding, "replace")
            self._waiting_bytes += len(data)
            self._idle.clear()
            self._queue.put(data)

    async def written(self) -> None:
        """Return when everything is written, or nothing more can be; blocks while the other side does not read."""
        await self._idle.wait()

    def _run(self) -> None:
        """The thread: it writes what is queued, and reports its progress to the event loop."""
        with suppress(RuntimeError):  # the event loop is closed: the program ends without waiting for this write
            while True:
                data = self._queue.get()
                view, error = memoryview(data), None
                try:
                    while view:
                        view = view[os.write(self._descriptor, view) :]
                except OSError as failure:
                    error = failure
                self._loop.call_soon_threadsafe(self._wrote, len(data), error)

    def _wrote(self, size_bytes: int, error: OSError | None) -> None:
        self._waiting_bytes -= size_bytes
        if error is not None and not self._broken:
            self._broken = True
            self._on_error(error)
        if self._broken or not self._waiting_bytes:
            self._idle.set()
