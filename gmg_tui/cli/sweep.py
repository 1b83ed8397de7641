"""`sweep`: queue the jobs of an experiments file on the slots, or continue an earlier sweep."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import structs

from gmg_tui import simulation
from gmg_tui.cli.attach import conclude
from gmg_tui.cli.launch import start
from gmg_tui.cli.prestart import PrestartedEngine
from gmg_tui.cli.printing import note
from gmg_tui.cli.run_spec import (
    alert_actions,
    check_queued,
    check_script,
    check_wait,
    describe,
    environment,
    groups_of,
    resumed,
)
from gmg_tui.jobs.argument_placeholders import as_text, fill, values_for
from gmg_tui.jobs.sweep import plan
from gmg_tui.jobs.sweep.settings import Settings, from_options, read, sets
from gmg_tui.model import JobRecord, RunSpec, Slot, SweepSpec, WorkerState, units
from gmg_tui.model.errors import GmgError
from gmg_tui.results import table as tables
from gmg_tui.results.column import Column
from gmg_tui.session import STORE, SUMMARY
from gmg_tui.session.options import Options, Program

_WHERE = ("slot", "gpu")
"""Placeholders filled in when a job starts."""
_SHARED = ("gpus", "ddp", "env", "per_gpu", "timeout", "best", "resume_args", "on")
"""Options that an experiments file may set, overriding `config.toml`, and overridden by the command line."""


def _settings(values: Mapping[str, Any]) -> Settings:
    """Returns the values of options as settings. Raises `GmgError`."""
    chosen = {name: values[name] for name in _SHARED if name in values}
    env, on = environment(tuple(chosen.get("env") or ())), alert_actions(tuple(chosen.get("on") or ()))
    return from_options({**chosen, "env": env, "on": on})


def sweep(options: Options, engine: PrestartedEngine, file: str | None, program: Program | None) -> int:
    """Runs the jobs of an experiments file or of the command line, or continues a sweep with `--resume`.

    Args:
        options: All options.
        engine: The engine's process.
        file: The experiments file.
        program: The jobs' program if there is no file; `--simulate` has neither.

    Returns:
        The exit status: 0 if all jobs have finished, 1 if one has failed, 130 if the user stopped it.

    Raises:
        GmgError: An option or the file is invalid, or the session cannot be started.
    """
    if options.resume is not None:
        return _resume(options, engine)
    if options.simulate is not None:
        file = str(simulation.SWEEP)
    if options.retry_failed:
        raise GmgError("--retry-failed needs --resume NAME")
    values = sets(options.sets)
    options = options.replace(env=options.given.get("env", ()), gpus=options.given.get("gpus"))
    fields = check_queued(options)
    upper, lower = _settings(options.given), _settings(options.below)
    if program is not None:
        upper = structs.replace(upper, script=program.script, args=program.args, module=program.module)
    settings = lower.under(Settings() if file is None else read(file)).under(upper)
    check_wait(options, settings.gpus_text)
    alert_actions(f"{kind}={action}" for kind, action in settings.on.items())
    made = plan.make(settings, file or "sweep", values, check_script)
    fields["ddp"] = groups_of(options, made.jobs)
    if made.warning:
        note(f"gmg-tui: {made.warning}")
    args = tuple(map(as_text, settings.args or ()))
    program = Program(settings.script or "", args, bool(settings.module))
    if options.dry_run:
        list_jobs(program, made.jobs, total=len(made.jobs))
        return 0
    sweep = SweepSpec(file=None if file is None else str(Path(file).absolute()))

    def make() -> RunSpec:
        spec = describe(options, fields, program, after=file, jobs=made.jobs)
        return plan.applied(structs.replace(spec, sweep=sweep), settings)

    return start(options, make, engine=engine)


def _resume(options: Options, engine: PrestartedEngine) -> int:
    """Continues the sweep `options.resume`: jobs that have not ended wait again; options replace the session's.

    Returns the exit status. Raises `GmgError`.
    """
    from gmg_tui.session.store.reader import load_jobs

    spec = resumed(options, "sweep", "its name and jobs").spec
    assert spec.sweep is not None
    cpu = None if options.gpus is not None else spec.cpu
    sweep = structs.replace(spec.sweep, retry_failed=options.retry_failed)
    spec = plan.applied(structs.replace(spec, cpu=cpu, sweep=sweep), _settings(options.given))
    jobs = load_jobs(Path(spec.folder) / STORE)
    if options.per_gpu not in (None, 1) and any(job.width > 1 for job in jobs):
        raise GmgError("--per-gpu: jobs on several GPUs cannot share them; leave it out")
    failed = any(job.state is WorkerState.FAILED for job in jobs)
    again = any(not job.state.ended for job in jobs) or (failed and options.retry_failed)
    if not again:
        note(f"every job of {spec.name} has ended{'; --retry-failed runs the failed ones again' if failed else ''}")
        if spec.summary is not None:
            with suppress(OSError):  # reported by `conclude`
                shutil.copyfile(Path(spec.folder) / SUMMARY, spec.summary)
        finished = all(job.state is WorkerState.FINISHED for job in jobs)
        return conclude(spec, 1 if failed else 0 if finished else 130, options.given.get("best"))
    return start(options, lambda: spec, engine=engine)


def list_jobs(program: Program, jobs: Sequence[JobRecord], *, total: int) -> None:
    """Prints the last jobs of `total` with their commands; those placeholders known before the start are filled in."""
    first = total - len(jobs)

    def command(job: JobRecord) -> str:
        values = values_for(Slot(""), first + job.number - 1, total, None)
        values = {name: value for name, value in values.items() if name not in _WHERE} | job.values
        values |= {"job": first + job.number, "name": job.name}
        module = ["-m"] if program.module else []
        return shlex.join(["python", *module, program.script, *(fill(arg, values) for arg in program.args)])

    columns = (
        Column[JobRecord]("job", lambda job: first + job.number),
        Column[JobRecord]("name", lambda job: job.name, left=True),
        Column[JobRecord]("command", command, left=True),
    )
    print("\n".join(tables.terminal(columns, jobs)))  # not cut to the terminal: commands are pasted
    print(units.count(len(jobs), "job"))
