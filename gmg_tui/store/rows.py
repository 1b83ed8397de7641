"""The words of the model as rows of the store's tables, and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from gmg_tui.model import Attempt, Figures, Fps, JobRecord, Session, WorkerState
from gmg_tui.store.records import Event, FiguresRow, JobAttempt, StoreError

if TYPE_CHECKING:
    from sqlite3 import Connection

_T = TypeVar("_T")
Row = tuple[Any, ...]

_JOB = (
    "number, name, job_group, job_values, state, place, reason, slot, gpu_index, gpu_uuid, attempts, exit_code, "
    "started, ended, elapsed_s, fps_last, fps_mean, fps_max, fps_samples, fps_rate, n_envs, memory_peak_mib, "
    "gpu_util_mean_pct, power_mean_w, energy_j, out_dir, log, result"
)
_ATTEMPT = "job, number, slot, gpu_index, gpu_uuid, log, args, pid, started, ended, exit_code, state, reason, figures"
_EVENT = "time, kind, text, slot, job"
_FIGURES = ", ".join(FiguresRow._fields)


def _insert(table: str, columns: str) -> str:
    marks = ", ".join("?" for _ in columns.split(","))
    return f"INSERT OR REPLACE INTO {table} ({columns}) VALUES ({marks})"  # noqa: S608 - names from this file


PUT_META = _insert("meta", "key, value")
PUT_JOB = _insert("jobs", _JOB)
PUT_ATTEMPT = _insert("attempts", _ATTEMPT)
PUT_EVENT = _insert("events", _EVENT)
PUT_FIGURES = _insert("figures", _FIGURES)
GET_SESSION = "SELECT value FROM meta WHERE key = 'session'"
GET_JOBS = f"SELECT {_JOB} FROM jobs ORDER BY number"  # noqa: S608
GET_ATTEMPTS = f"SELECT {_ATTEMPT} FROM attempts ORDER BY job, number"  # noqa: S608
GET_EVENTS = f"SELECT {_EVENT} FROM events ORDER BY id DESC LIMIT ?"  # noqa: S608


def read(db: Connection, query: str, make: Callable[[Row], _T], *parameters: object) -> list[_T]:
    """What `make` makes of the rows of `query`.

    Raises:
        StoreError: A row holds what this gmg-tui has no word for.
    """
    try:
        return [make(row) for row in db.execute(query, parameters)]
    except (ValueError, TypeError, msgspec.MsgspecError) as error:
        raise StoreError(f"the store holds what this gmg-tui does not know: {error}") from error


def encode(value: Any) -> str:
    """`value` as JSON text, whatever a script has reported.

    A half of a surrogate pair becomes `?`; whole numbers beyond 64 bits stay what they are; what is nested too deeply
    to be written, or has thousands of digits, becomes null.
    """
    try:
        return msgspec.json.encode(value).decode()
    except (ValueError, OverflowError, RecursionError):
        pass  # the slower way, which can do more
    try:
        plain = msgspec.to_builtins(value)
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode(errors="replace").decode()
    except (ValueError, RecursionError):
        return "null"


def decode(text: str | None) -> Any:
    """The value of JSON text; None for none."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return json.loads(text)


def _text(value: str | None) -> str | None:
    """`value`, when SQLite can take it; a file's name may hold bytes that are no text."""
    if value is None or value.isascii():
        return value
    return value.encode(errors="replace").decode()


def of_session(session: Session) -> Row:
    """The row of `meta` that holds the session."""
    return "session", encode(session)


def to_session(row: Row | None) -> Session | None:
    """The session; None where none is written yet."""
    return None if row is None else msgspec.json.decode(row[0], type=Session)


def of_job(job: JobRecord) -> Row:
    """The row of `jobs`."""
    fps = job.fps
    speeds = (None,) * 5 if fps is None else (fps.last, fps.mean, fps.max, fps.samples, fps.rate)
    return (
        job.number,
        _text(job.name),
        job.group,
        encode(job.values),
        job.state.value,
        job.place,
        _text(job.reason),
        _text(job.slot),
        job.gpu_index,
        _text(job.gpu_uuid),
        job.attempts,
        job.exit_code,
        job.started,
        job.ended,
        job.elapsed_s,
        *speeds,
        job.n_envs,
        job.memory_peak_mib,
        job.gpu_util_mean_pct,
        job.power_mean_w,
        job.energy_j,
        _text(job.out_dir),
        _text(job.log),
        encode(job.result),
    )


def to_job(row: Row) -> JobRecord:
    """The record of a row of `jobs`."""
    number, name, group, values, state, place, reason, slot, gpu_index, gpu_uuid, attempts, exit_code = row[:12]
    started, ended, elapsed_s, last, mean, highest, samples, rate, n_envs = row[12:21]
    memory_peak_mib, gpu_util_mean_pct, power_mean_w, energy_j, out_dir, log, result = row[21:]
    return JobRecord(
        number=number,
        name=name,
        group=group,
        values=decode(values) or {},
        state=WorkerState(state),
        place=place,
        reason=reason,
        slot=slot,
        gpu_index=gpu_index,
        gpu_uuid=gpu_uuid,
        attempts=attempts,
        exit_code=exit_code,
        started=started,
        ended=ended,
        elapsed_s=elapsed_s,
        fps=None if last is None else Fps(last=last, mean=mean, max=highest, samples=samples, rate=rate),
        n_envs=n_envs,
        memory_peak_mib=memory_peak_mib,
        gpu_util_mean_pct=gpu_util_mean_pct,
        power_mean_w=power_mean_w,
        energy_j=energy_j,
        out_dir=out_dir,
        log=log,
        result=decode(result) or {},
    )


def of_attempt(one: JobAttempt) -> Row:
    """The row of `attempts`."""
    attempt = one.attempt
    return (
        one.job,
        attempt.number,
        _text(one.slot),
        one.gpu_index,
        _text(one.gpu_uuid),
        _text(one.log),
        encode(attempt.args),
        attempt.pid,
        attempt.started,
        attempt.ended,
        attempt.exit_code,
        attempt.state.value,
        _text(attempt.reason),
        None if attempt.figures is None else encode(attempt.figures),
    )


def to_attempt(row: Row) -> JobAttempt:
    """The attempt of a row of `attempts`."""
    job, number, slot, gpu_index, gpu_uuid, log, args, pid, started, ended, exit_code, state, reason, figures = row
    attempt = Attempt(
        number=number,
        args=tuple(decode(args)),
        pid=pid,
        started=started,
        ended=ended,
        exit_code=exit_code,
        state=WorkerState(state),
        reason=reason,
        figures=None if figures is None else msgspec.json.decode(figures, type=Figures),
    )
    return JobAttempt(job, slot, gpu_index, gpu_uuid, attempt, log)


def of_event(event: Event) -> Row:
    """The row of `events`."""
    return event.time, _text(event.kind), _text(event.text), _text(event.slot), event.job


def to_figures(row: Row) -> FiguresRow:
    """The figures of a row of `figures`."""
    return FiguresRow(*row)


def to_event(row: Row) -> Event:
    """The event of a row of `events`."""
    return Event(*row)
