"""Writes the store in threads, off the engine's event loop, with a bounded backlog."""

import asyncio
import logging
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.model import JobRecord
from gmg_tui.model.jobs import MAX_NAMES
from gmg_tui.scripts.readers.reported import MAX_TOTAL_BYTES
from gmg_tui.session.store import database
from gmg_tui.session.store.database import AttemptCurves, JobAttempt, LateCurves, MetricsRow, Record, StoreError, thin

_log = logging.getLogger(__name__)

MAX_UNWRITTEN_METRICS = 20_000
"""Maximum unwritten rows: some minutes of 64 slots, a few megabytes."""
_METRICS_INTERVAL_S = 5.0
"""Interval between writes if only metrics are queued."""
_THIN_INTERVAL_S = 60.0
_RETRY_S = 1.0
"""Interval between attempts while writing fails."""
MAX_FINAL_WAIT_S = 300.0
"""Seconds to wait at a session's end until its records are written: the disk may be full, or the store locked."""
_DISK_TIMEOUT_S = 20.0
"""Timeout for one write: a network file system may never answer."""
_WRITTEN_TIMEOUT_S = 1.0
_EXPORT_PAUSE_RATIO = 50.0
"""Pause after an export, as a multiple of its duration."""


class _Backlog:
    """The records to write: the newest of each key, and the newest metrics."""

    def __init__(self) -> None:
        self.records: dict[object, Record] = {}
        """All records but metrics."""
        self.metrics: deque[MetricsRow] = deque(maxlen=MAX_UNWRITTEN_METRICS)

    def put(self, record: Record) -> None:
        """Adds a record; a job without results keeps its earlier ones."""
        key: object = type(record)
        match record:
            case MetricsRow():
                self.metrics.append(record)
                return
            case JobRecord(number=key):
                earlier = self.records.get(key)
                if record.result is None and isinstance(earlier, JobRecord):
                    record = structs.replace(record, result=earlier.result)
            case JobAttempt() | AttemptCurves() | LateCurves():
                key = type(record), record.key
        self.records[key] = record

    def __iter__(self) -> Iterator[Record]:
        yield from self.records.values()
        yield from self.metrics

    def __bool__(self) -> bool:
        return bool(self.records or self.metrics)


class StoreWriter:
    """Writes a session's store.

    Attributes:
        trouble: Reason the last write failed, in one line; None if it succeeded.

    Args:
        path: The store's file, created if missing.
        report_trouble: Called with one line when writing or exporting fails, and with None once both work again.
        export: Generates files from the store in a thread, after the ends of jobs and on close. May raise `OSError` or
            `StoreError`.
    """

    def __init__(
        self, path: Path, report_trouble: Callable[[str | None], None], *, export: Callable[[], None] | None = None
    ) -> None:
        self._path, self._report_trouble, self._export = path, report_trouble, export
        self._unwritten, self._writing = _Backlog(), _Backlog()
        """Records since the last write, and those being written."""
        self.trouble: str | None = None
        self._due = asyncio.Event()
        self._written = asyncio.Event()
        """Set once all records but metrics are written, or there is no reason to wait for that."""
        self._closing = self._gave_up = False
        self._is_gone = False
        """True if the store was removed or replaced: it can never be written again."""
        self._lock = asyncio.Lock()
        """Held during a write, as there is one connection."""
        self._task: asyncio.Task[None] | None = None
        self._db: sqlite3.Connection | None = None
        self._may_create = True
        """True until the store has been opened: recreating it later would lose records."""
        self._exporting: asyncio.Task[None] | None = None
        self._export_trouble: str | None = None
        self._has_job_ended = False
        """True if a job has ended since the last export."""
        self._export_at = self._thin_at = 0.0
        """Earliest times of the next export and thinning, in monotonic seconds."""

    def start(self) -> None:
        """Starts the writer's task."""
        self._task = asyncio.create_task(self._run())

    def put(self, *records: Record) -> None:
        """Queues records. Metrics are written within seconds, all others at once.

        If too many metrics are queued, the oldest are dropped.
        """
        for record in records:
            self._unwritten.put(record)
        if self._unwritten.records:
            self._written.clear()
            self._due.set()

    async def write(self, *records: Record) -> None:
        """Writes records now. Raises `StoreError` with the reason if they cannot be written; they are not queued."""
        try:
            async with asyncio.timeout(_DISK_TIMEOUT_S):
                await self._lock.acquire()
        except TimeoutError:
            raise StoreError(f"{self._path}: the disk does not answer") from None
        try:
            error_text = await in_daemon_thread(self._write_all, records)
        finally:
            self._lock.release()
        if error_text is not None:
            raise StoreError(error_text)

    @property
    def has_unwritten(self) -> bool:
        """True if records other than metrics are not written, but may still be."""
        return bool(self._unwritten.records or self._writing.records) and not self._is_gone

    async def wait_written(self, timeout_s: float = _WRITTEN_TIMEOUT_S) -> bool:
        """Waits until all records but metrics are written, for at most `timeout_s` or until `give_up`.

        Returns True unless they may still be written later.
        """
        if self.has_unwritten:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._written.wait()
        return not self.has_unwritten

    def give_up(self) -> None:
        """Ends `wait_written`, and lets `close` lose the records if one more write fails."""
        self._gave_up = True
        self._written.set()
        self._due.set()

    async def close(self) -> None:
        """Writes the backlog, exports files, and closes the store; retries for up to `MAX_FINAL_WAIT_S`."""
        self._closing = True
        self._due.set()
        if self._task is not None:
            if not self._gave_up:
                await self.wait_written(MAX_FINAL_WAIT_S)
            self.give_up()
            await asyncio.wait([self._task], timeout=_DISK_TIMEOUT_S)

    async def _run(self) -> None:
        reported = None
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_METRICS_INTERVAL_S):
                    await self._due.wait()
            self._due.clear()
            closing = self._closing
            try:
                error_text = await self._write() or await self._export_if_due(closing=closing)
            except Exception as error:  # a bug: the engine continues without the store
                _log.exception("the store cannot be written")
                error_text = f"{self._path}: {type(error).__name__}: {error}"
            if error_text != reported:
                reported = error_text
                self._report_trouble(error_text)
            if closing and (self._gave_up or not self.has_unwritten):
                async with self._lock:
                    await in_daemon_thread(self._close)
                return
            if error_text is not None:
                await asyncio.sleep(_RETRY_S)
                self._due.set()

    async def _write(self) -> str | None:
        """Writes the backlog. Returns the error as one line, if any."""
        unwritten, self._unwritten = self._unwritten, _Backlog()
        for record in unwritten:
            self._writing.put(record)
            self._has_job_ended = self._has_job_ended or (isinstance(record, JobRecord) and record.state.ended)
        if self._writing:
            async with self._lock:
                self.trouble = await in_daemon_thread(self._write_all, self._writing)
        if self.trouble is None:
            self._writing = _Backlog()
        if not self.has_unwritten:
            self._written.set()
        return self.trouble

    def _write_all(self, records: Iterable[Record]) -> str | None:
        try:
            if self._db is None:
                self._db = database.open_for_writing(self._path, create=self._may_create)
                self._may_create = False
            database.check_files(self._path)
            database.write(self._db, [_with_earlier_results(self._db, record) for record in records])
            self._thin(self._db)
            self._is_gone = False
        except (sqlite3.Error, OSError) as error:
            self._is_gone = isinstance(error, FileNotFoundError) and not self._may_create
            self._close()
            where = getattr(error, "filename", None) or self._path
            return f"{where}: {getattr(error, 'strerror', None) or error}"
        except StoreError as error:
            self._is_gone = True
            return str(error)
        return None

    def _thin(self, db: sqlite3.Connection) -> None:
        """Thins the metrics if due; a failure only leaves the store larger."""
        now = time.monotonic()
        if now < self._thin_at:
            return
        self._thin_at = now + _THIN_INTERVAL_S
        try:
            if thin(db):
                self._thin_at = now
        except sqlite3.Error:
            _log.exception("the metrics cannot be thinned")

    async def _export_if_due(self, *, closing: bool) -> str | None:
        """Starts an export if due; when `closing`, exports and waits. Returns the last export's error, if any."""
        due = self._has_job_ended and time.monotonic() >= self._export_at
        if self._export is None or not (due or closing):
            return self._export_trouble
        if closing and self._exporting is not None:
            await asyncio.wait([self._exporting])
        if self._exporting is None or self._exporting.done():
            self._has_job_ended = False
            self._exporting = asyncio.create_task(self._generate(self._export))
        if closing:
            await self._exporting
        return self._export_trouble

    async def _generate(self, export: Callable[[], None]) -> None:
        started = time.monotonic()
        try:
            await in_daemon_thread(export)
        except (OSError, StoreError) as error:
            text = str(error)
            if isinstance(error, OSError):
                text = f"{error.filename or self._path.parent}: {error.strerror}"
            self._export_trouble, self._has_job_ended = f"{text}; the results' files are out of date", True
            self._due.set()  # to report the error
        else:
            self._export_trouble = None
        self._export_at = time.monotonic() + max(_RETRY_S, _EXPORT_PAUSE_RATIO * (time.monotonic() - started))

    def _close(self) -> None:
        if self._db is not None:
            with suppress(sqlite3.Error):  # the next process to open the file rolls back
                self._db.close()
            self._db = None


def _with_earlier_results(db: sqlite3.Connection, record: Record) -> Record:
    """Returns the record of a job; one that continued from a checkpoint keeps the stored results that it does not report again."""
    if not isinstance(record, JobRecord) or record.result is None or record.last.continued_from is None:
        return record
    stored = db.execute(
        "SELECT result FROM jobs WHERE number = ? AND length(result) <= ?", (record.number, MAX_TOTAL_BYTES)
    ).fetchone()
    with suppress(msgspec.MsgspecError, RecursionError):
        earlier = database.restore_nan(msgspec.json.decode(stored[0], type=dict[str, Any])) if stored else {}
        # A node may report other names each time.
        names = [name for name in earlier if name not in record.result][: max(0, MAX_NAMES - len(record.result))]
        return structs.replace(record, result={name: earlier[name] for name in names} | record.result)
    return record
