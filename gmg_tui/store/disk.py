"""The store's file as its writer has it: opened, written in transactions, and made anew when it is gone or damaged."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path

from gmg_tui.files import make_private
from gmg_tui.store import rows, schema
from gmg_tui.store.backlog import Backlog, Known
from gmg_tui.store.records import Event, StoreError

_PASSING = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL}
"""Troubles after which the open file is as good as before."""


class Disk:
    """The file. To be used by one thread only; every method may wait for the disk.

    Args:
        path: Where the store is, or is to be.
        known: What the store must hold; learns what an existing store holds.
    """

    def __init__(self, path: Path, known: Known) -> None:
        self._path = path
        self._known = known
        self._db: sqlite3.Connection | None = None
        self._identity: object = None
        self._opened = False
        """Whether it had been open before: what another file has in its place then is not what is known."""
        self._damaged: Path | None = None

    def write(self, backlog: Backlog) -> Backlog:
        """Write `backlog` in one transaction, durably; open the file first where need be.

        Returns:
            What an existing store held that was not known: when it is opened for the first time.

        Raises:
            StoreError: The disk refuses; nothing of `backlog` is written. The text is one line.
        """
        found = Backlog()
        try:
            if self._db is not None and self._file() != self._identity:
                self._close()
            if self._db is None:
                found = self._open(backlog)
            if self._db is not None:
                self._put(self._db, backlog)
                self._identity = self._file()
        except (sqlite3.Error, OSError) as error:
            raise StoreError(self._trouble(error)) from error
        return found

    def gone(self) -> bool:
        """Whether the file that was opened is not in its place any more."""
        return self._db is not None and self._file() != self._identity

    def close(self) -> None:
        """Close the file; SQLite puts all into the one file then, where it can."""
        self._close()

    def _open(self, backlog: Backlog) -> Backlog:
        if not self._path.parent.is_dir():
            make_private(self._path.parent)
        had = self._path.exists()
        self._db = schema.open_for_writing(self._path)
        if not self._opened:
            found = self._known.recall(
                rows.read(self._db, rows.GET_JOBS, rows.to_job),
                rows.read(self._db, rows.GET_ATTEMPTS, rows.to_attempt),
            )
            self._opened = True
        else:
            found = Backlog()
        if self._damaged or not had or self._identity:
            self._put_back(backlog, had)
        return found

    def _put_back(self, backlog: Backlog, had: bool) -> None:
        """See that a file that took the place of another holds everything that is known."""
        backlog.complete(self._known)
        text = None
        if self._damaged is not None:
            text = f"the store was damaged and made anew; the damaged one is {self._damaged.name}"
        elif self._identity and not had:
            text = "the store was removed and made anew; events and figures from before are gone"
        if text is not None:
            backlog.add_event(Event(time.time(), "store", text))
        self._damaged = None

    def _put(self, db: sqlite3.Connection, backlog: Backlog) -> None:
        session = [rows.of_session(backlog.session)] if backlog.session is not None else []
        db.execute("BEGIN IMMEDIATE")
        try:
            db.executemany(rows.PUT_META, session)
            db.executemany(rows.PUT_JOB, map(rows.of_job, backlog.jobs.values()))
            db.executemany(rows.PUT_ATTEMPT, map(rows.of_attempt, backlog.attempts.values()))
            db.executemany(rows.PUT_EVENT, map(rows.of_event, backlog.all_events()))
            db.executemany(rows.PUT_FIGURES, backlog.figures)
            db.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # SQLite has rolled back by itself after some errors
                db.execute("ROLLBACK")
            raise

    def _file(self) -> object:
        """What tells the file, and its write-ahead log, from others in the same place; None where there is none."""
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
        """One line about an error, after which the file is opened again unless the error says nothing of it."""
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _PASSING:
            self._close()
        if schema.is_damage(error):
            try:
                self._damaged = schema.set_aside(self._path)
            except OSError as failure:
                return f"{self._path}: the store is damaged and cannot be moved away: {failure.strerror}"
        if isinstance(error, OSError):
            return f"{error.filename or self._path}: {error.strerror or os.strerror(error.errno or 0)}"
        return f"{self._path}: {error}"

    def _close(self) -> None:
        if self._db is not None:
            with suppress(sqlite3.Error):  # a full disk: the write-ahead log stays beside the file, and is as good
                self._db.close()
            self._db = None
