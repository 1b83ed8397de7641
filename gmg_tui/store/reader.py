"""The store as everybody but its writer has it: made for a sweep, and read, also while an engine writes it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from gmg_tui.model import Job, JobRecord
from gmg_tui.store import rows, schema
from gmg_tui.store.records import FiguresRow, JobAttempt, StoreError

MAX_EVENTS = 10_000

_SPAN = "SELECT min(time), max(time) FROM figures"
_FIGURES = """
SELECT avg(time), slot, max(job), avg(fps), avg(gpu_util_pct), avg(memory_used_mib), avg(power_w), avg(temperature_c)
FROM figures GROUP BY slot, CAST((time - ?) / ? AS INTEGER) ORDER BY slot, min(time)
"""


def create(path: Path, jobs: Iterable[Job]) -> None:
    """Make a store with `jobs`, which all wait, for this user alone (mode 0600).

    Raises:
        StoreError: There is one already, or it cannot be written.
    """
    records = (JobRecord(job.number, job.name, job.group, job.values, place=float(job.number)) for job in jobs)
    try:
        schema.make(path)
        db = schema.open_for_writing(path)
        try:
            db.execute("BEGIN IMMEDIATE")
            db.executemany(rows.PUT_JOB, map(rows.of_job, records))
            db.execute("COMMIT")
        finally:
            db.close()
    except FileExistsError:
        raise StoreError(f"{path}: there is a store already") from None
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}") from error
    except sqlite3.Error as error:
        raise StoreError(f"cannot write {path}: {error}") from error


def load_jobs(path: Path) -> list[JobRecord]:
    """All jobs of the store at `path`, in the order of their numbers.

    Raises:
        StoreError: There is no store, it is damaged, or a later gmg-tui made it.
    """
    db = schema.open_for_reading(path)
    try:
        return rows.read(db, rows.GET_JOBS, rows.to_job)
    except sqlite3.Error as error:
        raise StoreError(f"{path}: the store cannot be read: {error}") from error
    finally:
        db.close()


class Stored:
    """What a store holds at one moment. To be closed, or used in a `with`.

    Args:
        path: The store's file.

    Attributes:
        session: The session; None where its engine has not come to write it.
        jobs: In the order of their numbers.
        attempts: Of each job that has any, in their order.
        events: The latest `MAX_EVENTS`, the oldest first.

    Raises:
        StoreError: There is no store, it is damaged, or a later gmg-tui made it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = schema.open_for_reading(path)
        try:
            self._db.execute("BEGIN")  # all that is read is of the same moment
            self.session = rows.to_session(self._db.execute(rows.GET_SESSION).fetchone())
            self.jobs = rows.read(self._db, rows.GET_JOBS, rows.to_job)
            self.attempts: dict[int, list[JobAttempt]] = {}
            for one in rows.read(self._db, rows.GET_ATTEMPTS, rows.to_attempt):
                self.attempts.setdefault(one.job, []).append(one)
            self.events = rows.read(self._db, rows.GET_EVENTS, rows.to_event, MAX_EVENTS)[::-1]
        except sqlite3.Error as error:
            self.close()
            raise StoreError(f"{path}: the store cannot be read: {error}") from error
        except BaseException:
            self.close()
            raise

    def figures(self, points: int) -> list[FiguresRow]:
        """The figures of all slots, slot by slot and in the order of time.

        Args:
            points: How many of each slot at most: the means over as many equal parts of the time; the job of such a
                mean is the part's last.

        Raises:
            StoreError: The store is damaged.
        """
        try:
            first, last = self._db.execute(_SPAN).fetchone()
            if first is None:
                return []
            step_s = max((last - first) / max(points - 1, 1), 1e-3)
            return rows.read(self._db, _FIGURES, rows.to_figures, first, step_s)
        except sqlite3.Error as error:
            raise StoreError(f"{self._path}: the store cannot be read: {error}") from error

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
