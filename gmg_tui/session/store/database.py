"""The store's file: what it holds besides `JobRecord`, its tables, how it is opened, and records as JSON."""

from __future__ import annotations

import math
import os
import sqlite3
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from msgspec import Struct, structs

from gmg_tui.machine.file_locks import record_lock_trouble
from gmg_tui.model import Attempt, Curve, JobRecord, Snapshot
from gmg_tui.model.encoding import encoded
from gmg_tui.model.errors import GmgError

VERSION = 12
"""`PRAGMA user_version` of the stores that this gmg-tui writes.

A field with a default or a column of `metrics` may be added under the same number: in older stores it is unknown. Any
other change takes the next number and a case where a store is opened; `tests/samples/stores` has a session of each.
"""
OLDEST = 10
"""The first of those that it reads; 10 and 11 have tables that are not used any more."""
_UPDATE = "; update gmg-tui"
_BUSY_S = 5.0
"""Timeout of another process's lock, after which it counts as an error."""
_STALE_S = 60.0
_PROGRESS_STEPS = 10_000
"""SQLite instructions between checks of the clock: about 100 microseconds."""


class StoreError(GmgError):
    """A store is missing, damaged, of another version, or cannot be written; one line for the user."""

    def __init__(self, text: str, exit_code: int = 1) -> None:
        super().__init__(text, exit_code)


class JobAttempt(Struct, frozen=True, omit_defaults=True):
    """One process of a job, and where it ran."""

    job: int
    """The job's number, from 1."""
    slot: str
    gpu_uuid: str | None
    attempt: Attempt
    log: str | None = None
    """Path of its log in the session's folder."""
    rank: int = 0
    """Its rank in the job's group; 0 where there is none."""

    @property
    def key(self) -> tuple[int, int, int]:
        """The numbers of job, attempt and rank, which identify it."""
        return self.job, self.attempt.number, self.rank


class AttemptCurves(Struct, frozen=True, omit_defaults=True):
    """The metrics of one process of a job over time."""

    job: int
    number: int
    """The attempt's."""
    rank: int
    slot: str
    curves: dict[str, Curve] = {}

    @property
    def key(self) -> tuple[int, int, int]:
        """The numbers of job, attempt and rank, which identify it."""
        return self.job, self.number, self.rank


class MetricsRow(NamedTuple):
    """A slot's metrics in one second, or in several as they age (`thinning`)."""

    time: float
    """Unix time of the first second."""
    slot: str
    job: int | None
    fps: float | None
    """The rate now."""
    gpu_util_pct: float | None
    memory_used_mib: float | None
    power_w: float | None
    temperature_c: float | None
    sm_pct: float | None = None
    """The share of the SMs that were busy."""
    state: str | None = None
    """The worker's."""
    seconds: int = 1
    """Number of seconds with a sample that it stands for."""


Record = Snapshot | JobRecord | JobAttempt | AttemptCurves | MetricsRow
"""Records that the store takes; the newest replaces the one before, except for metrics."""

_TABLES = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE jobs (number INTEGER PRIMARY KEY, record TEXT NOT NULL, result TEXT NOT NULL DEFAULT '{{}}');
CREATE TABLE attempts (
    job INTEGER, number INTEGER, rank INTEGER, record TEXT NOT NULL, PRIMARY KEY (job, number, rank)
) WITHOUT ROWID;
CREATE TABLE curves (job INTEGER, number INTEGER, rank INTEGER, record TEXT NOT NULL, PRIMARY KEY (job, number, rank));
CREATE TABLE metrics ({", ".join(MetricsRow._fields)});
"""
"""Records are JSON, named after the fields of `JobRecord`, `JobAttempt` and `AttemptCurves`."""

_PUT_META = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
_PUT_JOB = """
INSERT INTO jobs VALUES (?1, ?2, coalesce(?3, '{}'))
ON CONFLICT (number) DO UPDATE SET record = excluded.record, result = coalesce(?3, result)
"""
_PUT_CURVES = "INSERT OR REPLACE INTO curves VALUES (?, ?, ?, ?)"
_PUT_ATTEMPT = "INSERT OR REPLACE INTO attempts VALUES (?, ?, ?, ?)"
_FIELDS = ", ".join(MetricsRow._fields)
_PUT_METRICS = f"INSERT INTO metrics ({_FIELDS}) VALUES ({', '.join('?' for _ in MetricsRow._fields)})"  # noqa: S608


NAN = "gmg:"
"""Before NaN and infinities in stored results and metrics."""
_NANS = {f"{NAN}{value}" for value in ("nan", "inf", "-inf")}


def encode(value: Any) -> str:
    """Returns `value` as JSON."""
    return encoded(msgspec.json.encode, value).decode()


def write(db: sqlite3.Connection, records: Iterable[Record]) -> None:
    """Writes all of these in one transaction. A job without results keeps those in the store."""
    db.execute("BEGIN IMMEDIATE")
    try:
        for record in records:
            db.execute(*_statement(record))
        db.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # SQLite rolls back by itself after some errors
            db.execute("ROLLBACK")
        raise


def _without_nan(value: Any) -> Any:
    """Returns a record as JSON can hold it: NaN and infinities as texts, which `with_nan` reads."""
    if isinstance(value, dict):
        return {name: _without_nan(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    return f"{NAN}{value}" if isinstance(value, float) and not math.isfinite(value) else value


def with_nan(value: Any) -> Any:
    """Returns a record as it was before it was stored."""
    if isinstance(value, dict):
        return {name: with_nan(each) for name, each in value.items()}
    if isinstance(value, list):
        return [with_nan(each) for each in value]
    return float(value.removeprefix(NAN)) if isinstance(value, str) and value in _NANS else value


def _statement(record: Record) -> tuple[str, tuple[Any, ...]]:
    match record:
        case Snapshot():
            return _PUT_META, ("snapshot", encode(record))
        case JobRecord():
            result = None if record.result is None else encode(_without_nan(record.result))
            return _PUT_JOB, (record.number, encode(structs.replace(record, result={})), result)
        case JobAttempt():
            return _PUT_ATTEMPT, (*record.key, encode(record))
        case AttemptCurves():
            kept: Any = record
            if any(
                value is not None and not math.isfinite(value) for of in record.curves.values() for value in of.values
            ):
                kept = _without_nan(msgspec.to_builtins(record))
            return _PUT_CURVES, (*record.key, encode(kept))
    return _PUT_METRICS, record


def open_for_writing(path: Path, *, create: bool = True) -> sqlite3.Connection:
    """Opens the store at `path`, or creates it if allowed, private to this user (mode 0600).

    It has a rollback journal, not a write-ahead log: several machines may use one state folder, and a write-ahead log
    needs memory that they do not share.

    Raises:
        sqlite3.Error: SQLite cannot: locked, full, damaged.
        OSError: The file cannot be created, or is gone.
        StoreError: Another version made it.
    """
    os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o600))
    db = _connect(path)
    try:
        version = _version(db, path)
        if version != VERSION or _missing(db) or not has_curves(db):
            # In one transaction, so that a killed process never leaves tables without a version.
            db.execute("BEGIN IMMEDIATE")
            for table in filter(str.strip, _TABLES.split(";")):
                db.execute(table.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"))
            for column in _missing(db):
                db.execute(f"ALTER TABLE metrics ADD COLUMN {column} DEFAULT {_default(column)}")
            db.execute(f"PRAGMA user_version={VERSION}")
            db.execute("COMMIT")
    except BaseException:
        db.close()
        raise
    return db


def open_for_reading(path: Path, within_s: float | None = None) -> sqlite3.Connection:
    """Opens the store at `path` without changing its content, also while an engine writes it.

    Reading is interrupted after `within_s` seconds, if given.

    Raises:
        sqlite3.Error: It cannot be read: locked, damaged.
        StoreError: There is none, it is empty, or another gmg-tui made it.
    """
    if not path.exists():
        raise StoreError(f"{path}: there is no store; it was removed, or the session had none")
    # Writable where it can be: what a killed engine left unfinished is rolled back.
    db = _connect(path, _BUSY_S if within_s is None else within_s)
    try:
        if within_s is not None:
            until = time.monotonic() + within_s
            db.set_progress_handler(lambda: time.monotonic() > until, _PROGRESS_STEPS)
        if db.execute("SELECT 1 FROM main.sqlite_master WHERE type IN ('view', 'trigger')").fetchone():
            raise StoreError(f"{path}: it has a view or a trigger, which may run for ever, and which no gmg-tui makes")
        if _version(db, path) == 0:
            raise StoreError(f"{path}: the store is empty: its engine ended before it could write")
        if missing := _missing(db):
            kept = (f"{_default(field)} AS {field}" if field in missing else field for field in MetricsRow._fields)
            db.execute(f"CREATE TEMP VIEW metrics AS SELECT {', '.join(kept)} FROM main.metrics")  # noqa: S608
        db.execute("PRAGMA query_only=1")
    except BaseException:
        db.close()
        raise
    return db


def _connect(path: Path, timeout_s: float = _BUSY_S) -> sqlite3.Connection:
    """Connects to a store that exists. Without record locks a folder beside it, `store.sqlite.lock`, is the lock."""
    options = "mode=rw"
    if record_lock_trouble(path.parent) is not None:
        options += "&vfs=unix-dotfile"
        _remove_stale(path.with_name(f"{path.name}.lock"))
    uri = f"file:{quote(os.fsencode(path))}?{options}"
    return sqlite3.connect(uri, timeout=timeout_s, isolation_level=None, check_same_thread=False, uri=True)


def _remove_stale(lock: Path) -> None:
    """Removes the lock of a process that was killed while it read or wrote, which takes much less than a minute."""
    with suppress(OSError):
        if time.time() - lock.stat().st_mtime > _STALE_S:
            lock.rmdir()


def _version(db: sqlite3.Connection, path: Path) -> int:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version and not OLDEST <= version <= VERSION:
        reads = f"format {version}, this version reads {OLDEST} to {VERSION}"
        raise StoreError(f"{path}: another gmg-tui made this store ({reads}){_UPDATE if version > VERSION else ''}")
    return int(version)


def _default(column: str) -> str:
    """Returns the SQL of what a column of `metrics` has in stores of earlier versions."""
    default = MetricsRow._field_defaults.get(column)
    return "NULL" if default is None else str(default)


def has_curves(db: sqlite3.Connection) -> bool:
    """Returns True unless an earlier gmg-tui made the store."""
    return bool(db.execute("SELECT 1 FROM main.sqlite_master WHERE name = 'curves'").fetchone())


def _missing(db: sqlite3.Connection) -> list[str]:
    """Returns the columns of `metrics` that a store of an earlier version lacks."""
    present = {name for _, name, *_ in db.execute("PRAGMA main.table_info(metrics)")}
    return [field for field in MetricsRow._fields if field not in present]
