"""`sweep`: queue the jobs of an experiments file on the slots, or continue with those of an earlier sweep."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui import simulation, tables, units
from gmg_tui.columns import Column
from gmg_tui.commands.interactive import conclude
from gmg_tui.commands.launch import start
from gmg_tui.commands.messages import note
from gmg_tui.commands.prestart import PrestartedEngine
from gmg_tui.commands.resume import changed_spec, prepare, session_of
from gmg_tui.commands.spec import (
    check_queued,
    check_script,
    describe,
    environment,
    groups_of,
    with_store,
)
from gmg_tui.errors import GmgError
from gmg_tui.model import Batch, JobRecord, RunSpec, Slot, SlotKind, SweepSpec, WorkerState
from gmg_tui.options import SWEEP, Options, Program
from gmg_tui.placeholders import fill, values_for
from gmg_tui.session import STORE
from gmg_tui.sweep import plan
from gmg_tui.sweep.settings import Settings, from_options, read, sets

_BARE = re.compile(r"[\w@%+=:,./{}-]+", re.ASCII)
_WHERE = ("slot", "gpu")
"""Placeholders that get their values when a job starts."""
_SHARED = ("gpus", "ddp", "env", "per_gpu", "retries", "repeat", "timeout", "min_free_mib", "out_dir", "best")
"""Options that an experiments file may set too: it overrides `config.toml`, and the command line overrides it."""


def _settings(values: Mapping[str, Any]) -> Settings:
    """The settings that the values of options make. Raises `GmgError`."""
    chosen = {name: values[name] for name in _SHARED if name in values}
    return from_options({**chosen, "env": environment(tuple(chosen.get("env") or ()))})


def sweep(options: Options, engine: PrestartedEngine, file: str | None, program: Program | None) -> int:
    """Have `engine` run the jobs that an experiments file, or the command line alone, describes.

    Args:
        options: All options.
        engine: The engine's process.
        file: The experiments file.
        program: What the jobs run where there is no file; neither is given with `--simulate`.

    Returns:
        The exit status: 0 when all jobs have finished, 1 when one failed, 130 when the user stopped it.

    Raises:
        GmgError: An option or the file is invalid, or the session cannot be started.
    """
    if options.simulate is not None:
        file = str(simulation.SWEEP)
    if options.retry_failed:
        raise GmgError("--retry-failed needs --resume NAME")
    values = sets(options.sets)
    options = options.replace(env=options.given.get("env", ()), gpus=options.given.get("gpus"))
    fields = check_queued(options)
    upper, lower = _settings(options.given), _settings(options.below)
    top, chosen = Settings(), [("", Settings())]
    if program is not None:
        upper = structs.replace(upper, script=program.script, args=program.args, module=program.module)
    if file is not None:
        top = source = read(file)
        chosen = plan.choose(file, source, options.presets, every=options.all_presets)
    elif options.presets or options.all_presets:
        raise GmgError("--preset and --all choose presets of a file; give a FILE")
    settings = [(name, lower.under(preset).under(upper)) for name, preset in chosen]
    made = plan.make(settings, file or "sweep", values, check_script, cpu=options.cpu is not None)
    # The session's settings come from the only preset, or else from the file's top level.
    whole = settings[0][1] if len(settings) == 1 else lower.under(top).under(upper)
    fields["ddp"] = groups_of(options, made.jobs)
    after = file
    if whole.name is not None:
        after = f"{_checked_name(whole.name, file)}.toml"
        if options.name is None and not (sessions.sessions_folder() / whole.name).exists():
            options = options.replace(name=whole.name)
    for warning in made.warnings:
        note(f"gmg-tui: {warning}")
    if options.dry_run:
        _list_jobs(made.batches, made.jobs, total=len(made.jobs))
        return 0
    first = made.batches[0]
    sweep = SweepSpec(made.batches, None if file is None else str(Path(file).absolute()), whole.best)

    def make() -> RunSpec:
        spec = describe(options, fields, Program(first.script, first.args, first.module), after=after)
        return with_store(structs.replace(spec, gpus=None, sweep=sweep), made.jobs)

    return start(options, make, engine=engine)


def _checked_name(name: str, file: str | None) -> str:
    """The session's name in the file. Raises `GmgError`."""
    try:
        return sessions.check_name(name)
    except GmgError as error:
        raise GmgError(f"{file}: {str(error).removeprefix('--')}") from error


def resume(options: Options, engine: PrestartedEngine) -> int:
    """Continue the sweep called `options.resume`: jobs that have ended stay so, all others wait again.

    What the command line has replaces the session's. The exit status is that of `sweep`.

    Raises:
        GmgError: There is no such sweep, it is running, or an option cannot be combined with `--resume`.
    """
    from gmg_tui.store.reader import load_jobs

    fields = check_queued(options)
    spec = session_of(options, SWEEP, "its name and jobs").spec
    upper = _settings(options.given)
    if spec.sweep is None:
        raise GmgError(f"{spec.name} is not a sweep; start it again with: gmg-tui {spec.script}")
    if spec.tune is not None:
        raise GmgError(f"{spec.name} is a tuning; continue it with: gmg-tui tune --resume {spec.name}")
    cpu = options.cpu if options.gpus is not None or options.cpu is not None else spec.cpu
    sweep = structs.replace(
        spec.sweep,
        batches=tuple(plan.changed(batch, upper, cpu=cpu is not None) for batch in spec.sweep.batches),
        best=options.best or spec.sweep.best,
        retry_failed=options.retry_failed,
    )
    spec = structs.replace(changed_spec(spec, fields, options), cpu=cpu, sweep=sweep)
    jobs = load_jobs(Path(spec.folder) / STORE)
    if options.per_gpu not in (None, 1) and any(job.gpus > 1 for job in jobs):
        raise GmgError("--per-gpu: jobs that need several GPUs do not share them; leave it out")
    rerun = {WorkerState.FAILED} if options.retry_failed else set[WorkerState]()
    again = [job for job in jobs if not job.state.ended or job.state in rerun]
    if options.dry_run:
        _list_jobs(sweep.batches, again, total=len(jobs))
        return 0
    if not again:
        failed = any(job.state is WorkerState.FAILED for job in jobs)
        note(f"every job of {spec.name} has ended{'; --retry-failed runs the failed ones again' if failed else ''}")
        return conclude(spec, 0)
    return start(options, lambda: prepare(spec), engine=engine)


def _list_jobs(batches: Sequence[Batch], jobs: Sequence[JobRecord], *, total: int) -> None:
    """Print the jobs, their number, and each one's command with every placeholder filled in that has a value before the start.

    `total` is how many jobs the sweep has (`{n}`).
    """
    columns = (
        Column[JobRecord]("job", lambda job: job.number),
        Column[JobRecord]("name", lambda job: job.name, left=True),
        Column[JobRecord]("command", lambda job: _command(batches[job.batch], job, total), left=True),
    )
    print("\n".join(tables.terminal(columns, jobs)))  # whole commands, to be pasted
    sizes = Counter(job.batch for job in jobs)
    each = ", ".join(f"{batch.name} {sizes[number]:,}" for number, batch in enumerate(batches))
    print(units.count(len(jobs), "job") + (f": {each}" if len(batches) > 1 else ""))


def _command(batch: Batch, job: JobRecord, total: int) -> str:
    values_of_slot = values_for(Slot("", SlotKind.CPU), job.number - 1, total, None)
    values = {**{name: value for name, value in values_of_slot.items() if name not in _WHERE}, **job.values}
    values |= {"job": job.number, "name": job.name}
    if job.only is not None:
        values["slot"] = job.only
    if batch.out_dir is not None:
        values["out_dir"] = fill(batch.out_dir, values)
    env = [f"{name}={_quoted(fill(value, values))}" for name, value in batch.env.items()]
    words = ["python", *(["-m"] if batch.module else []), batch.script, *(fill(arg, values) for arg in batch.args)]
    return " ".join([*env, *map(_quoted, words)])


def _quoted(word: str) -> str:
    """`word` as a shell would read it; placeholders keep their braces unquoted."""
    return word if _BARE.fullmatch(word) else shlex.quote(word)
