"""The columns of tables of jobs for all outputs, and jobs as JSON."""

import shlex
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial, reduce
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct, structs

from gmg_tui.model import JobRecord, WorkerState, units
from gmg_tui.model.jobs import MAX_NAMES
from gmg_tui.model.secrets import mask
from gmg_tui.results import column as figure
from gmg_tui.results.column import Column, Outputs, as_cell, format_exact, format_value
from gmg_tui.session.store.database import JobAttempt

_C = Column[JobRecord]
FILES, SCREEN, EVERYWHERE = Outputs.FILES, Outputs.SCREEN, Outputs.EVERYWHERE
_INTERNAL = ("halted", "reserved")
"""Fields of a job for the engine alone."""
STATE_STYLES: dict[str, str] = {
    **dict.fromkeys(WorkerState, "cyan"),
    WorkerState.FINISHED: "green",
    WorkerState.FAILED: "red",
    WorkerState.STOPPED: "yellow",
    WorkerState.WAITING: "dim",
}


def _of(path: str) -> Callable[[JobRecord], Any]:
    """Returns a getter for a field such as `last.fps.mean`; None if a part of its path is None."""
    return lambda job: reduce(lambda value, name: None if value is None else getattr(value, name), path.split("."), job)


def columns(jobs: Sequence[JobRecord]) -> list[Column[JobRecord]]:
    """Returns the columns for these jobs or attempts; values, metrics and results are in order of appearance.

    A value with the name of a fixed column gets the prefix `value_`, a result with the name of any other `result_`.
    """
    several_days = len({_local(job.started, "%x") for job in jobs if job.started}) > 1
    local = partial(_local, form="%m-%d %H:%M:%S" if several_days else "%H:%M:%S")
    numbers = {job.number for job in jobs}
    several = len(numbers) < len(jobs)  # attempts of a job
    plain = all(job.name == job.slot for job in jobs)
    # These distinguish the rows of a job that was tried with several arguments.
    searched = len({(job.number, job.last.args) for job in jobs if job.last.args}) > len(numbers)
    named = dict.fromkeys(name for job in jobs for name in job.values)
    first = [
        _C("job", _of("number"), "#", "", str, 20, FILES if plain else EVERYWHERE),
        _C("name", _of("name"), "slot" if plain else "name", "", str, 100, align_left=True, max_width=28),
    ]
    ran = [
        _C("state", _of("state.value"), priority=90, align_left=True),
        _C(
            "slots",
            lambda job: " ".join(job.slots) or job.slot,
            "slot",
            "",
            _slots,
            75,
            _unless(plain),
            align_left=True,
        ),
        _C("gpu", _of("last.gpu_index"), outputs=FILES),
        _C("gpu_uuid", _of("gpu_uuid"), outputs=FILES),
        _C("ddp_group", _of("group"), "group", priority=32, align_left=True),
        _C("ddp_rank", _of("rank"), "rank", priority=46),
        _C("ddp_world_size", _of("world_size"), outputs=FILES),
        _C("attempts", _of("last.number"), "tries", priority=45, outputs=EVERYWHERE if several else FILES | SCREEN),
        _C(
            "args",
            _args,
            priority=78 if searched else 16,
            outputs=_unless(bool(named) and not searched),
            align_left=True,
        ),
        _C("started", lambda job: iso_ms(job.started), "start", "", local, 44 if several else 18),
        _C("elapsed_s", _of("elapsed_s"), *figure.TIME, 85),
        _C("fps_mean", _of("last.fps.mean"), *figure.FPS, 88),
    ]
    figures = [
        _C("memory_peak_mib", _of("last.memory_peak_mib"), *figure.VRAM, 40),
        _C("fps_settled", _of("last.fps.settled"), outputs=FILES),
        _C("fps_last", _of("last.fps.last"), outputs=FILES),
        _C("env_steps", _of("last.fps.env_steps"), outputs=FILES),
        _C("n_envs", _of("last.n_envs"), *figure.ENVS, 35, _unless("n_envs" in named)),
        _C("gpu_util_mean_pct", _of("last.gpu_util_mean_pct"), *figure.GPU, 30),
        _C("why", _why, priority=28, align_left=True),
        _C("power_mean_w", _of("last.power_mean_w"), *figure.POWER, 10),
        _C("energy_j", _of("energy_j"), "energy", "", units.energy, 12),
        _C("env_steps_per_j", _of("last.fps.env_steps_per_j"), *figure.FPS_PER_WATT, 14),
        _C("exit_code", _of("last.exit_code"), outputs=FILES),
        _C("reason", _of("reason"), priority=60, outputs=FILES | SCREEN, align_left=True, max_width=60),
    ]
    made = [*first, *ran, *figures]
    values = _named(named, "value_", made, lambda job, name: job.values.get(name), 70, format_exact)
    results = _named(result_names(jobs), "result_", [*made, *values], _reported, 65)
    return [*first, *values, *ran, *results, *figures]


def _unless(hidden: bool) -> Outputs:
    return FILES if hidden else EVERYWHERE


def _reported(job: JobRecord, name: str) -> Any:
    """Returns a job's result, else a named number from its lines: earlier attempts have no results."""
    return job.result[name] if job.result and name in job.result else job.last.numbers.get(name)


def result_names(jobs: Iterable[JobRecord]) -> list[str]:
    """Returns the names of the jobs' results that are columns, in order of appearance, at most `MAX_NAMES`."""
    parts = (part for job in jobs for part in (job.last.numbers, job.result or {}))
    names = dict.fromkeys(name for part in parts for name, value in part.items() if as_cell(value) is not None)
    return list(islice(names, MAX_NAMES))


def _named(
    names: Iterable[str],
    prefix: str,
    others: Iterable[Column[JobRecord]],
    of: Callable[[JobRecord, str], Any],
    highest: int,
    write: Callable[[Any], str] = format_value,
) -> list[Column[JobRecord]]:
    """Returns a column for each of `names`, with values by `of`; prefixes names that are among the `others`.

    The priorities descend from `highest`.
    """
    taken, columns = {column.name for column in others}, []
    for position, name in enumerate(names):
        column = name
        while column in taken:
            column = prefix + column
        taken.add(column)
        value = partial(lambda job, name: as_cell(of(job, name)), name=name)
        columns.append(Column(column, value, name, "", write, max(highest - position, 1), max_width=24))
    return columns


def _args(job: JobRecord) -> str | None:
    return shlex.join(job.last.args) or None


def _why(job: JobRecord) -> str | None:
    """Returns the verdict on a job's speed, with a question mark if uncertain."""
    verdict = job.last.verdict
    return None if verdict is None else f"{verdict.kind}{'' if verdict.certain else '?'}"


def _slots(names: str) -> str:
    """Returns the first of a job's slots, and the number of the others."""
    first, *others = names.split()
    return f"{first} +{len(others)}" if others else first


def job_json(job: JobRecord, attempts: Sequence[JobAttempt]) -> dict[str, Any]:
    """Returns a job for `detailed_results.json`: the figures of its last attempt, all attempts, and its results."""
    whole = _flat(structs.replace(job, result=None), "last")
    whole = {name: value for name, value in whole.items() if name not in _INTERNAL}
    return {**whole, "attempts": [_flat(ran, "attempt") for ran in attempts], "result": job.result or {}}


def _flat(of: Struct, field: str) -> dict[str, Any]:
    """Returns a struct for JSON, with the fields of the struct in `field` among its own."""
    plain = as_plain(of)
    inner: dict[str, Any] = plain.pop(field)
    return inner | plain


def as_plain(of: Struct) -> dict[str, Any]:
    """Returns a struct for JSON: all fields, unknown ones and NaN as null, numbers with all digits, times in ISO 8601."""
    return {name: _plain(name, value) for name, value in structs.asdict(of).items() if value is not msgspec.UNSET}


def _plain(name: str, value: Any) -> Any:
    match value:
        case Struct():
            return as_plain(value)
        case float() if name in ("time", "started", "ended", "saved", "since"):
            return iso_ms(value)
        case tuple() | list():
            return [_plain("", item) for item in value]
        case dict() if name == "env":
            return mask(value)
        case dict():
            return {key: _plain("", item) for key, item in value.items()}
    return msgspec.to_builtins(value)


def iso_ms(time: float | None) -> str | None:
    """Formats Unix seconds in ISO 8601, UTC, with milliseconds."""
    if not time:
        return None
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _local(time: float | str | None, form: str) -> str:
    at = datetime.fromisoformat(time) if isinstance(time, str) else datetime.fromtimestamp(time or 0.0, UTC)
    return at.astimezone().strftime(form)
