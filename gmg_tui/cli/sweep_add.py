"""`sweep --add`: queue further jobs of a running sweep."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui.cli.printing import note
from gmg_tui.cli.run_spec import check_given
from gmg_tui.cli.sweep import list_jobs
from gmg_tui.jobs.argument_placeholders import as_text, names_in
from gmg_tui.jobs.sweep import plan
from gmg_tui.jobs.sweep.settings import Settings, read, sets
from gmg_tui.model import JobRecord, RunSpec, Session, units
from gmg_tui.model.errors import GmgError
from gmg_tui.session import STORE
from gmg_tui.session.client import EngineClient, answering
from gmg_tui.session.options import Options, Program
from gmg_tui.session.store.reader import load_jobs

_GIVEN = ("add", "sets", "dry_run", "words", "is_script", "module")
_JOBS = ("script", "module", "args", "env", "ddp", "grid", "defaults", "experiment")
"""Keys of an experiments file that describe jobs, not the session."""
_BATCH = 200
"""Jobs per request, whose size is limited."""


def sweep_add(options: Options, file: str | None, program: Program | None) -> int:
    """Adds the jobs of `--set`, an experiments file, or a script with arguments to the sweep `options.add`.

    Defaults are the sweep's arguments, its environment, and each value that all its jobs share. Returns the exit status.

    Raises:
        GmgError: No such sweep runs, it runs another script, or the jobs are invalid.
    """
    check_given(options, _GIVEN, f"--add {options.add}: the session's options cannot change")
    values = sets(options.sets)
    if not values and file is None and program is None:
        raise GmgError(f"--add {options.add}: give --set KEY=V1,V2, or a FILE")
    entry = sessions.find(options.add, running=False)
    session = entry.record.session
    spec = session.spec
    if spec.sweep is None or spec.tune is not None:
        raise GmgError(f"{spec.name} is not a sweep; --add needs a running one", 1)
    if entry.state != "running" or entry.away:
        raise GmgError(entry.remark or f"{spec.name} has ended; start another sweep", 1)
    given = Settings() if file is None else read(file)
    if program is not None:
        given = Settings(script=program.script, args=program.args, module=program.module)
    if other := [key for key in given.__struct_fields__ if key not in _JOBS and getattr(given, key)]:
        note(f"gmg-tui: {file}: {', '.join(other)}: the session keeps its own")
    if given.script is not None and _path(given.script, Path()) != _path(spec.script, Path(spec.cwd)):
        raise GmgError(f"{spec.name} runs {spec.script}, not {given.script}; start a sweep of its own", 1)
    before = load_jobs(Path(spec.folder) / STORE)
    settings = _of_session(spec, before).under(given)
    texts = (*map(as_text, settings.args or ()), *map(as_text, settings.env.values()), str(settings.ddp))
    used = {*given.defaults, *(name for text in texts for name in names_in(text))}
    defaults = {name: value for name, value in settings.defaults.items() if name in used}
    settings = structs.replace(settings, script=spec.script, module=spec.module, defaults=defaults)
    taken = {job.name for job in before}
    made = plan.make(settings, file or f"--add {spec.name}", values, lambda *_: None, taken)
    if len(before) + len(made.jobs) > plan.MAX_JOBS:
        raise GmgError(f"{spec.name} has {len(before):,} jobs; a sweep has at most {plan.MAX_JOBS:,}")
    if made.warning:
        note(f"gmg-tui: {made.warning}")
    args = tuple(map(as_text, settings.args or ()))
    env = {name: as_text(value) for name, value in settings.env.items()}
    jobs = made.jobs
    if (args, env) != (spec.args, spec.env):
        jobs = tuple(structs.replace(job, args=args, env=env) for job in jobs)
    if options.dry_run:
        list_jobs(Program(spec.script, args, spec.module), jobs, total=len(before) + len(jobs))
        return 0
    asyncio.run(_add(session, jobs))
    print(f"{units.count(len(jobs), 'job')} added to {spec.name}")
    return 0


def _path(script: str, folder: Path) -> Path:
    """Returns the resolved path of a script, or a module's name, for comparison."""
    return Path(folder, script).resolve() if Path(folder, script).exists() else Path(script)


def _of_session(spec: RunSpec, jobs: Sequence[JobRecord]) -> Settings:
    """Returns the settings of a sweep, with the values shared by all jobs with its arguments as defaults."""
    first, *others = jobs = [job for job in jobs if job.args is None]
    shared = {key: value for key, value in first.values.items() if all(job.values.get(key) == value for job in others)}
    ranks: int | str | None = first.world_size
    if any(job.world_size != ranks for job in others):
        ranks = next(f"{{{key}}}" for key in first.values if all(job.values[key] == job.world_size for job in jobs))
    return Settings(args=spec.args, env=dict(spec.env), ddp=ranks, defaults=shared)


async def _add(session: Session, jobs: Sequence[JobRecord]) -> None:
    client = await EngineClient.connect(Path(session.spec.socket), session.id)
    async with answering(client):
        for first in range(0, len(jobs), _BATCH):
            await client.add_jobs(*jobs[first : first + _BATCH])
