"""The store's tables, and how its file is opened.

Every column that a person may ask for is a column of its own; only what has no fixed shape is JSON text.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from gmg_tui.store.records import StoreError

VERSION = 1
"""`PRAGMA user_version` of a store that this gmg-tui writes; goes up when an older one could not read it."""
_BUSY_S = 2.0
"""How long another process's lock is waited for before it counts as trouble."""

_PASSING = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL}
"""Troubles that say nothing of what the file system can do."""

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE jobs (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, job_group INTEGER NOT NULL, job_values TEXT NOT NULL,
    state TEXT NOT NULL, place REAL NOT NULL, reason TEXT,
    slot TEXT, gpu_index INTEGER, gpu_uuid TEXT, attempts INTEGER NOT NULL, exit_code INTEGER,
    started REAL, ended REAL, elapsed_s REAL,
    fps_last REAL, fps_mean REAL, fps_max REAL, fps_samples INTEGER, fps_rate REAL, n_envs INTEGER,
    memory_peak_mib REAL, gpu_util_mean_pct REAL, power_mean_w REAL, energy_j REAL,
    out_dir TEXT, log TEXT, result TEXT NOT NULL
);
CREATE TABLE attempts (
    job INTEGER NOT NULL, number INTEGER NOT NULL, slot TEXT NOT NULL, gpu_index INTEGER, gpu_uuid TEXT, log TEXT,
    args TEXT NOT NULL, pid INTEGER, started REAL NOT NULL, ended REAL, exit_code INTEGER, state TEXT NOT NULL,
    reason TEXT, figures TEXT,
    PRIMARY KEY (job, number)
) WITHOUT ROWID;
CREATE TABLE events (
    id INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL, slot TEXT, job INTEGER
);
CREATE TABLE figures (
    time REAL NOT NULL, slot TEXT NOT NULL, job INTEGER, fps REAL, gpu_util_pct REAL, memory_used_mib REAL,
    power_w REAL, temperature_c REAL
);
"""


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Open the store at `path`, or make it, for this user alone (mode 0600).

    Raises:
        sqlite3.Error: SQLite cannot: locked, full, damaged.
        OSError: The file cannot be made.
        StoreError: A later gmg-tui made it.
    """
    # SQLite gives its two further files the mode of this one.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
    try:
        return _prepared(path, shared=True)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF in _PASSING:
            raise
    return _prepared(path, shared=False)


def _prepared(path: Path, *, shared: bool) -> sqlite3.Connection:
    """The store, ready to be written.

    Args:
        path: Its file, which may be empty.
        shared: Whether to use a write-ahead log, so that readers and the writer never wait for each other. It needs
            memory shared by all who have the file open, which some network file systems do not give.
    """
    db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
    try:
        if not shared:
            # Before the first access: a file that has such a log is freed of it by one that shares it with nobody.
            db.execute("PRAGMA locking_mode=EXCLUSIVE")
        version = _version(db, path)
        if not shared or db.execute("PRAGMA journal_mode=WAL").fetchone() != ("wal",):
            db.execute("PRAGMA journal_mode=DELETE")
        db.execute("PRAGMA locking_mode=NORMAL")
        db.execute("PRAGMA synchronous=FULL")  # a commit has reached the disk: a power cut takes nothing back
        db.execute("BEGIN IMMEDIATE")  # where the memory cannot be had, this is what fails
        if version == 0:
            # In one transaction, or a killed process leaves tables without a version.
            for table in filter(str.strip, TABLES.split(";")):
                db.execute(table)
            db.execute(f"PRAGMA user_version={VERSION}")
        db.execute("COMMIT")
    except BaseException:
        db.close()
        raise
    return db


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Open the store at `path` without changing what it holds, also while an engine writes it.

    Raises:
        StoreError: There is none, it is damaged, or a later gmg-tui made it.
    """
    if not path.exists():
        raise StoreError(f"{path}: there is no store; the session was run without one, or it was removed")
    error: sqlite3.Error | None = None
    # Who may write can recover what a killed engine left, and takes the further files away when nobody else is there.
    # On a medium that cannot be written only a file that is promised not to change can be read.
    for mode in ("mode=rw", "mode=ro", "mode=ro&immutable=1"):
        if "immutable" in mode and path.with_name(f"{path.name}-wal").exists():
            continue  # what the file alone holds would be old
        db = sqlite3.connect(f"file:{quote(str(path))}?{mode}", timeout=_BUSY_S, isolation_level=None, uri=True)
        try:
            db.execute("PRAGMA query_only=1")
            if _version(db, path) == 0:
                raise StoreError(f"{path}: the store is empty: its engine was ended before it could write")
        except sqlite3.Error as failure:
            db.close()
            error = error or failure
        except BaseException:
            db.close()
            raise
        else:
            return db
    raise StoreError(f"{path}: the store cannot be read: {error}")


def _version(db: sqlite3.Connection, path: Path) -> int:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise StoreError(
            f"{path}: a later gmg-tui made this store (form {version}, this one knows {VERSION}): update it"
        )
    return int(version)


def set_aside(path: Path) -> Path:
    """Move a damaged store out of the way, over one that was moved before; where it is now. Raises `OSError`."""
    aside = path.with_name(f"{path.name}.damaged")
    path.replace(aside)
    for suffix in ("-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).replace(aside.with_name(aside.name + suffix))
    return aside


def is_damage(error: BaseException) -> bool:
    """Whether SQLite says that the file is no store, or not a whole one."""
    damage = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in damage


def make(path: Path) -> None:
    """Make an empty store where there is none. Raises as `open_for_writing`, and `FileExistsError`."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    open_for_writing(path).close()
