"""The store's file, for its writer: opened, written in transactions, and rebuilt when it is gone or damaged."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import structs

from gmg_tui.files import make_private
from gmg_tui.store import moments, rows, schema
from gmg_tui.store.backlog import Backlog, LatestRecords
from gmg_tui.store.records import Event, StoreError


class StoreFile:
    """The file. For one thread only; every method may block on the disk.

    The store must contain what is `known`, which is completed from an existing store, and what jobs have reported, for
    which `result_of` is asked where it is not known.
    """

    def __init__(self, path: Path, known: LatestRecords, result_of: Callable[[int], dict[str, Any]]) -> None:
        self._result_of = result_of
        self._path = path
        self._known = known
        self._db: sqlite3.Connection | None = None
        self._identity: object = None
        self._opened = False
        """Whether it has been open before: a file that replaces it is not read."""
        self._damaged: Path | None = None

    def write(self, backlog: Backlog) -> LatestRecords:
        """Write `backlog` in one transaction, durably; open the file first where need be.

        Returns:
            What an existing store contains and was not known, when it is opened for the first time.

        Raises:
            StoreError: It cannot be written; nothing of `backlog` is. The text is one line.
        """
        found = LatestRecords()
        try:
            if self.gone():
                self.close()
            if self._db is None:
                found = self._open(backlog)
            if self._db is not None:
                self._put(self._db, backlog)
                self._identity = self._file()
        except (sqlite3.Error, OSError) as error:
            raise StoreError(self._trouble(error)) from error
        return found

    def gone(self) -> bool:
        """Whether the file that was opened has been removed or replaced."""
        return self._db is not None and self._file() != self._identity

    def close(self) -> None:
        """Close the file; SQLite merges the write-ahead log into it then, where it can."""
        if self._db is not None:
            with suppress(sqlite3.Error):  # a full disk: the write-ahead log stays beside the file, which loses nothing
                self._db.close()
            self._db = None

    def _open(self, backlog: Backlog) -> LatestRecords:
        if not self._path.parent.is_dir():
            make_private(self._path.parent)
        existed = self._path.exists()
        self._db = schema.open_for_writing(self._path)
        found = LatestRecords()
        if not self._opened:
            known = self._known
            found.jobs = {job.number: job for job in rows.JOBS.read(self._db) if job.number not in known.jobs}
            found.attempts = {one.key: one for one in rows.ATTEMPTS.read(self._db) if one.key not in known.attempts}
            self._known.complete(found)
            self._opened = True
        if self._damaged or not existed or self._identity:
            self._rebuild(backlog, existed)
        return found

    def _rebuild(self, backlog: Backlog, existed: bool) -> None:
        """Have everything that is known written to a file that replaces another."""
        backlog.complete(self._known)
        for job in list(backlog.jobs.values()):
            if job.result is None:
                backlog.add_job(structs.replace(job, result=self._result_of(job.number)))
        text = None
        if self._damaged is not None:
            text = f"the store was damaged and has been rebuilt; the damaged one is {self._damaged.name}"
        elif self._identity and not existed:
            text = "the store was removed and has been rebuilt; its earlier events and metrics are lost"
        if text is not None:
            backlog.add_event(Event(time.time(), "store", text))
        self._damaged = None

    def _put(self, db: sqlite3.Connection, backlog: Backlog) -> None:
        session = [("session", rows.encode(backlog.session))] if backlog.session is not None else []
        db.execute("BEGIN IMMEDIATE")
        try:
            db.executemany(rows.PUT_META, session)
            db.executemany(rows.JOBS.put, map(rows.JOBS.to_row, backlog.jobs.values()))
            db.executemany(rows.ATTEMPTS.put, map(rows.ATTEMPTS.to_row, backlog.attempts.values()))
            db.executemany(rows.EVENTS.put, map(rows.EVENTS.to_row, backlog.all_events()))
            db.executemany(rows.PUT_METRICS, backlog.metrics)
            moments.put(db, backlog.moments)
            db.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # SQLite rolls back by itself after some errors
                db.execute("ROLLBACK")
            raise

    def _file(self) -> object:
        """What identifies the file and its write-ahead log among others of the same path; None where there is none."""
        try:
            main = self._path.stat()
        except OSError:
            return None
        try:
            log = self._path.with_name(f"{self._path.name}-wal").stat().st_ino
        except OSError:
            log = 0
        return main.st_dev, main.st_ino, log

    def _trouble(self, error: Exception) -> str:
        """One line about an error, after which the file is opened again unless it can still be used."""
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in schema.PASSING:
            self.close()
        if schema.is_damage(error):
            try:
                self._damaged = schema.set_aside(self._path)
            except OSError as failure:
                return f"{self._path}: the store is damaged and cannot be moved aside: {failure.strerror}"
        if isinstance(error, OSError):
            return f"{error.filename or self._path}: {error.strerror or os.strerror(error.errno or 0)}"
        return f"{self._path}: {error}"
