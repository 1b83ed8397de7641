"""Writes all logs, the workers' and the engine's own, in one thread behind a bounded queue.

A disk slower than the workers' output fills the queue; then no output is read, and workers block when they print. A
network file system may hang for minutes; then nothing waits for it, and beyond `MAX_QUEUED_BYTES` output is dropped
and counted, as on a full disk.
"""

import asyncio
import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from gmg_tui.engine.clock import any_of
from gmg_tui.machine import files
from gmg_tui.machine.folders import check_own, make_private
from gmg_tui.model import units
from gmg_tui.model.text import one_line, safe

_log = logging.getLogger(__name__)

MAX_QUEUED_BYTES = 32 << 20
"""Maximum queued output: half an hour of eight workers printing twenty lines a second."""
FULL_BYTES = 16 << 20
"""Queued output above which no output is read, while the disk answers."""
HUNG_DISK_S = 5.0
"""Seconds that one write may take before the disk counts as hung."""
_HUNG_REASON = f"the disk did not answer, and {units.mib(MAX_QUEUED_BYTES >> 20)} were already queued"
_BATCHING_S = 0.01
"""Pause of the thread after its queue is empty, so that it wakes once for several actions."""
_RETRY_S = 5.0
"""Pause after a failed write, so that a full disk is not tried for each chunk."""
_STDERR = 2
"""The descriptor of the engine's own log."""
_FLUSH_TIMEOUT_S = 2.0
"""Maximum wait at an attempt's end for its log to be written."""
MAX_DISK_WAIT_S = 20.0
"""Maximum wait at the session's end for a disk that does not answer."""
_MAX_END_WAIT_S = 120.0
"""Maximum wait at the session's end for a slow disk: `MAX_QUEUED_BYTES` at 0.3 MB/s."""


class LogWriter:
    """The thread and its queue of actions."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[int, Callable[[], None]] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._queued_bytes = 0
        """Bytes queued or being written; guarded by the lock."""
        self._busy_since: float | None = None
        """Start of the thread's current action, monotonic seconds."""
        self._thread = threading.Thread(target=self._run, name="logs", daemon=True)
        self._thread.start()

    @property
    def silent_s(self) -> float | None:
        """Seconds that the current write has taken, if the disk counts as hung; None otherwise."""
        since = self._busy_since
        waited_s = time.monotonic() - since if since is not None else 0.0
        return waited_s if waited_s > HUNG_DISK_S else None

    def is_full(self) -> bool:
        """Returns True if reading should pause because too much is queued for a slow disk."""
        return self._queued_bytes > FULL_BYTES and self.silent_s is None

    @property
    def trouble(self) -> str | None:
        """The disk's problem, in words; None if there is none."""
        silent_s = self.silent_s
        if silent_s is not None:
            return f"log not written for {units.span(silent_s)}: the disk does not answer"
        return "output waits for the disk, which is slower than the workers" if self.is_full() else None

    def submit(self, action: Callable[[], None], size: int = 0) -> bool:
        """Queues an action that handles `size` bytes. Returns False if too many bytes are queued."""
        with self._lock:
            if size and self._queued_bytes and self._queued_bytes + size > MAX_QUEUED_BYTES:
                return False
            self._queued_bytes += size
        self._queue.put((size, action))
        return True

    def _run(self) -> None:
        for size, action in iter(self._queue.get, None):
            self._busy_since = time.monotonic()
            try:
                action()
            except Exception:  # a fault in one log must not affect the others
                _log.exception("a log could not be written")
            with self._lock:
                self._queued_bytes -= size
            if self._queue.empty():
                self._busy_since = None
                time.sleep(_BATCHING_S)

    def close(self) -> None:
        """Writes everything queued and ends the thread, but gives up on a disk that hangs or takes too long."""
        self._queue.put(None)
        deadline = time.monotonic() + _MAX_END_WAIT_S
        while self._thread.is_alive() and time.monotonic() < deadline:
            if (self.silent_s or 0.0) > MAX_DISK_WAIT_S:
                return
            self._thread.join(1.0)


class Log:
    """A log of at most `max_bytes`: beyond that its middle is cut out. The first write creates the file.

    Nothing here raises: bytes that cannot be written are counted, and noted in the file once writing works again.
    """

    def __init__(self, writer: LogWriter, path: Path, max_bytes: int | None = None) -> None:
        self._writer, self.path, self._max_bytes = writer, path, max_bytes
        self._dropped_bytes = 0
        """Number of bytes dropped since the last ones queued."""
        # Used only by the thread:
        self._file: int | None = None
        self._size = 0
        """Size of the open file, in bytes; after a failed cut, the bytes written since."""
        self._cut_error: str | None = None
        """The error of the last cut; None if it succeeded."""
        self._trouble: str | None = None
        self._lost_bytes = 0
        self._lost_reason = ""
        self._retry_at = 0.0
        """Time of the next attempt after a failure, monotonic seconds."""

    @property
    def trouble(self) -> str | None:
        """The problem with the log, in words; None if there is none."""
        return self._writer.trouble or self._trouble

    def write(self, data: bytes) -> None:
        """Appends `data`; if too much is queued, drops it, and notes that in the log."""
        if data and self._writer.submit(partial(self.append, data, self._dropped_bytes), len(data)):
            self._dropped_bytes = 0
        else:
            self._dropped_bytes += len(data)

    def separate(self, heading: bytes) -> None:
        """Appends a heading on a line of its own: an earlier attempt may have left its last line unfinished."""
        if not self._writer.submit(partial(self._separate, heading), len(heading)):
            self._dropped_bytes += len(heading)

    def _separate(self, heading: bytes) -> None:
        with suppress(OSError), files.open_for_reading(self.path) as file:  # `seek` fails on an empty file
            file.seek(-1, os.SEEK_END)
            heading = heading if file.read() == b"\n" else b"\n" + heading
        self.append(heading, 0)

    async def flush(self) -> None:
        """Waits up to `_FLUSH_TIMEOUT_S` until everything queued is written."""
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def set_done() -> None:
            with suppress(RuntimeError):  # the loop is closed: the engine has ended
                loop.call_soon_threadsafe(done.set)

        self._writer.submit(set_done)
        await any_of(done, timeout_s=_FLUSH_TIMEOUT_S)

    def close(self) -> None:
        """Closes the file; a later write opens it again."""
        dropped_bytes, self._dropped_bytes = self._dropped_bytes, 0
        if dropped_bytes:
            self._writer.submit(partial(self.append, b"", dropped_bytes))
        self._writer.submit(self._close)

    def append(self, data: bytes, dropped_bytes: int) -> None:
        """Appends `data`, after `dropped_bytes` missing bytes; called by the thread."""
        if dropped_bytes:
            self._lost_bytes, self._lost_reason = self._lost_bytes + dropped_bytes, _HUNG_REASON
        if self._trouble is not None and time.monotonic() < self._retry_at:
            self._lost_bytes += len(data)
            return
        rest = memoryview(data)
        try:
            file = self._open()
            if self._lost_bytes:
                os.write(
                    file, f"\n[gmg-tui] {self._lost_bytes:,} bytes are missing here: {self._lost_reason}\n".encode()
                )
                self._lost_bytes = 0
            while rest:
                written = os.write(file, rest)
                rest = rest[written:]
                self._size += written
        except OSError as error:
            self._lost_bytes += len(rest)
            self._trouble = self._lost_reason = f"log not written: {error.strerror} ({self.path})"
            self._retry_at = time.monotonic() + _RETRY_S
            self._close()
        else:
            self._cut()
            self._trouble = self._cut_error

    def _open(self) -> int:
        """Returns the file to write to. Raises `OSError`."""
        if self._file is not None and os.fstat(self._file).st_nlink == 0:
            self._close()  # the file was removed: writes would be lost
        if self._file is None:
            make_private(self.path.parent)
            self._file = files.open_regular(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            self._size = os.fstat(self._file).st_size
        return self._file

    def _cut(self) -> None:
        """Cuts out the middle if the file is too large."""
        if self._max_bytes is None or self._size <= self._max_bytes:
            return
        try:
            check_own(self.path.parent)
            files.cut_log(self.path, self._max_bytes)
        except OSError as error:
            self._size, self._cut_error = 0, f"log larger than --log-max: {error.strerror} ({self.path})"
        else:
            self._cut_error = None
            self._close()

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is None:
            return
        try:
            os.close(file)
        except OSError as error:  # network file systems and quotas may report write errors only now
            self._trouble = f"log may be incomplete: {error.strerror} ({self.path})"


MAX_RECORD_BYTES, MAX_RECORDS_BYTES = 16 << 10, 32 << 20
"""Maximum sizes of one record of the engine's own log, and of all records."""


class LogHandler(logging.Handler):
    """Writes `logging` records to standard error, the engine's own log, in the thread.

    `logging.handlers.QueueListener` would need the same bound and timeout: its `stop` waits forever for a hung disk.
    Nodes and scripts can cause records, so each is cut, and none is written after `MAX_RECORDS_BYTES`.
    """

    def __init__(self, writer: LogWriter) -> None:
        super().__init__()
        self._writer = writer
        self._remaining_bytes = MAX_RECORDS_BYTES

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one record."""
        if self._remaining_bytes <= 0:
            return
        record.msg, record.args = one_line(record.getMessage()), None  # it may name a file of a script
        data = safe(self.format(record)).encode(errors="backslashreplace")[:MAX_RECORD_BYTES] + b"\n"
        self._remaining_bytes -= len(data)
        if self._remaining_bytes <= 0:
            data += b"this log is full: nothing more will be written\n"
        self._writer.submit(partial(_print, data), len(data))


def _print(data: bytes) -> None:
    with suppress(OSError):  # nowhere left to report it
        os.write(_STDERR, data)
