"""Creates the store of a sweep, and reads stores, even while an engine writes them."""

import math
import signal
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, structs

from gmg_tui.model import JobRecord, Point, Series, Snapshot, WorkerState
from gmg_tui.model.curves import best_of
from gmg_tui.session.store import database
from gmg_tui.session.store.database import METRICS, AttemptCurves, JobAttempt, MetricsRow, StoreError, combining_sql

MAX_COPY_BYTES = 1 << 30
"""Maximum size of a copied store: a given one may claim to be larger than the disk; one of 100,000 jobs has 80 MB."""
_TERMINAL_STOPS = signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU
_COLUMNS = {
    "time": "sum((time + (seconds - 1) / 2.0) * seconds) / sum(seconds)",
    "slot": "slot",
    **dict.fromkeys(("job", "state"), "max({})"),
    **{metric: combining_sql(metric) for metric in METRICS},
    "seconds": "sum(seconds)",
}
_METRICS_SQL = f"""
WITH spans AS (
    SELECT slot, max(min(time), max(time) - :last_s) AS first, max(time) AS last
    FROM metrics WHERE :slot IN ('', slot) GROUP BY slot
), steps AS (SELECT *, max(1.0, (last - first) / :points) AS step_s FROM spans)
SELECT {", ".join(_COLUMNS[name].format(name) for name in MetricsRow._fields)},
    first, step_s, CAST((time - first) / step_s AS INTEGER) AS step
FROM metrics JOIN steps USING (slot) WHERE time >= first GROUP BY slot, step ORDER BY slot, step
"""  # noqa: S608 - texts of this module
_LAST_METRICS_SQL = f"""
SELECT {", ".join(MetricsRow._fields)}, max(time + (state IS 'running') * 1e10) FROM metrics GROUP BY slot, job
"""  # noqa: S608 - the other columns belong to the row with the maximum, as SQLite documents
_RATE_BLOCKS_SQL = """
WITH runs AS (SELECT slot, job, min(time) AS first FROM metrics WHERE state = 'running' GROUP BY slot, job)
SELECT slot, job, CAST((time - first) / ? AS INTEGER) AS block, avg(fps)
FROM metrics JOIN runs USING (slot, job) WHERE state = 'running' AND fps IS NOT NULL
GROUP BY slot, job, block HAVING block > 0 ORDER BY slot, job, block
"""
_MIN_PAUSE_INTERVALS = 2.5
"""Minimum gap between metrics, in intervals, that counts as a pause."""
_STATES_SQL = """
SELECT time, slot, state
FROM (SELECT time, slot, state, lag(state || job) OVER (PARTITION BY slot ORDER BY time) AS before, job FROM metrics)
WHERE state || job IS NOT before ORDER BY slot, time
"""


def create(path: Path, jobs: Iterable[JobRecord]) -> None:
    """Creates a store with `jobs`, all waiting. Raises `StoreError`."""
    records = (structs.replace(job, position=float(job.number)) for job in jobs)
    try:
        with closing(database.open_for_writing(path)) as db:
            database.write(db, records)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"cannot write {path}: {getattr(error, 'strerror', error)}") from error


class _Range(Struct):
    lowest: Point | None = None
    highest: Point | None = None


class _Extremes(Struct):
    """`AttemptCurves` without points, which is much faster to decode."""

    curves: dict[str, _Range] = {}


class _Step(NamedTuple):
    """One of a slot's equal time steps, with its metrics."""

    metrics: MetricsRow
    first: float
    """Unix time of the slot's first step."""
    step_s: float
    number: int


class Stored:
    """The content of an open store."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    @property
    def last_snapshot(self) -> Snapshot | None:
        """The session's last snapshot, if one was written."""
        row = self._db.execute("SELECT value FROM meta WHERE key = 'snapshot'").fetchone()
        return None if row is None else msgspec.json.decode(_text(row[0]), type=Snapshot)

    @property
    def jobs(self) -> list[JobRecord]:
        """All jobs, in the order of their numbers."""
        return list(self.iter_jobs())

    def iter_jobs(self) -> Iterator[JobRecord]:
        """Yields all jobs, one by one as their results may be large."""
        decoder, results = msgspec.json.Decoder(JobRecord), msgspec.json.Decoder(dict[str, Any])
        for record, result in self._db.execute("SELECT record, result FROM jobs ORDER BY number"):
            reported = results.decode(_text(result))
            if database.NAN_PREFIX in result:
                reported = database.restore_nan(reported)
            yield structs.replace(decoder.decode(_text(record)), result=reported)

    def job(self, number: int) -> JobRecord:
        """Returns a job without its results."""
        (record,) = self._db.execute("SELECT record FROM jobs WHERE number = ?", (number,)).fetchone()
        return msgspec.json.decode(_text(record), type=JobRecord)

    @property
    def attempts(self) -> dict[int, list[JobAttempt]]:
        """The attempts by job, sorted by number and rank."""
        by_job: dict[int, list[JobAttempt]] = {}
        for attempt in self._attempts("ORDER BY job, number, rank"):
            by_job.setdefault(attempt.job, []).append(attempt)
        return by_job

    def attempts_of(self, job: int) -> list[JobAttempt]:
        """Returns the attempts of one job, sorted by number and rank."""
        return self._attempts("WHERE job = ? ORDER BY number, rank", job)

    def curves_of(self, job: int) -> list[AttemptCurves]:
        """Returns the curves of one job's attempts, sorted by number and rank."""
        rows = self._db.execute("SELECT record FROM curves WHERE job = ? ORDER BY number, rank", (job,))
        return [_decode_curves(_text(record)) for (record,) in rows]

    def best(self) -> dict[int, dict[str, Point]]:
        """Returns the best value of each metric over all attempts of a job (of a group, rank 0's), by job."""
        jobs: dict[int, dict[str, Point]] = {}
        decoder = msgspec.json.Decoder(_Extremes)
        for number, record in self._db.execute("SELECT job, record FROM curves WHERE rank = 0"):
            best = jobs.setdefault(number, {})
            for name, extremes in decoder.decode(_text(record)).curves.items():
                if point := best_of(name, (best.get(name), extremes.lowest, extremes.highest)):
                    best[name] = point
        return jobs

    def metrics(self, points: int) -> list[MetricsRow]:
        """Returns the metrics sorted by slot and time, at about `points` equal intervals per slot.

        Each row has its interval's highest job number, the maxima of memory and temperature, and the means of other metrics.
        """
        return [step.metrics for step in self._steps(points)]

    def series(self, points: int, slot: str = "", *, last_s: float = math.inf) -> list[Series]:
        """Returns about `points` metrics at even steps, of one slot or all, over the last `last_s` seconds."""
        steps = self._steps(points, slot, last_s)
        return [_make_series(slot, list(group)) for slot, group in groupby(steps, lambda step: step.metrics.slot)]

    def _steps(self, points: int, slot: str = "", last_s: float = math.inf) -> Iterator[_Step]:
        rows = self._db.execute(_METRICS_SQL, {"slot": slot, "points": points, "last_s": min(last_s, 1e12)})
        for row in rows:
            step = msgspec.convert((row[:-3], *row[-3:]), _Step)
            if step.number > points:  # SQLite does not enforce types, and a text is later than any number
                raise msgspec.ValidationError(f"a time of {step.metrics.slot} that is not a number")
            yield step

    def rate_blocks(self, block_s: float) -> dict[tuple[str, int | None], list[float]]:
        """Returns mean rates over blocks of `block_s` seconds, by slot and job, without the first block (warm-up)."""
        rows = self._db.execute(_RATE_BLOCKS_SQL, (block_s,))
        return {key: [row[3] for row in group] for key, group in groupby(rows, itemgetter(0, 1))}

    def last_metrics(self) -> dict[tuple[str, int | None], MetricsRow]:
        """Returns the last metrics by slot and job, preferably from while the job was running."""
        rows = [msgspec.convert(row[:-1], MetricsRow) for row in self._db.execute(_LAST_METRICS_SQL)]
        return {(row.slot, row.job): row for row in rows}

    def states(self) -> list[tuple[float, str, WorkerState]]:
        """Returns the changes of state sorted by slot and time: Unix time, slot, state."""
        known = (row for row in self._db.execute(_STATES_SQL) if row[2] is not None)
        return [msgspec.convert(row, tuple[float, str, WorkerState]) for row in known]

    def _attempts(self, clauses: str, *parameters: object) -> list[JobAttempt]:
        decoder = msgspec.json.Decoder(JobAttempt)
        rows = self._db.execute(f"SELECT record FROM attempts {clauses}", parameters)  # noqa: S608 - a text of this class
        return [decoder.decode(_text(record)) for (record,) in rows]


def load_jobs(path: Path) -> list[JobRecord]:
    """Returns all jobs of the store at `path`. Raises `StoreError`."""
    with open_store(path) as stored:
        return stored.jobs


@contextmanager
def open_store(path: Path, within_s: float | None = None, *, copied: bool = False) -> Iterator[Stored]:
    """Opens a consistent view of the store at `path`, for at most `within_s` seconds if given. Raises `StoreError`.

    No record can be written while a view is open, unless it is `copied`: open it so for more than a few queries. A store of
    implausible size is not copied. Ctrl+z takes effect once the store can be written again.
    """
    try:
        copied = copied and _size_bytes(path) <= MAX_COPY_BYTES
        with ExitStack() as stack:
            previous = signal.pthread_sigmask(signal.SIG_BLOCK, _TERMINAL_STOPS)
            stack.callback(signal.pthread_sigmask, signal.SIG_SETMASK, previous)
            open_view = (
                partial(database.open_copy, path) if copied else partial(database.open_for_reading, path, within_s)
            )
            db = stack.enter_context(closing(open_view()))
            if copied:
                signal.pthread_sigmask(signal.SIG_SETMASK, previous)
            db.execute("BEGIN")
            yield Stored(db)
    except sqlite3.Error as error:
        raise StoreError(f"{path}: the store cannot be read: {error}") from error
    except (msgspec.MsgspecError, RecursionError, UnicodeError, OverflowError) as error:
        raise StoreError(f"{path}: the store has a value that this gmg-tui cannot read: {error}") from error


def _size_bytes(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


def _text(value: object) -> str:
    """Returns a column's text; raises `msgspec.ValidationError` for another value, as SQLite does not enforce types."""
    if not isinstance(value, str):
        raise msgspec.ValidationError(f"{type(value).__name__} instead of a text")
    return value


def _decode_curves(record: str) -> AttemptCurves:
    if database.NAN_PREFIX not in record:  # the usual case, and faster
        return msgspec.json.decode(record, type=AttemptCurves)
    return msgspec.convert(database.restore_nan(msgspec.json.decode(record)), AttemptCurves)


def _make_series(slot: str, recorded: Sequence[_Step]) -> Series:
    """Returns the series of a slot; older metrics have longer intervals."""
    first, step_s = recorded[0].first, recorded[0].step_s
    steps: list[tuple[float | None, ...]] = []
    interval_s, previous_time = math.inf, 0.0
    for row, _, _, number in recorded:
        is_pause = row.time - previous_time > _MIN_PAUSE_INTERVALS * max(interval_s, step_s)
        steps += [(None,) * 5 if is_pause or not steps else steps[-1]] * (number - len(steps))
        steps.append((row.fps, row.gpu_util_pct, row.memory_used_mib, row.power_w, row.sm_pct))
        interval_s, previous_time = math.inf if is_pause else row.time - previous_time, row.time
    fps, util_pct, memory_mib, power_w, sm_pct = zip(*steps, strict=True)
    busy_sm_pct = sm_pct if any(value is not None for value in sm_pct) else ()  # few GPUs report busy SMs
    return Series(slot, first + (len(steps) - 1) * step_s, step_s, fps, util_pct, memory_mib, power_w, busy_sm_pct)
