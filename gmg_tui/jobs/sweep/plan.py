"""Makes a sweep's jobs from its settings."""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from gmg_tui.jobs.argument_placeholders import CHECKPOINT_NAMES, as_text, names_in
from gmg_tui.jobs.sweep.settings import BUILT_IN, MAX_NAME_BYTES, Settings, as_storable, safe_name
from gmg_tui.model import AlertAction, JobRecord, RunSpec, SweepSpec, Value
from gmg_tui.model.errors import GmgError, join_words, suggest

MAX_JOBS = 100_000
_Grid = Mapping[str, tuple[Value, ...]]
_ScriptCheck = Callable[[str, bool], None]


class Plan(NamedTuple):
    """The jobs of a sweep, and a warning for the user; empty if there is none."""

    jobs: tuple[JobRecord, ...]
    warning: str = ""


class _Draft(NamedTuple):
    """A job without a number, its name not yet unique."""

    name: str
    values: dict[str, Value]
    place: str
    """The job's place in the settings, to append to a message, such as ` in the grid`."""


def make(
    settings: Settings, source: str, sets: _Grid, check_script: _ScriptCheck, taken_names: Iterable[str] = ()
) -> Plan:
    """Makes the jobs from the settings and the values of `--set`, with names not in `taken_names`. Raises `GmgError`.

    `source` names the settings in messages. `check_script(script, is_module)` raises `GmgError` if it cannot be run.
    """
    if settings.script is None:
        raise GmgError(f'{source}: script is missing; give script = "sim.py" in the file, or --script SCRIPT')
    check_script(settings.script, bool(settings.module))
    if (settings.per_gpu or 1) > 1 and settings.ddp not in (None, 1):
        raise GmgError(f"{source}: jobs on several GPUs cannot share them; remove per_gpu")
    texts = {f"args[{number}]": as_text(arg) for number, arg in enumerate(settings.args or (), 1)}
    texts |= {f"env.{key}": as_text(value) for key, value in settings.env.items()} | {"ddp": str(settings.ddp)}
    texts |= {"resume_args": " ".join(settings.resume_words or ())}
    used = [(key, name) for key, text in texts.items() for name in names_in(text)]
    used = [(key, name) for key, name in used if key != "resume_args" or name not in CHECKPOINT_NAMES]
    drafts = list(_drafts(settings, source, sets))
    for draft in drafts:
        for key, name in used:
            if name not in draft.values and (name not in BUILT_IN or key == "ddp"):
                hint = suggest(name, draft.values) or f"; available: {join_words([*sorted(draft.values), *BUILT_IN])}"
                braces = f"for literal braces, write {{{{{name}}}}}"
                raise GmgError(f"{source}: {key}: {{{name}}} has no value{draft.place}{hint}; {braces}")
    named = enumerate(zip(_make_unique((draft.name for draft in drafts), taken_names), drafts, strict=True), 1)
    jobs = tuple(
        JobRecord(number, name, values=draft.values, world_size=_ranks(settings.ddp, draft.values, source))
        for number, (name, draft) in named
    )
    filled_in = {name for _, name in used}
    unused = [name for name in dict.fromkeys(name for job in jobs for name in job.values) if name not in filled_in]
    if not unused:
        return Plan(jobs)
    return Plan(
        jobs, f"{source}: no placeholder uses {join_words(unused)}; write {{{unused[0]}}} where jobs should get it"
    )


def apply(spec: RunSpec, settings: Settings) -> RunSpec:
    """Returns the spec of a new or resumed sweep, with the values of `settings` that concern the session."""
    limits: dict[str, Any] = {key: item for key in ("per_gpu", "best") if (item := getattr(settings, key)) is not None}
    if settings.timeout is not None:
        limits["timeout_s"] = None if settings.timeout_s == math.inf else settings.timeout_s
    return structs.replace(
        spec,
        resume_args=spec.resume_args if settings.resume_words is None else settings.resume_words,
        gpus=None if spec.cpu is not None else settings.gpus_text or spec.gpus,
        env=spec.env | {name: as_text(value) for name, value in settings.env.items()},
        on=spec.on | {kind: AlertAction(action) for kind, action in settings.on.items()},
        sweep=structs.replace(spec.sweep or SweepSpec(), **limits),
    )


def _drafts(settings: Settings, source: str, sets: _Grid) -> Iterator[_Draft]:
    """Yields the grid's jobs, the last key varying fastest, then the experiments'. Raises `GmgError` for too many."""
    experiments = settings.experiment or ()
    fixed = {key: values[0] for key, values in sets.items() if len(values) == 1}

    def make_draft(name: str, values: dict[str, Value], place: str) -> _Draft:
        values |= fixed
        values |= {key: value for key, value in settings.defaults.items() if key not in values}
        return _Draft(name, {key: as_storable(value) for key, value in values.items()}, place)

    if len(experiments) > MAX_JOBS:
        raise GmgError(f"{source} has {len(experiments):,} experiments; give at most {MAX_JOBS:,}")
    # Without a grid, single values of --set change the experiments and add no job.
    if settings.grid or len(fixed) < len(sets) or not experiments:
        grid = {**(settings.grid or {}), **sets}
        size = math.prod(map(len, grid.values())) + len(experiments)
        if size > MAX_JOBS:
            raise GmgError(f"{source}: the grid makes {size:,} jobs; give fewer values: at most {MAX_JOBS:,} jobs")
        varied = [key for key, values in grid.items() if len(values) > 1] or list(grid)
        for combination in itertools.product(*grid.values()):
            values = dict(zip(grid, combination, strict=True))
            name = ",".join(f"{key}={safe_name(as_text(values[key]))}" for key in varied)
            yield make_draft(name or _script_name(settings), values, " in the grid")
    for number, table in enumerate(experiments, 1):
        name = safe_name(as_text(table.get("name", f"experiment-{number}")))
        values = {key: value for key, value in table.items() if key != "name"}
        yield make_draft(name, values, f" in experiment {number}")


def _ranks(ddp: int | str | None, values: Mapping[str, Value], source: str) -> int | None:
    """Returns a job's number of ranks; None without `ddp`."""
    if not isinstance(ddp, str):
        return ddp
    value = values[ddp[1:-1]]
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1024:
        raise GmgError(f"{source}: ddp: {ddp} is {value}; give it whole numbers from 1 to 1024")
    return value


def _script_name(settings: Settings) -> str:
    script = settings.script or ""
    stem = script.rpartition(".")[2] if settings.module else Path(script).stem
    return safe_name(stem).lstrip(".-=,+") or "job"


def _make_unique(names: Iterable[str], taken_names: Iterable[str]) -> Iterator[str]:
    """Yields the names, cut if too long, and numbered if taken already."""
    taken, tries = set(taken_names), Counter[str]()
    for full_name in names:
        wanted = name = _cut(full_name, MAX_NAME_BYTES)
        while name in taken:
            tries[wanted] += 1
            number = f"-{tries[wanted] + 1}"
            name = _cut(wanted, MAX_NAME_BYTES - len(number)) + number
        taken.add(name)
        yield name


def _cut(name: str, limit_bytes: int) -> str:
    return name.encode()[:limit_bytes].decode(errors="ignore")
