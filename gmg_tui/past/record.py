"""A session's life, as its store and its logs have it."""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from gmg_tui.errors import GmgError
from gmg_tui.model import Details, JobRecord, QueueView, Series, Session, Snapshot, TriedView, Worker
from gmg_tui.past import figures, jobs, logs
from gmg_tui.past.logs import LogEnd, Written
from gmg_tui.session import LOGS, STORE
from gmg_tui.store import foreign, moments, rows, schema
from gmg_tui.store.records import JobAttempt, StoreError

_LOG_LINES: Final = 5000


class Look(NamedTuple):
    """A session at a moment that is kept of it."""

    place: int
    """The moment's place among all, from 0."""
    kept: int
    """How many moments are kept."""
    time: float
    """Unix time, seconds."""
    first: float
    """Unix time of the first, seconds."""
    last: float
    """Unix time of the last, seconds."""
    snapshot: Snapshot
    recent: tuple[Series, ...]
    """The minutes before it, of each slot."""

    @property
    def at_end(self) -> bool:
        """Whether nothing is kept that is later."""
        return self.place + 1 >= self.kept


class Past:
    """What is kept of a session in `folder`; for one thread only, as each call may wait for the disk.

    `away` tells that an engine on another machine may be writing its store.

    Attributes:
        session: The session, with all slots that it ever had.

    Raises:
        GmgError: There is no store, it is damaged, of a later version, or of an earlier one that kept no moments.
    """

    def __init__(self, folder: Path, session: Session, *, away: bool = False) -> None:
        self.session = session
        self._folder = folder
        self._open = ExitStack()
        self._version: int | None = None
        """Another number after each change of the store by others, as this connection sees it; None before the first look."""
        try:
            path = folder / STORE
            if away:
                path = self._open.enter_context(foreign.copied(path))
            self._path = path
            self._file = _file(path)
            self._db = self._open.enter_context(closing(schema.open_for_reading(path)))
            self.renew()
            self.session = jobs.with_earlier_slots(session, self._attempts)
        except OSError as error:
            self._open.close()
            raise StoreError(f"{error.filename or folder}: the store cannot be read: {error.strerror}") from error
        except BaseException:
            self._open.close()
            raise

    def close(self) -> None:
        """Close the store."""
        self._open.close()

    def renew(self) -> None:
        """Take what has been kept since, also in another file: the engine makes one where the store was removed.

        Raises:
            GmgError: Nothing is kept, or it cannot be read.
        """
        there = _file(self._path)
        if there not in (self._file, None):
            with suppress(StoreError):  # its engine has not written it yet
                self._db = self._open.enter_context(closing(schema.open_for_reading(self._path)))
                self._file, self._version = there, None
        with self._reading():
            (version,) = self._db.execute("PRAGMA data_version").fetchone()
            if version == self._version:
                return  # nobody has written since: thousands of jobs need not be read again
            found = moments.times(self._db)
            if not found:
                name = self.session.spec.name
                raise GmgError(f"{name}: nothing is kept of it to look back on; {_instead(self.session)}", 1)
            self._moments = found
            self._jobs: list[JobRecord] = rows.JOBS.read(self._db)
            self._attempts: list[JobAttempt] = rows.ATTEMPTS.read(self._db)
            self._version = version

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"{self._folder / STORE}: the store cannot be read: {error}") from error

    # Moments

    @property
    def last(self) -> int:
        """The place of the last moment."""
        return len(self._moments) - 1

    def place_of(self, time: float) -> int:
        """The place of the last moment that is not after `time` (Unix seconds); else of the first."""
        return max(0, bisect_right(self._moments, time, key=lambda moment: moment[1]) - 1)

    def time_of(self, share: float) -> float:
        """The Unix time of a share of its life: 0 is the first moment, 1 the last."""
        first, last = self._moments[0][1], self._moments[-1][1]
        return first + share * (last - first)

    def look(self, place: int) -> Look:
        """The session at the moment in this place, or the nearest one that is kept.

        Raises:
            StoreError: It cannot be read.
        """
        with self._reading():
            if place > self.last:
                self.renew()  # it may go on
            while True:
                place = max(0, min(place, self.last))
                number, time = self._moments[place]
                snapshot = moments.read(self._db, number)
                if snapshot is not None:
                    break
                self.renew()  # the engine has thinned them out
                place = self.place_of(time)
            names = [worker.slot for worker in snapshot.workers]
            recent = figures.recent(self._db, names, time)
        return Look(place, len(self._moments), time, self._moments[0][1], self._moments[-1][1], snapshot, recent)

    # What is asked for beside it

    def series(self, slot: str, start: float | None) -> Series:
        """A slot's metrics from `start` (Unix time) on, or over its whole life. Raises `StoreError`."""
        with self._reading():
            return figures.whole(self._db, slot, start)

    def queue(self, snapshot: Snapshot, first: int, count: int) -> QueueView:
        """A part of the queue as it was."""
        return jobs.queue_view(self.session, self._jobs, snapshot, first, count)

    def tried(self, time: float) -> TriedView:
        """All that had been tried by `time`, Unix seconds."""
        return jobs.tried(self.session, self._attempts, time)

    def details(self, snapshot: Snapshot, slot: str) -> Details:
        """What is kept of a worker. Raises `GmgError` where there was none."""
        worker = snapshot.worker(slot)
        if worker is None:
            raise GmgError(f"no job had run on {slot} yet", 1)
        return jobs.details(self.session, worker, self._job(worker), self._attempts, snapshot.time)

    def _job(self, worker: Worker) -> JobRecord | None:
        return next((job for job in self._jobs if job.number == worker.job), None) if worker.job is not None else None

    def log(self, look: Look, slot: str) -> LogEnd:
        """The last lines that the worker on a slot had printed; at the last moment all that it has.

        Raises:
            GmgError: The log cannot be read.
        """
        snapshot = look.snapshot
        newest, written = self._last_attempt(snapshot, slot), None
        if not look.at_end:
            if newest is None:
                return LogEnd(0, ())
            worker = snapshot.worker(slot)
            if worker is not None and worker.attempt == newest.attempt.number and worker.job in {None, newest.job}:
                written = Written.of(worker)  # outside of a sweep workers have no job
        # A session's folder has no other files that could be meant.
        path = self._folder / (newest.log if newest is not None and newest.log else f"{LOGS}/{slot}.log")
        try:
            return logs.read(path, _LOG_LINES, written)
        except FileNotFoundError:
            return LogEnd(0, ())
        except OSError as error:
            raise GmgError(f"{path}: the log cannot be read: {error.strerror}", 1) from error

    def _last_attempt(self, snapshot: Snapshot, slot: str) -> JobAttempt | None:
        there = [one for one in self._attempts if one.slot == slot and one.attempt.started <= snapshot.time and one.log]
        return max(there, key=lambda one: one.attempt.started, default=None)


def _file(path: Path) -> tuple[int, int] | None:
    """What tells the file apart from another one of that name; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _instead(session: Session) -> str:
    return f"it is from an earlier gmg-tui, or its store was removed; what it did: gmg-tui report {session.spec.name}"
