"""The one writer of all logs, the workers' and the engine's own: a thread, so that a hung disk delays only the logs.

A network file system may not answer for minutes. Nothing else waits for it meanwhile: output is kept in memory, and
beyond `MOST_BYTES` it is left out and counted, as on a full disk. A disk that answers but is too slow for a worker's
output is waited for by that worker (`backpressure`): nothing is left out then.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from gmg_tui import units
from gmg_tui.engine.output.log_file import LogFile

MOST_BYTES = 32 << 20
"""What may wait for the disk, of all logs together: half an hour of eight workers that print twenty lines a second."""
CROWDED_BYTES = 1 << 20
"""What may wait of one log for a disk that answers but is too slow …"""
ALL_CROWDED_BYTES = 16 << 20
"""… and of all logs together, in equal shares."""
PATIENCE_S = 5.0
"""How long one write may take before the disk counts as hung."""
_FULL = f"the disk did not answer, and {units.mib(MOST_BYTES >> 20)} waited for it"
_PIECE_BYTES = 256 << 10
"""What is written at once, and by which a disk shows that it answers."""
_LOOK_S = 1.0
"""How often a crowded log looks whether the disk still answers."""
_WRITTEN_S = 2.0
"""How long the end of an attempt is delayed until its log is written."""
GIVEN_UP_S = 20.0
"""How long the end of the session is delayed for a disk that does not answer …"""
_LAST_S = 120.0
"""… and for one that does: `MOST_BYTES` at 0.3 MB/s."""


class Sink(Protocol):
    """Where a log is written to; only used by the thread, and raises nothing."""

    trouble: str | None
    """Why bytes are not being written, in one line; None while all is well."""

    def write(self, data: bytes) -> None:
        """Append `data`."""

    def skip(self, size: int, why: str) -> None:
        """Note that `size` bytes are missing here, and why."""

    def close(self) -> None:
        """Release the file for now."""


class LogWriter:
    """The thread, and the data that wait for it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[Sink, list[Callable[[], None]]] = {}
        """The thread's work for each sink; guarded by the condition, as are the next two."""
        self._sizes: Counter[Sink] = Counter()
        """Bytes that wait, or are being written, of each log that has any; guarded as well."""
        self._tellers: dict[Sink, Callable[[], None]] = {}
        """Who is told when a crowded log has room; guarded as well."""
        self._closing = False
        self._telling = False
        """Whether the thread is about to be notified."""
        self._busy_since: float | None = None
        """When the thread began its current action, monotonic seconds."""
        self._thread = threading.Thread(target=self._run, name="logs", daemon=True)
        self._thread.start()

    def open(self, path: Path, most_bytes: int | None = None) -> Log:
        """The log at `path`, of `most_bytes` at most; the file is created with its first byte."""
        return Log(self, LogFile(path, most_bytes))

    @property
    def silent_s(self) -> float | None:
        """For how long the disk has not answered, seconds; None while it is quick enough."""
        since = self._busy_since
        waited_s = time.monotonic() - since if since is not None else 0.0
        return waited_s if waited_s > PATIENCE_S else None

    def write(self, sink: Sink, data: bytes, missing: int) -> bool:
        """Queue `data`, after a note about the bytes `missing` before it.

        Returns whether it was queued: not if too much waits already.
        """
        with self._changed:
            waiting = self._sizes.total()
            if waiting and waiting + len(data) > MOST_BYTES:
                return False
            self._sizes[sink] += len(data)
            self._add(sink, lambda: self._write(sink, data, missing))
        return True

    def then(self, sink: Sink, action: Callable[[], None]) -> None:
        """Have the thread do something after all that waits for `sink`."""
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
            # Once per turn of the loop: waking the thread for each pipe would cost more than the writing.
            loop.call_soon(self._tell)
            self._telling = True

    def _tell(self) -> None:
        with self._changed:
            self._telling = False
            self._changed.notify_all()

    def crowded(self, sink: Sink, told: Callable[[], None] | None = None) -> bool:
        """Whether so much of one log waits for a disk that answers that no more should come.

        Then the thread calls `told` once when half of it is written.
        """
        # Without the lock: it is asked after each write, and nothing hangs on one more or less.
        if self._sizes.get(sink, 0) <= self._most() or self.silent_s is not None:
            return False
        if told is None:
            return True
        with self._changed:
            crowded = self._sizes[sink] > self._most()
            if crowded:
                self._tellers[sink] = told
            return crowded

    def _most(self) -> int:
        return min(CROWDED_BYTES, ALL_CROWDED_BYTES // max(1, len(self._sizes)))

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
            piece = data[start : start + _PIECE_BYTES]
            sink.write(piece)
            self._written(sink, len(piece))

    def _written(self, sink: Sink, size: int) -> None:
        with self._changed:
            self._sizes[sink] -= size
            told = self._tellers.pop(sink, None) if self._sizes[sink] <= self._most() // 2 else None
            if not self._sizes[sink]:
                del self._sizes[sink]
        if told is not None:
            told()

    def close(self) -> None:
        """Write all that waits, and end the thread; a disk that does not answer, or takes too long, is given up."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        deadline = time.monotonic() + _LAST_S
        while self._thread.is_alive() and time.monotonic() < deadline:
            since = self._busy_since
            if since is not None and time.monotonic() - since > GIVEN_UP_S:
                return
            self._thread.join(_LOOK_S)


class Log:
    """One log. It raises nothing."""

    def __init__(self, logs: LogWriter, sink: Sink) -> None:
        self._logs = logs
        self._sink = sink
        self._missing = 0
        """Bytes left out since the last that were queued."""

    @property
    def trouble(self) -> str | None:
        """Why bytes are not being written, in one line; None while all is well."""
        silent_s = self._logs.silent_s
        if silent_s is None:
            return self._sink.trouble
        return f"log not written for {units.span(silent_s)}: the disk does not answer"

    @property
    def crowded(self) -> bool:
        """Whether so much waits for a disk that answers that no more should come."""
        return self._logs.crowded(self._sink)

    async def room(self) -> None:
        """Wait until the log is no longer crowded: half of it is written, or the disk does not answer any more."""
        loop = asyncio.get_running_loop()
        told = asyncio.Event()
        while not told.is_set() and self._logs.crowded(self._sink, lambda: _tell(loop, told)):
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await told.wait()

    def write(self, data: bytes) -> None:
        """Append `data`; if too much waits already, it is left out, and the log says so."""
        if not data:
            return
        if self._logs.write(self._sink, data, self._missing):
            self._missing = 0
        else:
            self._missing += len(data)

    async def written(self) -> None:
        """Wait until all that was queued has been written, for `_WRITTEN_S` at most."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        self._logs.then(self._sink, lambda: _tell(loop, done))
        with suppress(TimeoutError):
            async with asyncio.timeout(_WRITTEN_S):
                await done.wait()

    def close(self) -> None:
        """Close the file; a later write opens it again."""
        missing, self._missing = self._missing, 0
        if missing:
            self._logs.then(self._sink, lambda: self._sink.skip(missing, _FULL))
        self._logs.then(self._sink, self._sink.close)


def _tell(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the loop is closed: the engine has ended meanwhile
        loop.call_soon_threadsafe(event.set)


class LogHandler(logging.Handler):
    """Passes the records of `logging` to a log.

    `logging.handlers.QueueListener` would need the same bound, count and give-up time: its `stop` waits forever for a
    disk that does not answer.
    """

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        self._log.write((self.format(record) + "\n").encode(errors="backslashreplace"))
