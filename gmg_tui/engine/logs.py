"""Writes log files from a thread of its own, so that a disk that does not answer holds up nothing but the logs.

A network file system may not answer for minutes. Workers, clients and cards do not wait for it meanwhile: what they say
is kept in memory, and beyond `MOST_BYTES` left out and counted, as on a full disk.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from gmg_tui import units
from gmg_tui.engine.logfile import LogFile

MOST_BYTES = 32 << 20
"""What may wait for the disk, of all logs together: half an hour of eight workers that print twenty lines a second."""
MOST_IN_TIME_BYTES = 2 << 20
"""What may wait for a disk that does answer; it only is slower than what is to be written, which waits for it then."""
PATIENCE_S = 5.0
"""How long a disk may take for one write before it counts as one that does not answer."""
_FULL = f"the disk did not answer, and {units.mib(MOST_BYTES >> 20)} waited for it"
_PIECE_BYTES = 1 << 20
_WRITTEN_S = 2.0
"""How long the end of an attempt is put off until its log is written."""
GIVEN_UP_S = 20.0
"""How long the end of the session is put off for a disk that does not answer."""


class Sink(Protocol):
    """Where a log is written to; used by the thread alone, and raises nothing."""

    trouble: str | None
    """Why bytes are not being written, in one line; None while all is well."""

    def write(self, data: bytes) -> None:
        """Append `data`."""

    def skip(self, size: int, why: str) -> None:
        """Say that `size` bytes are missing here."""

    def close(self) -> None:
        """No more is written for now."""


class Logs:
    """The thread, and what waits for it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[Sink, list[Callable[[], None]]] = {}
        """What the thread is to do with each sink; guarded by the condition, as are the next three."""
        self._size = 0
        """Bytes that wait, or are being written."""
        self._closing = False
        self._telling = False
        """Whether the thread is about to be told of what waits."""
        self._busy_since: float | None = None
        """When the thread has begun what it does, monotonic seconds."""
        self._thread = threading.Thread(target=self._run, name="logs", daemon=True)
        self._thread.start()

    def open(self, path: Path) -> Log:
        """The log that is kept at `path`; the file is made with its first byte."""
        return Log(self, LogFile(path))

    @property
    def silent_s(self) -> float | None:
        """For how long the disk has not answered, seconds; None while it takes no longer than it may."""
        since = self._busy_since
        waited_s = time.monotonic() - since if since is not None else 0.0
        return waited_s if waited_s > PATIENCE_S else None

    def write(self, sink: Sink, data: bytes, missing: int) -> bool:
        """Have `data` written, after a word about the bytes that are `missing` before it.

        Returns:
            Whether it will be; not where too much waits already. A disk that is merely slow is waited for.
        """
        with self._changed:
            if not self._has_room(len(data)):
                return False
            self._size += len(data)
            self._add(sink, lambda: self._write(sink, data, missing))
        return True

    def then(self, sink: Sink, action: Callable[[], None]) -> None:
        """Have something done by the thread, after all that waits for `sink`."""
        with self._changed:
            self._add(sink, action)

    def _add(self, sink: Sink, action: Callable[[], None]) -> None:
        self._waiting.setdefault(sink, []).append(action)
        if self._telling:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._changed.notify_all()
        else:
            # Once for all that this turn of the loop brings: a thread that wakes up for each pipe costs more than it
            # writes.
            loop.call_soon(self._tell)
            self._telling = True

    def _tell(self) -> None:
        with self._changed:
            self._telling = False
            self._changed.notify_all()

    def _has_room(self, size: int) -> bool:
        while self._size and self._size + size > MOST_IN_TIME_BYTES:
            if self.silent_s is not None:
                return self._size + size <= MOST_BYTES
            self._changed.notify_all()
            self._changed.wait(PATIENCE_S)
        return True

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    if self._closing:
                        return
                    self._changed.wait()
                batch, self._waiting = self._waiting, {}
            for actions in batch.values():
                for action in actions:
                    self._busy_since = time.monotonic()
                    action()
            self._busy_since = None

    def _write(self, sink: Sink, data: bytes, missing: int) -> None:
        if missing:
            sink.skip(missing, _FULL)
        for start in range(0, len(data), _PIECE_BYTES):
            self._busy_since = time.monotonic()
            sink.write(data[start : start + _PIECE_BYTES])
        with self._changed:
            self._size -= len(data)
            self._changed.notify_all()

    def close(self) -> None:
        """Write all that waits and end the thread; a disk that does not answer is given up."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(GIVEN_UP_S)


class Log:
    """One log. It raises nothing.

    Args:
        logs: Writes it.
        sink: Where to.
    """

    def __init__(self, logs: Logs, sink: Sink) -> None:
        self._logs = logs
        self._sink = sink
        self._missing = 0
        """Bytes that were not taken since the last that were."""

    @property
    def trouble(self) -> str | None:
        """Why bytes are not being written, in one line; None while all is well."""
        silent_s = self._logs.silent_s
        if silent_s is None:
            return self._sink.trouble
        return f"log not written for {units.span(silent_s)}: the disk does not answer"

    def write(self, data: bytes) -> None:
        """Append `data`; where too much waits already it is left out, and the log says so."""
        if not data:
            return
        if self._logs.write(self._sink, data, self._missing):
            self._missing = 0
        else:
            self._missing += len(data)

    async def written(self) -> None:
        """Wait until all that was taken has been written, for a moment at most."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def tell() -> None:
            with suppress(RuntimeError):  # the loop is closed: the engine has ended meanwhile
                loop.call_soon_threadsafe(done.set)

        self._logs.then(self._sink, tell)
        with suppress(TimeoutError):
            async with asyncio.timeout(_WRITTEN_S):
                await done.wait()

    def close(self) -> None:
        """Close the file; a later write opens it again."""
        missing, self._missing = self._missing, 0
        if missing:
            self._logs.then(self._sink, lambda: self._sink.skip(missing, _FULL))
        self._logs.then(self._sink, self._sink.close)


class LogHandler(logging.Handler):
    """Gives the records of `logging` to a log."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record. It raises nothing that the disk does."""
        self._log.write((self.format(record) + "\n").encode(errors="backslashreplace"))
