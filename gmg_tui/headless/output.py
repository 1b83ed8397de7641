"""Standard output and standard error that never block the event loop."""

import asyncio
import os
import select
from collections.abc import Callable
from typing import TextIO

from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.model.text import safe

_MAX_BUFFERED_BYTES = 1 << 20
"""Bytes to buffer before `Output.full` is true."""


class Output:
    """Writes lines to the file descriptor of a stream in threads.

    A paused terminal (ctrl+s) or a sleeping reader blocks only these threads. They bypass Python's buffers, whose
    locks a blocked thread would hold at exit. `on_error` is called once writing fails; later lines are dropped.
    """

    def __init__(self, stream: TextIO, on_error: Callable[[OSError], None] = lambda error: None) -> None:
        stream.flush()
        self._descriptor, self._encoding, self._styles = stream.fileno(), stream.encoding, stream.isatty()
        self._on_error = on_error
        self._waiting = bytearray()
        self._writing: asyncio.Task[None] | None = None
        self._broken = False

    @property
    def full(self) -> bool:
        """True if the reader is too slow to print every line."""
        return len(self._waiting) > _MAX_BUFFERED_BYTES

    def write(self, *lines: str) -> None:
        """Queues lines for writing."""
        if lines and not self._broken:
            # A line feed in a name or reason would forge a line.
            safe_lines = (safe(line.replace("\n", "·"), styles=self._styles) for line in lines)
            self._waiting += "".join(f"{line}\n" for line in safe_lines).encode(self._encoding, "replace")
            if self._writing is None or self._writing.done():
                self._writing = asyncio.create_task(self._write())

    async def written(self) -> None:
        """Waits until everything is written, or writing has failed."""
        if self._writing is not None:
            await self._writing

    async def _write(self) -> None:
        try:
            while self._waiting:
                data, self._waiting = self._waiting, bytearray()
                await in_daemon_thread(_write_all, self._descriptor, data)
        except OSError as error:
            self._broken = True
            self._on_error(error)


def _write_all(descriptor: int, data: bytearray) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:  # made non-blocking by a program that shares the terminal or pipe
            select.select([], [descriptor], [])
