"""The engine's side of the store: accepts records at once, and writes them from its own thread, in bounded memory."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from gmg_tui.model import JobRecord, Session, Snapshot
from gmg_tui.store.records import JobAttempt, MetricsRow, StoreError

if TYPE_CHECKING:
    from sqlite3 import Connection

_log = logging.getLogger(__name__)

Record = Session | Snapshot | JobRecord | JobAttempt | MetricsRow
MAX_METRICS = 20_000
"""Rows that may wait: some minutes of 64 slots, some megabytes."""
_METRICS_S = 5.0
"""How often metrics are written when nothing else is."""
_RETRY_S = 1.0
_RETRY_CLOSING_S = 0.25
_REFUSED_S = 10.0
"""How long a closing writer keeps trying."""
_HUNG_S = 20.0
"""How long to wait for a closing writer: a network file system may never answer."""
_EXPORT_REST = 50.0
"""The pause after files were generated, in multiples of how long that took."""


class _Backlog:
    """What waits to be written: the latest record of the session, each job and each attempt, and metrics.

    Jobs and attempts are never dropped; the oldest metrics are when there are too many.
    """

    def __init__(self) -> None:
        self.session: Session | None = None
        self.snapshot: Snapshot | None = None
        self.jobs: dict[int, JobRecord] = {}
        self.attempts: dict[tuple[int, int, int], JobAttempt] = {}
        self.metrics: deque[MetricsRow] = deque(maxlen=MAX_METRICS)
        self.urgent = False
        """Whether there is more than metrics, which can wait."""

    def put(self, record: Record) -> None:
        """Add a record; a job's without results leaves those of the earlier one."""
        self.urgent |= not isinstance(record, MetricsRow)
        match record:
            case Session():
                self.session = record
            case Snapshot():
                self.snapshot = record
            case JobRecord():
                before = self.jobs.get(record.number)
                if record.result is None and before is not None:
                    record = structs.replace(record, result=before.result)
                self.jobs[record.number] = record
            case JobAttempt():
                self.attempts[record.key] = record
            case MetricsRow():
                self.metrics.append(record)

    def __iter__(self) -> Iterator[Record]:
        yield from (record for record in (self.session, self.snapshot) if record is not None)
        yield from self.jobs.values()
        yield from self.attempts.values()
        yield from self.metrics

    def __bool__(self) -> bool:
        return self.urgent or bool(self.metrics)


class StoreWriter:
    """Writes a session's store. All methods but `close` return at once; disk errors go to `trouble`.

    The thread is a daemon: a disk that hangs must not keep the engine from exiting.

    Args:
        path: The store's file; created where there is none, continued where there is one.
        trouble: Called from the writer's thread with one line when writing fails, with None once all is well.
        export: Generates files from the store; called from the writer's thread once a job's end is written, and at the
            end. May raise `OSError` or `StoreError`.
    """

    def __init__(
        self, path: Path, trouble: Callable[[str | None], None], *, export: Callable[[], None] | None = None
    ) -> None:
        self._path = path
        self._trouble = trouble
        self._export = export
        self._changed = threading.Condition()
        self._fresh = _Backlog()
        """Accepted and not yet seen by the thread; guarded by the condition, as is `_closing`."""
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)
        # Everything below belongs to the thread.
        self._waiting = _Backlog()
        self._db: Connection | None = None
        self._is_new = True
        """Whether the store may be created: not again once it was opened, as it would lack what was written before."""
        self._store_trouble: str | None = None
        self._export_trouble: str | None = None
        self._reported: str | None = None
        self._ended = False
        """Whether a job has ended since the files were generated."""
        self._not_before = 0.0

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, *records: Record) -> None:
        """Store records: metrics within seconds, all others at once.

        The latest session, snapshot, job of a number, and attempt of a job, number and rank win, and none is dropped. Of
        metrics the oldest are when too many wait.
        """
        with self._changed:
            for record in records:
                self._fresh.put(record)
            if self._fresh.urgent:
                self._changed.notify()

    async def close(self) -> None:
        """Write everything that waits, generate the files, and end the thread; gives up when the disk keeps failing."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, _HUNG_S)

    # The thread

    def _run(self) -> None:
        give_up = float("inf")
        closing = False
        while not closing or (self._left() and time.monotonic() < give_up):
            closing = self._await(closing)
            if closing:
                give_up = min(give_up, time.monotonic() + _REFUSED_S)
            self._write()
            self._generate(closing)
            line = self._store_trouble or self._export_trouble
            if line != self._reported:
                self._reported = line
                with suppress(RuntimeError):  # the engine's event loop is closed
                    self._trouble(line)
        self._close()

    def _left(self) -> bool:
        return bool(self._waiting or self._store_trouble or self._export_trouble)

    def _await(self, closing: bool) -> bool:
        """Wait for something to do and take it; whether the writer is closing."""
        with self._changed:
            if closing:
                self._changed.wait(_RETRY_CLOSING_S)
            elif self._store_trouble is not None:
                self._changed.wait_for(lambda: self._closing, _RETRY_S)
            else:
                self._changed.wait_for(lambda: self._closing or self._fresh.urgent, _METRICS_S)
            fresh, self._fresh = self._fresh, _Backlog()
            closing = self._closing
        self._ended = self._ended or any(job.state.ended for job in fresh.jobs.values())
        for record in fresh:
            self._waiting.put(record)
        return closing

    def _write(self) -> None:
        if not self._waiting and self._store_trouble is None:
            return
        import sqlite3  # not before the first write: the engine's start should not wait for it

        from gmg_tui.store import database

        try:
            if self._db is None:
                self._db = database.open_for_writing(self._path, create=self._is_new)
                self._is_new = False
            _put(self._db, self._waiting)
        except (sqlite3.Error, OSError) as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in database.PASSING:
                self._close()
            where = getattr(error, "filename", None) or self._path
            self._store_trouble = f"{where}: {getattr(error, 'strerror', None) or error}"
        except StoreError as error:
            self._store_trouble = str(error)
        except Exception as error:  # a bug: the engine continues without the store
            _log.exception("the store cannot be written")
            self._store_trouble = f"{self._path}: {type(error).__name__}: {error}"
        else:
            self._waiting, self._store_trouble = _Backlog(), None

    def _generate(self, closing: bool) -> None:
        due = self._ended and time.monotonic() >= self._not_before
        if self._export is None or self._store_trouble or not (due or closing):
            return
        begun = time.monotonic()
        try:
            self._export()
        except (OSError, StoreError) as error:
            text = (
                f"{error.filename or self._path.parent}: {error.strerror}" if isinstance(error, OSError) else str(error)
            )
            self._export_trouble = f"{text}; the results' files are out of date"
        except Exception as error:  # as above
            _log.exception("the results cannot be written")
            self._export_trouble = f"the results' files cannot be written: {type(error).__name__}: {error}"
        else:
            self._export_trouble, self._ended = None, False
        self._not_before = time.monotonic() + max(_RETRY_S, _EXPORT_REST * (time.monotonic() - begun))

    def _close(self) -> None:
        if self._db is not None:
            import sqlite3

            with suppress(sqlite3.Error):  # what was not committed is rolled back by whoever opens the file next
                self._db.close()
            self._db = None


def _put(db: Connection, backlog: _Backlog) -> None:
    """Write all of `backlog` in one transaction."""
    import sqlite3

    from gmg_tui.store import database

    meta = [("session", backlog.session), ("snapshot", backlog.snapshot)]
    db.execute("BEGIN IMMEDIATE")
    try:
        db.executemany(database.PUT_META, [(key, database.encode(value)) for key, value in meta if value is not None])
        db.executemany(database.PUT_JOB, map(database.job_row, backlog.jobs.values()))
        attempts = [(*ran.key, database.encode(ran)) for ran in backlog.attempts.values()]
        db.executemany(database.PUT_ATTEMPT, attempts)
        db.executemany(database.PUT_METRICS, backlog.metrics)
        db.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # SQLite rolls back by itself after some errors
            db.execute("ROLLBACK")
        raise
