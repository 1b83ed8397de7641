"""Standard output and standard error for a program that must go on when nobody reads them."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable
from typing import TextIO

_ROOM_BYTES = 1 << 20
"""How much may wait to be written before `Output.full` says so."""
_SIGNS = {"│": "|", "Σ": "Sum", "–": "-", "…": "...", "·": ".", "⚠": "!", "\N{MULTIPLICATION SIGN}": "x"}
_PLAIN = str.maketrans(_SIGNS)


class Output:
    """Writes lines to a file descriptor from a thread of its own.

    A terminal that is held (ctrl+s) or a pipe whose reader sleeps blocks that thread and nothing else, so that ctrl+c
    and the engine's messages are always heard. The descriptor is written past Python's buffers, whose locks the blocked
    thread would hold when the program ends.
    """

    def __init__(self, stream: TextIO, *, ascii_only: bool, on_error: Callable[[OSError], None] | None = None) -> None:
        """Write to `stream`; must be made, and used, in a running event loop.

        Args:
            stream: The stream whose descriptor and encoding are taken.
            ascii_only: Use ASCII signs even where the encoding has others.
            on_error: Called in the event loop when nothing can be written any more; what is said later is dropped.
        """
        stream.flush()
        self._descriptor = stream.fileno()
        self._encoding = stream.encoding
        self._plain = ascii_only or not _can(stream.encoding)
        self._on_error = on_error
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._waiting_bytes = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._broken = False
        threading.Thread(target=self._write, name=f"output {self._descriptor}", daemon=True).start()

    @property
    def full(self) -> bool:
        """Whether so much waits to be written that what can be left out should be."""
        return self._waiting_bytes > _ROOM_BYTES

    def say(self, *lines: str) -> None:
        """Have `lines` written, in order, as soon as the other side takes them."""
        if not lines or self._broken:
            return
        text = "\n".join(lines) + "\n"
        data = (text.translate(_PLAIN) if self._plain else text).encode(self._encoding, "replace")
        self._waiting_bytes += len(data)
        self._idle.clear()
        self._queue.put(data)

    async def written(self) -> None:
        """Return when all is written, or nothing can be any more; takes as long as the other side does not read."""
        await self._idle.wait()

    def _write(self) -> None:
        """The thread: it knows the queue and the descriptor, and tells the event loop how it fares."""
        try:
            while True:
                data = self._queue.get()
                view = memoryview(data)
                try:
                    while view:
                        view = view[os.write(self._descriptor, view) :]
                except OSError as error:
                    self._loop.call_soon_threadsafe(self._fail, error)
                    return
                self._loop.call_soon_threadsafe(self._wrote, len(data))
        except RuntimeError:
            return  # the event loop was closed: the program has ended without waiting for this write

    def _wrote(self, size_bytes: int) -> None:
        self._waiting_bytes -= size_bytes
        if not self._waiting_bytes:
            self._idle.set()

    def _fail(self, error: OSError) -> None:
        self._broken = True
        self._idle.set()
        if self._on_error is not None:
            self._on_error(error)


def _can(encoding: str) -> bool:
    """Whether `encoding` has all the signs that are used."""
    try:
        "".join(_SIGNS).encode(encoding)
    except UnicodeEncodeError:
        return False
    return True
