"""The store's tables, and how its file is opened.

Everything that a user may query is a column of its own; only values without a fixed shape are JSON text.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

from gmg_tui.store.records import StoreError

VERSION = 6
"""`PRAGMA user_version` of a store that this gmg-tui writes; increased when older versions could not read it."""
_BUSY_S = 2.0
"""How long to wait for another process's lock before it counts as an error."""

PASSING = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL}
"""Errors that say nothing about the file system's abilities, and after which an open file can still be used."""

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE jobs (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, job_group INTEGER NOT NULL, job_values TEXT NOT NULL,
    state TEXT NOT NULL, place REAL NOT NULL, reason TEXT,
    only_slot TEXT, combination TEXT NOT NULL DEFAULT '',
    gpus INTEGER NOT NULL DEFAULT 1, world_size INTEGER, in_group TEXT, rank INTEGER, slots TEXT NOT NULL DEFAULT '[]',
    slot TEXT, gpu_index INTEGER, gpu_uuid TEXT, attempts INTEGER NOT NULL, exit_code INTEGER,
    started REAL, ended REAL, elapsed_s REAL,
    fps_last REAL, fps_mean REAL, fps_max REAL, fps_samples INTEGER, fps_settled REAL, fps_spread REAL,
    n_envs INTEGER,
    memory_peak_mib REAL, gpu_util_mean_pct REAL, power_mean_w REAL, energy_j REAL,
    out_dir TEXT, log TEXT, result TEXT NOT NULL, updated REAL
);
CREATE TABLE attempts (
    job INTEGER NOT NULL, number INTEGER NOT NULL, rank INTEGER NOT NULL DEFAULT 0, slot TEXT NOT NULL, gpu_index INTEGER, gpu_uuid TEXT, log TEXT,
    args TEXT NOT NULL, pid INTEGER, started REAL NOT NULL, ended REAL, exit_code INTEGER, state TEXT NOT NULL,
    reason TEXT, figures TEXT,
    PRIMARY KEY (job, number, rank)
) WITHOUT ROWID;
CREATE TABLE events (
    id INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL, slot TEXT, job INTEGER
);
CREATE TABLE figures (
    time REAL NOT NULL, slot TEXT NOT NULL, job INTEGER, fps REAL, fps_settled REAL, gpu_util_pct REAL,
    memory_used_mib REAL, power_w REAL, temperature_c REAL, sm_pct REAL
);
CREATE TABLE moments (id INTEGER PRIMARY KEY, time REAL NOT NULL, snapshot BLOB NOT NULL);
"""

_CHANGES = {
    1: (
        "ALTER TABLE jobs RENAME COLUMN fps_rate TO fps_settled",
        "ALTER TABLE jobs ADD COLUMN fps_spread REAL",
        "ALTER TABLE jobs ADD COLUMN updated REAL",
        "ALTER TABLE figures ADD COLUMN fps_settled REAL",
        """UPDATE attempts SET figures = replace(figures, '"rate":', '"settled":')""",
    ),
    2: (
        "ALTER TABLE jobs ADD COLUMN only_slot TEXT",
        "ALTER TABLE jobs ADD COLUMN combination TEXT NOT NULL DEFAULT ''",
    ),
    3: (
        "ALTER TABLE jobs ADD COLUMN gpus INTEGER NOT NULL DEFAULT 1",
        "ALTER TABLE jobs ADD COLUMN world_size INTEGER",
        "ALTER TABLE jobs ADD COLUMN in_group TEXT",
        "ALTER TABLE jobs ADD COLUMN rank INTEGER",
        "ALTER TABLE jobs ADD COLUMN slots TEXT NOT NULL DEFAULT '[]'",
        "ALTER TABLE attempts RENAME TO attempts_of_one",
        """CREATE TABLE attempts (
            job INTEGER NOT NULL, number INTEGER NOT NULL, rank INTEGER NOT NULL DEFAULT 0, slot TEXT NOT NULL,
            gpu_index INTEGER, gpu_uuid TEXT, log TEXT,
            args TEXT NOT NULL, pid INTEGER, started REAL NOT NULL, ended REAL, exit_code INTEGER, state TEXT NOT NULL,
            reason TEXT, figures TEXT,
            PRIMARY KEY (job, number, rank)
        ) WITHOUT ROWID""",
        """INSERT INTO attempts SELECT job, number, 0, slot, gpu_index, gpu_uuid, log, args, pid, started, ended,
            exit_code, state, reason, figures FROM attempts_of_one""",
        "DROP TABLE attempts_of_one",
    ),
    4: ("ALTER TABLE figures ADD COLUMN sm_pct REAL",),
    5: ("CREATE TABLE moments (id INTEGER PRIMARY KEY, time REAL NOT NULL, snapshot BLOB NOT NULL)",),
}
"""What makes a store of each earlier version one of the next. In a JSON text that key cannot be part of a value, whose
quotes are escaped."""


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Open the store at `path`, or create it, private to this user (mode 0600).

    Raises:
        sqlite3.Error: SQLite cannot: locked, full, damaged.
        OSError: The file cannot be created.
        StoreError: A later version made it.
    """
    # SQLite gives its two additional files the mode of this one.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
    try:
        return _prepared(path, shared=True)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF in PASSING:
            raise
    return _prepared(path, shared=False)


def _prepared(path: Path, *, shared: bool) -> sqlite3.Connection:
    """The store, whose file may be empty, ready for writing.

    `shared` uses a write-ahead log, so that readers and the writer never wait for each other. It needs memory shared
    between all processes that have the file open, which some network file systems lack.
    """
    db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
    try:
        if not shared:
            # Before the first access: only an exclusive connection can remove the write-ahead log of a file.
            db.execute("PRAGMA locking_mode=EXCLUSIVE")
        version = _version(db, path)
        if not shared or db.execute("PRAGMA journal_mode=WAL").fetchone() != ("wal",):
            db.execute("PRAGMA journal_mode=DELETE")
        db.execute("PRAGMA locking_mode=NORMAL")
        db.execute("PRAGMA synchronous=FULL")  # a commit has reached the disk and survives a power cut
        db.execute("BEGIN IMMEDIATE")  # fails where shared memory is not available
        if version == 0:
            # In one transaction, so that a killed process never leaves tables without a version.
            for table in filter(str.strip, TABLES.split(";")):
                db.execute(table)
            db.execute(f"PRAGMA user_version={VERSION}")
        _update(db, version or VERSION)
        db.execute("COMMIT")
    except BaseException:
        db.close()
        raise
    return db


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Open the store at `path` without changing its content, also while an engine writes it.

    One of an earlier version is read into memory and updated there.

    Raises:
        StoreError: There is none, it is damaged, or a later gmg-tui made it.
    """
    if not path.exists():
        raise StoreError(f"{path}: there is no store; it was removed, or the session had none")
    error: sqlite3.Error | None = None
    # A writable connection recovers what a killed engine left, and removes the additional files when it is the last.
    # On a read-only medium only a file that is declared immutable can be read.
    for mode in ("mode=rw", "mode=ro", "mode=ro&immutable=1"):
        if "immutable" in mode and path.with_name(f"{path.name}-wal").exists():
            continue  # the file alone would be out of date
        db = sqlite3.connect(f"file:{quote(str(path))}?{mode}", timeout=_BUSY_S, isolation_level=None, uri=True)
        try:
            version = _version(db, path)
            if version == 0:
                raise StoreError(f"{path}: the store is empty: its engine ended before it could write")
            if version < VERSION:
                db = _in_memory(db)
                _update(db, version)
            db.execute("PRAGMA query_only=1")
        except sqlite3.Error as failure:
            db.close()
            error = error or failure
        except BaseException:
            db.close()
            raise
        else:
            return db
    raise StoreError(f"{path}: the store cannot be read: {error}")


def _in_memory(db: sqlite3.Connection) -> sqlite3.Connection:
    """A copy of a store, which is closed."""
    copy = sqlite3.connect(":memory:", isolation_level=None)
    with closing(db):
        db.backup(copy)
    return copy


def _update(db: sqlite3.Connection, version: int) -> None:
    """Make a store of an earlier version one of this version."""
    for step in range(version, VERSION):
        for change in _CHANGES[step]:
            db.execute(change)
        db.execute(f"PRAGMA user_version={step + 1}")


def _version(db: sqlite3.Connection, path: Path) -> int:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise StoreError(
            f"{path}: a later gmg-tui made this store (format {version}, this version knows {VERSION}): update gmg-tui"
        )
    return int(version)


def set_aside(path: Path) -> Path:
    """Move a damaged store aside, replacing an earlier one; its path. Raises `OSError`."""
    aside = path.with_name(f"{path.name}.damaged")
    path.replace(aside)
    for suffix in ("-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).replace(aside.with_name(aside.name + suffix))
    return aside


def is_damage(error: BaseException) -> bool:
    """Whether SQLite reports that the file is not a database, or a corrupt one."""
    damage = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in damage
