"""Writes to standard output and standard error without blocking the event loop."""

import asyncio
import os
import select
from collections.abc import Callable
from typing import TextIO

from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.model.text import safe

_MAX_BUFFERED_BYTES = 1 << 20
"""The size of the buffer beyond which `Output.full` is True."""


class Output:
    """Writes lines to the file descriptor of a stream in threads.

    A paused terminal (ctrl+s) or a sleeping reader blocks only these threads. They bypass Python's buffers, whose
    locks a blocked thread would hold at exit. If writing fails, calls `on_error` and drops all later lines.
    """

    def __init__(self, stream: TextIO, on_error: Callable[[OSError], None] = lambda error: None) -> None:
        stream.flush()
        self._descriptor, self._encoding, self._styles = stream.fileno(), stream.encoding, stream.isatty()
        self._on_error = on_error
        self._buffer = bytearray()
        self._writer: asyncio.Task[None] | None = None
        self._failed = False

    @property
    def full(self) -> bool:
        """True if the reader is too slow for every line to be printed."""
        return len(self._buffer) > _MAX_BUFFERED_BYTES

    def write(self, *lines: str) -> None:
        """Queues lines for writing."""
        if lines and not self._failed:
            # A line feed in a name or reason would forge a line.
            safe_lines = (safe(line.replace("\n", "·"), styles=self._styles) for line in lines)
            self._buffer += "".join(f"{line}\n" for line in safe_lines).encode(self._encoding, "replace")
            if self._writer is None or self._writer.done():
                self._writer = asyncio.create_task(self._write_buffer())

    async def drain(self) -> None:
        """Waits until everything is written, or writing has failed."""
        if self._writer is not None:
            await self._writer

    async def _write_buffer(self) -> None:
        try:
            while self._buffer:
                data, self._buffer = self._buffer, bytearray()
                await in_daemon_thread(_write_all, self._descriptor, data)
        except OSError as error:
            self._failed = True
            self._on_error(error)


def _write_all(descriptor: int, data: bytearray) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:  # a program that shares the terminal or pipe made it non-blocking
            select.select([], [descriptor], [])
