"""The store's file: its tables, its records besides `JobRecord`, and functions that open, write and thin it."""

import fcntl
import logging
import math
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec
from msgspec import Struct, structs

from gmg_tui.machine.files import lock_trouble
from gmg_tui.machine.folders import check_own, distrust
from gmg_tui.model import Attempt, Curve, JobRecord, Snapshot
from gmg_tui.model.errors import GmgError
from gmg_tui.model.text import encode_lossy

_log = logging.getLogger(__name__)

VERSION = 12
"""`PRAGMA user_version` of stores.

A record may get a field with a default without a new version. Any other change needs a new version, and code to open
earlier ones; `tests/samples/stores` has a session of each.
"""
_LOCK_TIMEOUT_S = 5.0
_STALE_LOCK_AGE_S = 60.0
"""Age above which a lock belongs to a killed process: queries take less than a minute."""
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
"""Last bytes of a journal that names another journal (SQLite's file format, 3)."""
_CLOCK_CHECK_STEPS = 10_000
"""SQLite instructions between checks of the clock, about 100 µs."""
_THINNING: Final = ((3600.0, 10), (86_400.0, 60))
"""Ages, and the intervals to which older metrics are thinned; both in seconds."""
MAX_THINNED_ROWS = 5000
"""Maximum rows that one call of `thin` reads for each interval."""
MAX_ATTEMPTS, MAX_ATTEMPTS_WITH_CURVES = 200, 20
"""Number of attempts kept of each process of a job, and of those kept with their metrics over time."""
_MAXIMA: Final = ("memory_used_mib", "temperature_c")
"""Metrics reduced to their maximum; all others are averaged."""
METRICS: Final = ("fps", "gpu_util_pct", "memory_used_mib", "power_w", "temperature_c", "sm_pct")


class StoreError(GmgError):
    """A store is missing, damaged, of another version, or cannot be written."""

    def __init__(self, text: str, exit_code: int = 1) -> None:
        super().__init__(text, exit_code)


class JobAttempt(Struct, frozen=True, omit_defaults=True):
    """One process of a job, and where it ran."""

    job: int
    """The job's number."""
    slot: str
    gpu_uuid: str | None
    attempt: Attempt
    log: str | None = None
    """Path of its log in the session's folder."""
    rank: int = 0
    """Rank in the job's group; 0 without one."""

    @property
    def key(self) -> tuple[int, int, int]:
        """The numbers of job, attempt and rank."""
        return self.job, self.attempt.number, self.rank


class AttemptCurves(Struct, frozen=True, omit_defaults=True):
    """The metrics of one process of a job over time."""

    job: int
    number: int
    """The attempt's number."""
    rank: int
    slot: str
    curves: dict[str, Curve] = {}

    @property
    def key(self) -> tuple[int, int, int]:
        """The numbers of job, attempt and rank."""
        return self.job, self.number, self.rank


class LateCurves(NamedTuple):
    """The same, to be loaded by the writer's thread, as a node's may be large."""

    job: int
    number: int
    rank: int
    slot: str
    load: Callable[[], dict[str, Curve]]

    @property
    def key(self) -> tuple[int, int, int]:
        """As in `AttemptCurves`."""
        return self.job, self.number, self.rank


class MetricsRow(NamedTuple):
    """A slot's metrics over one second, or over several once thinned."""

    time: float
    """Unix time of the first second."""
    slot: str
    job: int | None
    fps: float | None
    """The current rate."""
    gpu_util_pct: float | None
    memory_used_mib: float | None
    power_w: float | None
    temperature_c: float | None
    sm_pct: float | None = None
    """Share of busy SMs."""
    state: str | None = None
    seconds: int = 1
    """Number of combined samples, one per second."""


Record = Snapshot | JobRecord | JobAttempt | AttemptCurves | LateCurves | MetricsRow
"""Records of the store; all but metrics replace an earlier one with the same key."""

_TABLES = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE jobs (number INTEGER PRIMARY KEY, record TEXT NOT NULL, result TEXT NOT NULL DEFAULT '{{}}');
CREATE TABLE attempts (
    job INTEGER, number INTEGER, rank INTEGER, record TEXT NOT NULL, PRIMARY KEY (job, number, rank)
) WITHOUT ROWID;
CREATE TABLE curves (job INTEGER, number INTEGER, rank INTEGER, record TEXT NOT NULL, PRIMARY KEY (job, number, rank));
CREATE TABLE metrics ({", ".join(MetricsRow._fields)})
"""
_STATEMENTS = [statement.strip() for statement in _TABLES.split(";")]

_PUT_META = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
_PUT_JOB = """
INSERT INTO jobs VALUES (?1, ?2, coalesce(?3, '{}'))
ON CONFLICT (number) DO UPDATE SET record = excluded.record, result = coalesce(?3, result)
"""
_PUT_CURVES = "INSERT OR REPLACE INTO curves VALUES (?, ?, ?, ?)"
_PUT_ATTEMPT = "INSERT OR REPLACE INTO attempts VALUES (?, ?, ?, ?)"
_FIELDS = ", ".join(MetricsRow._fields)
_PUT_METRICS = f"INSERT INTO metrics ({_FIELDS}) VALUES ({', '.join('?' for _ in MetricsRow._fields)})"  # noqa: S608

NAN_PREFIX = "gmg:"
"""Prefix of NaN and infinities in stored results and metrics."""
_FORGET_ALL_BUT_NEWEST = """
DELETE FROM {table} WHERE job = ?1 AND rank = ?2 AND number <= (
    SELECT number FROM {table} WHERE job = ?1 AND rank = ?2 ORDER BY number DESC LIMIT 1 OFFSET ?3
)
"""
_ENCODED_NANS = {f"{NAN_PREFIX}{value}" for value in ("nan", "inf", "-inf")}


def encode(value: Any) -> str:
    """Returns `value` as JSON."""
    return encode_lossy(msgspec.json.encode, value).decode()


def write(db: sqlite3.Connection, records: Iterable[Record]) -> None:
    """Writes records in one transaction. A job without results keeps its stored ones.

    Of each process of a job, only the newest attempts are kept: a faulty node may lose them again and again. Drops what
    cannot be encoded, of a job only its results.
    """
    with _transaction(db):
        for record in records:
            try:
                statement = _statement(record)
            except Exception:  # it would be tried again for ever, with all later ones
                _log.exception("a record cannot be stored")
                if not isinstance(record, JobRecord):
                    continue
                statement = _statement(structs.replace(record, result=None))
            db.execute(*statement)
            if isinstance(record, JobAttempt | AttemptCurves | LateCurves):
                job, _, rank = record.key
                is_attempt = isinstance(record, JobAttempt)
                table, kept = ("attempts", MAX_ATTEMPTS) if is_attempt else ("curves", MAX_ATTEMPTS_WITH_CURVES)
                db.execute(_FORGET_ALL_BUT_NEWEST.format(table=table), (job, rank, kept))


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # SQLite rolls back by itself after some errors
            db.execute("ROLLBACK")
        raise


def encode_nan(value: Any) -> Any:
    """Returns a record with NaN and infinities as strings, since JSON has neither."""
    if isinstance(value, dict):
        return {name: encode_nan(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode_nan(item) for item in value]
    return f"{NAN_PREFIX}{value}" if isinstance(value, float) and not math.isfinite(value) else value


def restore_nan(value: Any) -> Any:
    """Returns a stored record with its NaN and infinities."""
    if isinstance(value, dict):
        return {name: restore_nan(item) for name, item in value.items()}
    if isinstance(value, list):
        return [restore_nan(item) for item in value]
    return float(value.removeprefix(NAN_PREFIX)) if isinstance(value, str) and value in _ENCODED_NANS else value


def _statement(record: Record) -> tuple[str, tuple[Any, ...]]:
    match record:
        case Snapshot():
            return _PUT_META, ("snapshot", encode(record))
        case JobRecord():
            result = None if record.result is None else encode(encode_nan(record.result))
            return _PUT_JOB, (record.number, encode(structs.replace(record, result={})), result)
        case JobAttempt():
            return _PUT_ATTEMPT, (*record.key, encode(record))
        case LateCurves():
            return _statement(AttemptCurves(*record[:4], record.load()))
        case AttemptCurves():
            encodable: Any = record
            values = (value for curve in record.curves.values() for value in curve.values)
            if not all(value is None or math.isfinite(value) for value in values):
                encodable = encode_nan(msgspec.to_builtins(record))
            return _PUT_CURVES, (*record.key, encode(encodable))
    return _PUT_METRICS, record


def open_for_writing(path: Path, *, create: bool = True) -> sqlite3.Connection:
    """Opens the store at `path`, or creates it if allowed, private to this user (mode 0600).

    The journal is not a write-ahead log, which needs shared memory: several machines may share the state folder. Raises
    `sqlite3.Error`, `OSError`, or `StoreError` for another version.
    """
    check_own(path.parent)
    os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o600))
    db = _connect(path)
    try:
        if not _read_version(db, path):
            with _transaction(db):  # a killed process never leaves tables without a version
                for statement in _STATEMENTS:
                    db.execute(statement)
                db.execute(f"PRAGMA user_version={VERSION}")
    except BaseException:
        db.close()
        raise
    return db


def open_for_reading(path: Path, within_s: float | None = None) -> sqlite3.Connection:
    """Opens the store at `path` for queries, which are interrupted after `within_s` seconds, if given.

    Raises `sqlite3.Error`, or `StoreError` if the store is missing, empty, or has another version.
    """
    if not os.path.exists(path):
        raise StoreError(f"{path}: there is no store; it was removed, or the session had none")
    db = _connect(path, _LOCK_TIMEOUT_S if within_s is None else within_s, own=distrust(path.parent) is None)
    try:
        if within_s is not None:
            deadline = time.monotonic() + within_s
            db.set_progress_handler(lambda: time.monotonic() > deadline, _CLOCK_CHECK_STEPS)
        _prepare_for_reading(db, path)
    except BaseException:
        db.close()
        raise
    return db


def open_copy(path: Path) -> sqlite3.Connection:
    """Opens a private copy of the store at `path`, like `open_for_reading`: queries of it do not lock the store.

    If there is no room for a copy, opens the store itself.
    """
    store, db = open_for_reading(path), sqlite3.connect("", isolation_level=None)  # a file that SQLite removes
    try:
        store.backup(db)
        _prepare_for_reading(db, path)
    except sqlite3.OperationalError:
        db.close()
        return store
    except BaseException:
        db.close()
        store.close()
        raise
    store.close()
    return db


def _prepare_for_reading(db: sqlite3.Connection, path: Path) -> None:
    if _read_version(db, path) == 0:
        raise StoreError(f"{path}: the store is empty: its engine ended before it could write")
    db.execute("PRAGMA query_only=1")


def check_files(path: Path) -> None:
    """Raises `StoreError` if a script has replaced a file of the store, for example with a pipe, which would block SQLite.

    Also raises it for a journal that names another file, which SQLite may remove (Atomic Commit In SQLite, 5.5).
    """
    journal = path.with_name(f"{path.name}-journal")
    for file in (path, journal, *(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))):
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(file.lstat().st_mode):
                raise StoreError(f"{file}: not a regular file")
    with suppress(FileNotFoundError), journal.open("rb") as stream:
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - len(_JOURNAL_MAGIC)))
        if stream.read() == _JOURNAL_MAGIC:
            raise StoreError(f"{journal}: not a session's journal: it names another journal")


def _connect(path: Path, timeout_s: float = _LOCK_TIMEOUT_S, *, own: bool = True) -> sqlite3.Connection:
    """Connects to an existing store; on disks without record locks, the folder `store.sqlite.lock` is the lock.

    If its folder is not this user's `own`, another user could replace its journal at any moment, so SQLite must ignore it.
    """
    check_files(path)
    # Open one's own for writing, even to read: a killed engine's unfinished transaction must be rolled back.
    options = "mode=rw" if own else "mode=ro&immutable=1"
    if own and lock_trouble(path.parent, fcntl.lockf) is not None:  # as SQLite locks
        options += "&vfs=unix-dotfile"
        lock = path.with_name(f"{path.name}.lock")
        with suppress(OSError):
            if time.time() - lock.stat().st_mtime > _STALE_LOCK_AGE_S:
                lock.rmdir()
    uri = f"file:{quote(os.fsencode(path))}?{options}"
    return sqlite3.connect(uri, timeout=timeout_s, isolation_level=None, check_same_thread=False, uri=True)


def _read_version(db: sqlite3.Connection, path: Path) -> int:
    """Returns the store's version; 0 if the store is empty. Raises `StoreError` for an unknown one, or other tables."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version not in (0, VERSION):
        formats = f"format {version}, this version reads {VERSION}"
        advice = "; update gmg-tui" if version > VERSION else ""
        raise StoreError(f"{path}: another gmg-tui made this store ({formats}){advice}")
    if any(sql not in _STATEMENTS for (sql,) in db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")):
        raise StoreError(f"{path}: not a store of gmg-tui: its tables are others, and their SQL could run forever")
    return int(version)


def combining_sql(metric: str) -> str:
    """Returns the SQL expression that combines a metric of several rows."""
    if metric in _MAXIMA:
        return f"max({metric})"
    return f"sum({metric} * 1.0 * seconds) / sum(({metric} IS NOT NULL) * seconds)"


_COLUMNS = {
    **{name: name for name in MetricsRow._fields},
    "time": "min(time)",
    **{metric: combining_sql(metric) for metric in METRICS},
    "seconds": "sum(seconds)",
}
# Rows that lack a metric are combined separately, so that `seconds` is the weight of all metrics in a row.
_COMBINED_ROWS = f"""
SELECT min(rowid), {", ".join(_COLUMNS.values())} FROM metrics WHERE rowid > ? AND rowid <= ?
GROUP BY slot, job, state, CAST(time / ? AS INTEGER), {", ".join(f"{metric} IS NULL" for metric in METRICS)}
"""  # noqa: S608 - texts of this module
_LAST_OLD_ROW = """
SELECT max(number) FROM (SELECT rowid AS number, time FROM metrics WHERE rowid > ? ORDER BY rowid LIMIT ?) WHERE time < ?
"""
_PUT_COMBINED = f"INSERT INTO metrics (rowid, {', '.join(_COLUMNS)}) VALUES ({', '.join('?' * (len(_COLUMNS) + 1))})"  # noqa: S608


def thin(db: sqlite3.Connection) -> bool:
    """Thins metrics by their age relative to the newest, keeping their order. Returns True if another call is needed.

    Raises `sqlite3.Error`.
    """
    newest = db.execute("SELECT time FROM metrics ORDER BY rowid DESC LIMIT 1").fetchone()
    unfinished = [_thin(db, step_s, newest[0] - age_s) for age_s, step_s in _THINNING] if newest is not None else []
    return any(unfinished)


def _thin(db: sqlite3.Connection, step_s: int, before_time: float) -> bool:
    """Thins metrics from before a Unix time to one row per `step_s`. Returns True if another call is needed."""
    key = f"thinned to {step_s} s"
    with _transaction(db):
        thinned = db.execute("SELECT CAST(value AS INTEGER) FROM meta WHERE key = ?", (key,)).fetchone()
        first = thinned[0] if thinned is not None else 0
        (last,) = db.execute(_LAST_OLD_ROW, (first, MAX_THINNED_ROWS, before_time // step_s * step_s)).fetchone()
        if last is None:
            return False
        rows = db.execute(_COMBINED_ROWS, (first, last, step_s)).fetchall()
        deleted = db.execute("DELETE FROM metrics WHERE rowid > ? AND rowid <= ?", (first, last)).rowcount
        db.executemany(_PUT_COMBINED, rows)
        db.execute(_PUT_META, (key, str(last)))
    return deleted >= MAX_THINNED_ROWS
