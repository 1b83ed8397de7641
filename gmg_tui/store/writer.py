"""The engine's side of the store: accepts records at once, and writes them from its own thread."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gmg_tui.model import JobRecord, Session
from gmg_tui.store.backlog import Backlog, LatestRecords
from gmg_tui.store.moments import Moment
from gmg_tui.store.records import Event, JobAttempt, MetricsRow, StoreError

if TYPE_CHECKING:
    from gmg_tui.store.store_file import StoreFile

_log = logging.getLogger(__name__)

_LOOK_S = 5.0
"""How often metrics are written when nothing else is, and the file's existence is checked."""
_RETRY_S = 1.0
_RETRY_CLOSING_S = 0.25
_REFUSED_S = 10.0
"""How long a closing writer keeps trying."""
_HUNG_S = 20.0
"""How long to wait for a closing writer: a network file system may never answer."""


class ResultsFiles(Protocol):
    """The results' files (`gmg_tui.results.Results`); used by the writer's thread only."""

    stale: bool
    """Whether the files are out of date."""

    def take(self, jobs: Iterable[JobRecord], attempts: Iterable[JobAttempt]) -> None:
        """Take records, each the latest of its job or attempt."""

    def result_of(self, job: int) -> dict[str, Any]:
        """What a job has reported. Raises `OSError`."""

    @property
    def due_s(self) -> float | None:
        """Seconds until the files are due to be written; None when they are up to date."""

    def write(self) -> None:
        """Write the files. Raises `OSError`, and they are due again."""


class StoreWriter:
    """Writes a session's store. All methods but `close` return at once; disk errors go to `trouble`.

    The thread is a daemon: a disk that hangs must not keep the engine from exiting.

    Args:
        path: The store's file; created where there is none, continued where there is one.
        trouble: Called from the writer's thread with one line when writing fails, with None once everything that
            waited is written.
        results: Files to write as well.
    """

    def __init__(
        self, path: Path, trouble: Callable[[str | None], None], *, results: ResultsFiles | None = None
    ) -> None:
        self._path = path
        self._trouble = trouble
        self._results = results
        self._changed = threading.Condition()
        self._fresh = Backlog()
        """Accepted and not yet seen by the thread; guarded by the condition, as is `_closing`."""
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)
        # Everything below belongs to the thread.
        self._known = LatestRecords()
        self._waiting = Backlog()
        self._store_trouble: str | None = None
        self._results_trouble: str | None = None
        self._said: str | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def session(self, session: Session) -> None:
        """Store the session; the latest wins."""
        with self._changed:
            self._fresh.session = session
            self._changed.notify()

    def job(self, record: JobRecord) -> None:
        """Store a job's record; the latest of each number wins. It is never dropped."""
        with self._changed:
            self._fresh.add_job(record)
            self._changed.notify()

    def refresh(self, record: JobRecord, one: JobAttempt) -> None:
        """Store a live job and its attempt as they are at this moment, within seconds."""
        with self._changed:
            self._fresh.jobs[record.number] = record
            self._fresh.attempts[one.key] = one

    def attempt(self, one: JobAttempt) -> None:
        """Store an attempt; the latest of each job and number wins. It is never dropped."""
        with self._changed:
            self._fresh.attempts[one.key] = one
            self._changed.notify()

    def event(self, event: Event) -> None:
        """Store an event; dropped, and counted, when too many wait."""
        with self._changed:
            self._fresh.add_event(event)
            self._changed.notify()

    def metrics(self, rows: Sequence[MetricsRow]) -> None:
        """Store metrics within seconds; dropped, and counted, when too many wait."""
        with self._changed:
            self._fresh.add_metrics(rows)

    def moment(self, moment: Moment) -> None:
        """Store how the session is at a moment, within seconds; the oldest that wait are dropped when they are too many."""
        with self._changed:
            self._fresh.moments.append(moment)

    async def close(self) -> None:
        """Write everything that waits and the last results, and end the thread; gives up when the disk keeps failing."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, _HUNG_S)

    # The thread

    def _run(self) -> None:
        from gmg_tui.store.store_file import StoreFile  # loads SQLite, which the engine's start should not wait for

        disk = StoreFile(self._path, self._known, self._result_of)
        give_up = float("inf")
        closing = False
        while not closing or (self._left() and time.monotonic() < give_up):
            closing = self._await(closing)
            if closing:
                give_up = min(give_up, time.monotonic() + _REFUSED_S)
            self._write(disk)
            self._write_results(closing)
            self._tell()
        disk.close()

    def _left(self) -> bool:
        return bool(self._waiting or self._store_trouble or self._results_trouble)

    def _await(self, closing: bool) -> bool:
        """Wait for something to do and take it; whether the writer is closing."""
        with self._changed:
            if closing:
                self._changed.wait(_RETRY_CLOSING_S)
            elif self._store_trouble is not None:
                self._changed.wait_for(lambda: self._closing, _RETRY_S)
            else:
                due_s = self._results.due_s if self._results is not None else None
                timeout_s = _LOOK_S if due_s is None else min(_LOOK_S, max(due_s, 0.0))
                self._changed.wait_for(lambda: self._closing or self._fresh.urgent, timeout_s)
            fresh, self._fresh = self._fresh, Backlog()
            closing = self._closing
        self._known.update(fresh)
        self._known.forget_oldest()
        if self._results is not None:
            self._results.take(fresh.jobs.values(), fresh.attempts.values())
        self._waiting.merge(fresh)
        return closing

    def _write(self, disk: StoreFile) -> None:
        if not self._waiting and not self._store_trouble and not disk.gone():
            return
        try:
            found = disk.write(self._waiting)
        except StoreError as error:
            self._store_trouble = str(error)
            return
        except Exception as error:  # a bug: the engine and the results continue without the store
            _log.exception("the store cannot be written")
            self._store_trouble = f"{self._path}: {type(error).__name__}: {error}"
            return
        written, self._waiting = self._waiting, Backlog()
        self._store_trouble = None
        if self._results is not None:
            self._results.take(found.jobs.values(), found.attempts.values())
            self._known.forget_results({*written.jobs, *found.jobs})

    def _result_of(self, job: int) -> dict[str, Any]:
        """What a job has reported, for a store that has lost it."""
        return self._results.result_of(job) if self._results is not None else {}

    def _write_results(self, closing: bool) -> None:
        if self._results is None:
            return
        if not (self._results.stale if closing else self._results.due_s == 0):
            return
        try:
            self._results.write()
        except OSError as error:
            self._results_trouble = f"{error.filename}: {error.strerror}; the results' files are out of date"
        except Exception as error:  # as above
            _log.exception("the results cannot be written")
            self._results_trouble = f"the results' files cannot be written: {type(error).__name__}: {error}"
        else:
            self._results_trouble = None

    def _tell(self) -> None:
        line = self._store_trouble or self._results_trouble
        if line != self._said:
            self._said = line
            with suppress(RuntimeError):  # the engine's event loop is closed
                self._trouble(line)
