"""The columns of tables of jobs for all outputs, and jobs as JSON."""

import shlex
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial, reduce
from itertools import chain, islice, zip_longest
from typing import Any

import msgspec
from msgspec import Struct, structs

from gmg_tui.model import JobRecord, WorkerState, units
from gmg_tui.model.jobs import MAX_NAMES
from gmg_tui.model.secrets import mask
from gmg_tui.results import column
from gmg_tui.results.column import Column, Outputs, as_cell, format_exact, format_value
from gmg_tui.session.store.database import JobAttempt

_Col = Column[JobRecord]
FILES, SCREEN, EVERYWHERE = Outputs.FILES, Outputs.SCREEN, Outputs.EVERYWHERE
_ENGINE_FIELDS = ("halted", "reserved")
"""Fields of a job that JSON omits: only the engine uses them."""
STATE_STYLES: dict[str, str] = {
    **dict.fromkeys(WorkerState, "cyan"),
    WorkerState.FINISHED: "green",
    WorkerState.FAILED: "red",
    WorkerState.STOPPED: "yellow",
    WorkerState.WAITING: "dim",
}


def _get(path: str) -> Callable[[JobRecord], Any]:
    """Returns a getter of a field such as `last.fps.mean`; it returns None if any field in the path is None."""
    return lambda job: reduce(lambda value, name: None if value is None else getattr(value, name), path.split("."), job)


def columns(jobs: Sequence[JobRecord]) -> list[Column[JobRecord]]:
    """Returns the columns for jobs or attempts, including one for each value of a sweep, metric and result.

    If its name is taken, the column of a value gets the prefix `value_`, and that of a metric or result `result_`.
    """
    several_days = len({_local_time(job.started, "%x") for job in jobs if job.started}) > 1
    start_text = partial(_local_time, form="%m-%d %H:%M:%S" if several_days else "%H:%M:%S")
    numbers = {job.number for job in jobs}
    has_retries = len(numbers) < len(jobs)
    is_plain_run = all(job.name == job.slot for job in jobs)
    # Edited arguments distinguish the attempts of a job.
    args_vary = len({(job.number, job.last.args) for job in jobs if job.last.args}) > len(numbers)
    value_names = dict.fromkeys(name for job in jobs for name in job.values)
    tries_outputs = EVERYWHERE if has_retries else FILES | SCREEN
    args_outputs = _shown_unless(bool(value_names) and not args_vary)
    identity = [
        _Col("job", _get("number"), "#", "", str, 20, FILES if is_plain_run else EVERYWHERE),
        _Col("name", _get("name"), "slot" if is_plain_run else "name", "", str, 100, align_left=True, max_width=28),
    ]
    progress = [
        _Col("state", _get("state.value"), priority=90, align_left=True),
        _Col("slots", _slots, "slot", "", _shorten, 75, _shown_unless(is_plain_run), align_left=True),
        _Col("gpu", _get("last.gpu_index"), outputs=FILES),
        _Col("gpu_uuid", _get("gpu_uuid"), outputs=FILES),
        _Col("ddp_group", _get("group"), "group", priority=32, align_left=True),
        _Col("ddp_rank", _get("rank"), "rank", priority=46),
        _Col("ddp_world_size", _get("world_size"), outputs=FILES),
        _Col("attempts", _get("last.number"), "tries", priority=45, outputs=tries_outputs),
        _Col("args", _args, priority=78 if args_vary else 16, outputs=args_outputs, align_left=True),
        _Col("started", lambda job: iso_ms(job.started), "start", "", start_text, 44 if has_retries else 18),
        _Col("elapsed_s", _get("elapsed_s"), *column.TIME, 85),
        _Col("fps_mean", _get("last.fps.mean"), *column.FPS, 88),
    ]
    figures = [
        _Col("memory_peak_mib", _get("last.memory_peak_mib"), *column.VRAM, 40),
        _Col("fps_settled", _get("last.fps.settled"), outputs=FILES),
        _Col("fps_last", _get("last.fps.last"), outputs=FILES),
        _Col("env_steps", _get("last.fps.env_steps"), outputs=FILES),
        _Col("n_envs", _get("last.n_envs"), *column.ENVS, 35, _shown_unless("n_envs" in value_names)),
        _Col("gpu_util_mean_pct", _get("last.gpu_util_mean_pct"), *column.GPU, 30),
        _Col("why", _why, priority=28, align_left=True),
        _Col("power_mean_w", _get("last.power_mean_w"), *column.POWER, 10),
        _Col("energy_j", _get("energy_j"), "energy", "", units.energy, 12),
        _Col("env_steps_per_j", _get("last.fps.env_steps_per_j"), *column.FPS_PER_WATT, 14),
        _Col("exit_code", _get("last.exit_code"), outputs=FILES),
        _Col("reason", _get("reason"), priority=60, outputs=FILES | SCREEN, align_left=True, max_width=60),
    ]
    fixed = [*identity, *progress, *figures]
    values = _create_columns(value_names, "value_", fixed, lambda job, name: job.values.get(name), 70, format_exact)
    results = _create_columns(result_names(jobs), "result_", [*fixed, *values], _result, 65)
    return [*identity, *values, *progress, *results, *figures]


def _shown_unless(hidden: bool) -> Outputs:
    return FILES if hidden else EVERYWHERE


def _result(job: JobRecord, name: str) -> Any:
    """Returns a job's result, else its last metric of that name, as earlier attempts have no results."""
    return job.result[name] if job.result and name in job.result else job.last.metric(name)


def result_names(jobs: Iterable[JobRecord]) -> list[str]:
    """Returns the names of the jobs' metrics and results, in order of appearance, without results that no cell can hold.

    Of more than `MAX_NAMES`, as a node that is not trusted may report, each job keeps its first ones.
    """
    names_by_job = [[name for name, value in _reported(job) if as_cell(value) is not None] for job in jobs]
    names = dict.fromkeys(chain.from_iterable(names_by_job))
    if len(names) <= MAX_NAMES:
        return list(names)
    in_turn = dict.fromkeys(name for turn in zip_longest(*names_by_job) for name in turn if name is not None)
    kept = set(islice(in_turn, MAX_NAMES))
    return [name for name in names if name in kept]


def _reported(job: JobRecord) -> Iterable[tuple[str, Any]]:
    return chain(job.last.numbers.items(), (job.result or {}).items())


def _create_columns(
    names: Iterable[str],
    prefix: str,
    others: Iterable[Column[JobRecord]],
    get: Callable[[JobRecord, str], Any],
    max_priority: int,
    write: Callable[[Any], str] = format_value,
) -> list[Column[JobRecord]]:
    """Returns a column for each of `names`, with values from `get`; prefixes names that are among the `others`.

    The priorities descend from `max_priority`.
    """
    taken, columns = {other.name for other in others}, []
    for position, name in enumerate(names):
        unique_name = name
        while unique_name in taken:
            unique_name = prefix + unique_name
        taken.add(unique_name)
        value = partial(lambda job, name: as_cell(get(job, name)), name=name)
        columns.append(Column(unique_name, value, name, "", write, max(max_priority - position, 1), max_width=24))
    return columns


def _slots(job: JobRecord) -> str | None:
    return " ".join(job.slots) or job.slot


def _args(job: JobRecord) -> str | None:
    return shlex.join(job.last.args) or None


def _why(job: JobRecord) -> str | None:
    """Returns the kind of the verdict on a job's speed, with a question mark if uncertain; None without a verdict."""
    verdict = job.last.verdict
    return None if verdict is None else f"{verdict.kind}{'' if verdict.certain else '?'}"


def _shorten(names: str) -> str:
    """Shortens a list of slots to the first one and the number of others: `gpu0 +7`."""
    first, *others = names.split() or [""]
    return f"{first} +{len(others)}" if others else first


def job_json(job: JobRecord, attempts: Sequence[JobAttempt]) -> dict[str, Any]:
    """Returns a job for `detailed_results.json`: the figures of its last attempt, all attempts, and its results."""
    fields = _flatten(structs.replace(job, result=None), "last")
    fields = {name: value for name, value in fields.items() if name not in _ENGINE_FIELDS}
    return {**fields, "attempts": [_flatten(run, "attempt") for run in attempts], "result": job.result or {}}


def _flatten(struct: Struct, field: str) -> dict[str, Any]:
    """Returns a struct for JSON, with the fields of the struct in `field` merged into it."""
    outer = as_plain(struct)
    inner: dict[str, Any] = outer.pop(field)
    return inner | outer


def as_plain(struct: Struct) -> dict[str, Any]:
    """Returns a struct as plain data for JSON, without unset fields; times are in ISO 8601, and secrets are masked."""
    return {
        name: _to_plain(name, value) for name, value in structs.asdict(struct).items() if value is not msgspec.UNSET
    }


def _to_plain(name: str, value: Any) -> Any:
    match value:
        case Struct():
            return as_plain(value)
        case float() if name in ("time", "started", "ended", "saved", "reported", "since"):
            return iso_ms(value)
        case tuple() | list():
            return [_to_plain("", item) for item in value]
        case dict() if name == "env":
            return mask(value)
        case dict():
            return {key: _to_plain("", item) for key, item in value.items()}
    return msgspec.to_builtins(value)


def iso_ms(time: float | None) -> str | None:
    """Formats Unix seconds in ISO 8601, UTC, with milliseconds; None for None or 0."""
    if not time:
        return None
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _local_time(time: float | str | None, form: str) -> str:
    """Formats Unix seconds, or a text from `iso_ms`, in local time."""
    moment = datetime.fromisoformat(time) if isinstance(time, str) else datetime.fromtimestamp(time or 0.0, UTC)
    return moment.astimezone().strftime(form)
