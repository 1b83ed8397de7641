"""The engine's side of the store: takes what is to be kept, at once, and writes it from a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gmg_tui.model import JobRecord, Session
from gmg_tui.store.backlog import Backlog, Known
from gmg_tui.store.records import Event, FiguresRow, JobAttempt, StoreError

if TYPE_CHECKING:
    from gmg_tui.store.disk import Disk

_log = logging.getLogger(__name__)

_LOOK_S = 5.0
"""How often figures are written when nothing else is, and the file is looked for."""
_RETRY_S = 1.0
_RETRY_CLOSING_S = 0.25
_REFUSED_S = 10.0
"""How long a closing writer goes on trying."""
_HUNG_S = 20.0
"""How long a closing writer is waited for: a network file system may answer never."""


class ResultsFiles(Protocol):
    """Files that say what became of the jobs (`gmg_tui.results.Results`); used by the writer's thread alone."""

    def take(self, jobs: Iterable[JobRecord], attempts: Iterable[JobAttempt]) -> None:
        """Take records, each the latest of its job or attempt."""

    @property
    def due_s(self) -> float | None:
        """Seconds until the files are to be written; None when there is no need."""

    @property
    def stale(self) -> bool:
        """Whether the files lack anything."""

    def write(self) -> None:
        """Write the files. Raises `OSError`; they are due again then."""


class StoreWriter:
    """Writes a session's store. All methods return at once, and raise nothing that the disk does.

    The thread is a daemon: a disk that hangs must not hold up the engine's end.

    Args:
        path: The store's file; made where there is none, gone on with where there is one.
        trouble: Called from the writer's thread with one line when the disk refuses, with None when all is well again
            and all that waited is written.
        results: Files to be written along.
    """

    def __init__(
        self, path: Path, trouble: Callable[[str | None], None], *, results: ResultsFiles | None = None
    ) -> None:
        self._path = path
        self._trouble = trouble
        self._results = results
        self._changed = threading.Condition()
        self._fresh = Backlog()
        """Taken and not yet seen by the thread; guarded by the condition, as is `_closing`."""
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)
        # The rest is the thread's own.
        self._known = Known()
        self._waiting = Backlog()
        self._store_trouble: str | None = None
        self._results_trouble: str | None = None
        self._said: str | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def session(self, session: Session) -> None:
        """Keep the session; the latest counts."""
        with self._changed:
            self._fresh.session = session
            self._changed.notify()

    def job(self, record: JobRecord) -> None:
        """Keep what became of a job; the latest of each number counts. It is never dropped."""
        with self._changed:
            self._fresh.jobs[record.number] = record
            self._changed.notify()

    def attempt(self, one: JobAttempt) -> None:
        """Keep an attempt; the latest of each job and number counts. It is never dropped."""
        with self._changed:
            self._fresh.attempts[one.key] = one
            self._changed.notify()

    def event(self, event: Event) -> None:
        """Keep an event; dropped, and counted, when too many wait."""
        with self._changed:
            self._fresh.add_event(event)
            self._changed.notify()

    def figures(self, rows: Sequence[FiguresRow]) -> None:
        """Keep figures; they are written within seconds, and dropped and counted when too many wait."""
        with self._changed:
            self._fresh.add_figures(rows)

    async def close(self) -> None:
        """Write all that waits and the last results, and end the thread; gives up when the disk goes on refusing."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, _HUNG_S)

    # The thread

    def _run(self) -> None:
        from gmg_tui.store.disk import Disk  # loads SQLite, for which the engine's start should not wait

        disk = Disk(self._path, self._known)
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
        """Wait for something to do and take it; whether the writer is to end."""
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
        self._known.learn(fresh)
        if self._results is not None:
            self._results.take(fresh.jobs.values(), fresh.attempts.values())
        self._waiting.merge(fresh)
        return closing

    def _write(self, disk: Disk) -> None:
        if not self._waiting and not self._store_trouble and not disk.gone():
            return
        try:
            found = disk.write(self._waiting)
        except StoreError as error:
            self._store_trouble = str(error)
            return
        except Exception as error:  # a fault of this program: the engine and the results go on without the store
            _log.exception("the store cannot be written")
            self._store_trouble = f"{self._path}: {type(error).__name__}: {error}"
            return
        self._waiting = Backlog()
        self._store_trouble = None
        if self._results is not None:
            self._results.take(found.jobs.values(), found.attempts.values())

    def _write_results(self, closing: bool) -> None:
        if self._results is None:
            return
        if not (self._results.stale if closing else self._results.due_s == 0):
            return
        try:
            self._results.write()
        except OSError as error:
            self._results_trouble = f"{error.filename}: {error.strerror}; the results' files are not up to date"
        except Exception as error:  # as above: jobs and their records matter more
            _log.exception("the results cannot be written")
            self._results_trouble = f"the results' files cannot be written: {type(error).__name__}: {error}"
        else:
            self._results_trouble = None

    def _tell(self) -> None:
        line = self._store_trouble or self._results_trouble
        if line != self._said:
            self._said = line
            with suppress(RuntimeError):  # the engine's loop is closed: it has ended meanwhile
                self._trouble(line)
