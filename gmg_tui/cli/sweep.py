"""`sweep`: queue jobs on the slots, continue an earlier sweep, or add jobs to a running one."""

import asyncio
import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui import simulation
from gmg_tui.cli import run_spec
from gmg_tui.cli.attach import conclude
from gmg_tui.cli.launch import start
from gmg_tui.cli.prestart import PrestartedEngine
from gmg_tui.cli.printing import note
from gmg_tui.jobs.argument_placeholders import as_text, fill, names_in, values_for
from gmg_tui.jobs.sweep import plan
from gmg_tui.jobs.sweep.settings import Settings, from_options, parse_sets, read
from gmg_tui.machine.files import open_for_reading, write_atomic
from gmg_tui.machine.folders import OpenFolder
from gmg_tui.model import JobRecord, RunSpec, Session, Slot, SweepSpec, WorkerState, units
from gmg_tui.model.errors import GmgError
from gmg_tui.results import table as tables
from gmg_tui.results.column import Column
from gmg_tui.session.client import EngineClient, answering
from gmg_tui.session.options import Options, Program
from gmg_tui.session.store.reader import load_jobs

_SLOT_PLACEHOLDERS = ("slot", "gpu")
"""Placeholders filled in when a job starts."""
_FILE_OPTIONS = ("gpus", "ddp", "env", "per_gpu", "timeout", "best", "resume_args", "on")
"""Options that an experiments file may set, overriding `config.toml`; the command line overrides both."""
_ADD_OPTIONS = ("add", "sets", "dry_run", "words", "is_script", "module")
"""Options and arguments of `sweep` that go with `--add`."""
_JOB_KEYS = ("script", "module", "args", "env", "ddp", "grid", "defaults", "experiment")
"""Keys of an experiments file that describe jobs, not the session."""
_MAX_JOBS_PER_REQUEST = 200
"""Maximum jobs in a request, whose size is limited."""


def _option_settings(values: Mapping[str, Any]) -> Settings:
    """Returns the options that an experiments file may also set, as settings. Raises `GmgError`."""
    chosen = {name: values[name] for name in _FILE_OPTIONS if name in values}
    env = run_spec.parse_env(tuple(chosen.get("env") or ()))
    on = run_spec.parse_alert_actions(chosen.get("on") or ())
    return from_options({**chosen, "env": env, "on": on})


def sweep(options: Options, engine: PrestartedEngine, file: str | None, program: Program | None) -> int:
    """Runs the jobs of an experiments file or a program, or continues a sweep with `--resume`. Raises `GmgError`.

    Returns the exit status: 0 if all jobs have finished, 1 if one has failed, 130 if the user stopped the sweep.
    """
    if options.resume is not None:
        return _resume(options, engine)
    if options.simulate is not None:
        file = str(simulation.SWEEP)
    if options.retry_failed:
        raise GmgError("--retry-failed needs --resume NAME")
    values = parse_sets(options.sets)
    options = options.replace(env=options.given.get("env", ()), gpus=options.given.get("gpus"))
    fields = run_spec.check_queue_options(options)
    given, configured = _option_settings(options.given), _option_settings(options.configured)
    if program is not None:
        given = structs.replace(given, script=program.script, args=program.args, module=program.module)
    settings = configured.overridden_by(Settings() if file is None else read(file)).overridden_by(given)
    run_spec.check_wait(options, settings.gpus_text)
    run_spec.parse_alert_actions(f"{kind}={action}" for kind, action in settings.on.items())
    planned = plan.make(settings, file or "sweep", values, run_spec.check_script)
    fields["ddp"] = run_spec.sweep_ddp(options, planned.jobs)
    if planned.warning:
        note(f"gmg-tui: {planned.warning}")
    args = tuple(map(as_text, settings.args or ()))
    program = Program(settings.script or "", args, bool(settings.module))
    if options.dry_run:
        list_jobs(program, planned.jobs, total=len(planned.jobs))
        return 0
    sweep_spec = SweepSpec(file=None if file is None else str(Path(file).absolute()))

    def create_spec() -> tuple[RunSpec, OpenFolder]:
        spec, folder = run_spec.create_session(options, fields, program, named_after=file, jobs=planned.jobs)
        return plan.apply(structs.replace(spec, sweep=sweep_spec), settings), folder

    return start(options, create_spec, engine=engine)


def _resume(options: Options, engine: PrestartedEngine) -> int:
    """Continues the sweep `options.resume`, queueing its unfinished jobs again; given options replace the session's.

    Returns the exit status. Raises `GmgError`.
    """
    spec = run_spec.load_for_resume(options, "sweep", "its name and jobs").spec
    assert spec.sweep is not None
    cpu = None if options.gpus is not None else spec.cpu
    sweep_spec = structs.replace(spec.sweep, retry_failed=options.retry_failed)
    spec = plan.apply(structs.replace(spec, cpu=cpu, sweep=sweep_spec), _option_settings(options.given))
    jobs = load_jobs(Path(spec.folder) / sessions.STORE)
    if options.per_gpu not in (None, 1) and any(job.width > 1 for job in jobs):
        raise GmgError("--per-gpu: jobs on several GPUs cannot share them; leave it out")
    failed = any(job.state is WorkerState.FAILED for job in jobs)
    has_jobs_to_run = any(not job.state.ended for job in jobs) or (failed and options.retry_failed)
    if not has_jobs_to_run:
        note(f"every job of {spec.name} has ended{'; --retry-failed runs the failed ones again' if failed else ''}")
        if spec.summary is not None:
            with (
                suppress(OSError),
                open_for_reading(Path(spec.folder) / sessions.SUMMARY) as file,
            ):  # reported by `conclude`
                write_atomic(Path(spec.summary), file)
        finished = all(job.state is WorkerState.FINISHED for job in jobs)
        return conclude(spec, 1 if failed else 0 if finished else 130, options.given.get("best"))
    return start(options, lambda: (spec, None), engine=engine)


def list_jobs(program: Program, jobs: Sequence[JobRecord], *, total: int) -> None:
    """Prints `jobs`, the last of `total`, with their commands; placeholders known before the start are filled in."""
    offset = total - len(jobs)

    def command(job: JobRecord) -> str:
        values = values_for(Slot(""), offset + job.number - 1, total, None)
        values = {name: value for name, value in values.items() if name not in _SLOT_PLACEHOLDERS} | job.values
        values |= {"job": offset + job.number, "name": job.name}
        module = ["-m"] if program.module else []
        return shlex.join(["python", *module, program.script, *(fill(arg, values) for arg in program.args)])

    columns = (
        Column[JobRecord]("job", lambda job: offset + job.number),
        Column[JobRecord]("name", lambda job: job.name, align_left=True),
        Column[JobRecord]("command", command, align_left=True),
    )
    print("\n".join(tables.render_lines(columns, jobs)))  # not truncated: users copy the commands
    print(units.count(len(jobs), "job"))


def add(options: Options, file: str | None, program: Program | None) -> int:
    """Adds the jobs of `--set`, an experiments file, or a script with arguments to the sweep `options.add`.

    Defaults are the sweep's arguments, its environment and the values shared by all its jobs. Returns the exit
    status. Raises `GmgError`.
    """
    run_spec.check_given_options(options, _ADD_OPTIONS, f"--add {options.add}: the session's options cannot change")
    values = parse_sets(options.sets)
    if not values and file is None and program is None:
        raise GmgError(f"--add {options.add}: give --set KEY=V1,V2, or a FILE")
    entry = sessions.find(options.add, running=False)
    session = entry.record.session
    spec = session.spec
    if spec.command != "sweep":
        raise GmgError(f"{spec.name} is not a sweep; --add needs a running one", 1)
    if not entry.runs_here:
        raise GmgError(entry.remark or f"{spec.name} has ended; start another sweep", 1)
    added = Settings() if file is None else read(file)
    if program is not None:
        added = Settings(script=program.script, args=program.args, module=program.module)
    if ignored := [key for key in added.__struct_fields__ if key not in _JOB_KEYS and getattr(added, key)]:
        note(f"gmg-tui: {file}: {', '.join(ignored)}: the session keeps its own")
    if added.script is not None and _resolve_script(added.script, Path()) != _resolve_script(
        spec.script, Path(spec.cwd)
    ):
        raise GmgError(f"{spec.name} runs {spec.script}, not {added.script}; start another sweep for that", 1)
    existing_jobs = load_jobs(Path(spec.folder) / sessions.STORE)
    settings = _session_settings(spec, existing_jobs).overridden_by(added)
    texts = (*map(as_text, settings.args or ()), *map(as_text, settings.env.values()), str(settings.ddp))
    used_names = {*added.defaults, *(name for text in texts for name in names_in(text))}
    defaults = {name: value for name, value in settings.defaults.items() if name in used_names}
    settings = structs.replace(settings, script=spec.script, module=spec.module, defaults=defaults)
    taken_names = {job.name for job in existing_jobs}
    planned = plan.make(settings, file or f"--add {spec.name}", values, lambda *_: None, taken_names)
    if len(existing_jobs) + len(planned.jobs) > plan.MAX_JOBS:
        raise GmgError(f"{spec.name} has {len(existing_jobs):,} jobs; a sweep has at most {plan.MAX_JOBS:,}")
    if planned.warning:
        note(f"gmg-tui: {planned.warning}")
    args = tuple(map(as_text, settings.args or ()))
    env = {name: as_text(value) for name, value in settings.env.items()}
    jobs = planned.jobs
    if (args, env) != (spec.args, spec.env):
        jobs = tuple(structs.replace(job, args=args, env=env) for job in jobs)
    if options.dry_run:
        list_jobs(Program(spec.script, args, spec.module), jobs, total=len(existing_jobs) + len(jobs))
        return 0
    asyncio.run(_add(session, jobs))
    print(f"{units.count(len(jobs), 'job')} added to {spec.name}")
    return 0


def _resolve_script(script: str, folder: Path) -> Path:
    """Returns the resolved path of a script, or a module's name, for comparison."""
    return Path(folder, script).resolve() if os.path.exists(Path(folder, script)) else Path(script)


def _session_settings(spec: RunSpec, jobs: Sequence[JobRecord]) -> Settings:
    """Returns a sweep's settings; defaults are the values shared by all jobs, ignoring those with own arguments."""
    first, *others = jobs = [job for job in jobs if job.args is None] or jobs
    shared = {key: value for key, value in first.values.items() if all(job.values.get(key) == value for job in others)}
    ranks: int | str | None = first.world_size
    if any(job.world_size != ranks for job in others):
        named = (key for key in first.values if all(job.values.get(key) == job.world_size for job in jobs))
        ranks = next((f"{{{key}}}" for key in named), ranks)
    return Settings(args=spec.args, env=dict(spec.env), ddp=ranks, defaults=shared)


async def _add(session: Session, jobs: Sequence[JobRecord]) -> None:
    client = await EngineClient.connect(Path(session.spec.socket), session.id)
    async with answering(client):
        for first in range(0, len(jobs), _MAX_JOBS_PER_REQUEST):
            await client.add_jobs(*jobs[first : first + _MAX_JOBS_PER_REQUEST])
