"""Creates a store for a sweep, and reads stores, also while an engine writes them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

from gmg_tui.model import Job, JobRecord
from gmg_tui.store import foreign, rows, schema
from gmg_tui.store.records import JobAttempt, MetricsRow, StoreError

MAX_EVENTS = 10_000

_SPAN = "SELECT min(time), max(time) FROM figures"
_METRICS = """
SELECT avg(time), slot, max(job), avg(fps), avg(fps_settled), avg(gpu_util_pct), avg(memory_used_mib), avg(power_w),
    avg(temperature_c), avg(sm_pct)
FROM figures GROUP BY slot, CAST((time - ?) / ? AS INTEGER) ORDER BY slot, min(time)
"""


def create(path: Path, jobs: Iterable[Job]) -> None:
    """Create a store with `jobs`, all waiting, private to this user (mode 0600).

    Raises:
        StoreError: It exists already, or cannot be written.
    """
    records = (
        JobRecord(
            job.number,
            job.name,
            job.batch,
            job.values,
            position=float(job.number),
            only=job.only,
            combination=job.combination,
            gpus=job.gpus,
            world_size=job.world_size,
        )
        for job in jobs
    )
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with closing(schema.open_for_writing(path)) as db:
            db.execute("BEGIN IMMEDIATE")
            db.executemany(rows.JOBS.put, map(rows.JOBS.to_row, records))
            db.execute("COMMIT")
    except FileExistsError:
        raise StoreError(f"{path}: the store exists already") from None
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"cannot write {path}: {getattr(error, 'strerror', error)}") from error


@contextmanager
def _reading(path: Path, *, away: bool) -> Iterator[sqlite3.Connection]:
    """The store at `path`, open; an error of SQLite is raised as a `StoreError`."""
    try:
        with (
            foreign.copied(path) if away else nullcontext(path) as readable,
            closing(schema.open_for_reading(readable)) as db,
        ):
            yield db
    except sqlite3.Error as error:
        raise StoreError(f"{path}: the store cannot be read: {error}") from error


def load_jobs(path: Path, *, away: bool = False) -> list[JobRecord]:
    """All jobs of the store at `path`, in the order of their numbers.

    `away` tells that an engine on another machine may be writing it.

    Raises:
        StoreError: There is no store, it is damaged, or a later version made it.
    """
    with _reading(path, away=away) as db:
        return rows.JOBS.read(db)


@contextmanager
def open_store(path: Path, *, away: bool = False) -> Iterator[Stored]:
    """The content of the store at `path`.

    `away` tells that an engine on another machine may be writing it.

    Raises:
        StoreError: There is no store, it is damaged, or a later version made it.
    """
    with _reading(path, away=away) as db:
        yield Stored(db)


class Stored:
    """The content of a store at one moment.

    Attributes:
        session: The session; None where its engine has not written it.
        jobs: In the order of their numbers.
        attempts: Of each job that has any, in their order.
        events: The latest `MAX_EVENTS`, the oldest first.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        db.execute("BEGIN")  # everything is read from the same moment
        self.session = rows.to_session(db.execute(rows.GET_SESSION).fetchone())
        self.jobs = rows.JOBS.read(db)
        self.attempts: dict[int, list[JobAttempt]] = {}
        for one in rows.ATTEMPTS.read(db):
            self.attempts.setdefault(one.job, []).append(one)
        self.events = rows.EVENTS.read(db, MAX_EVENTS)[::-1]

    def metrics(self, points: int) -> list[MetricsRow]:
        """The metrics of all slots, slot by slot and in order of time.

        Of each slot at most `points`: means over as many equal intervals, each with the interval's last job.
        """
        first, last = self._db.execute(_SPAN).fetchone()
        if first is None:
            return []
        step_s = max((last - first) / max(points - 1, 1), 1e-3)
        return rows.read(self._db, _METRICS, MetricsRow._make, first, step_s)
