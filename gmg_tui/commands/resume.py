"""`--resume`: continue a sweep, or a tuning, that has ended or was lost, in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import structs

from gmg_tui import interpreter
from gmg_tui import session as sessions
from gmg_tui.commands.checks import check_folder, check_queued, check_script
from gmg_tui.commands.messages import note
from gmg_tui.commands.prestart import PrestartedEngine
from gmg_tui.commands.run import start
from gmg_tui.commands.sweep import conclude, make_results, settings_of
from gmg_tui.errors import GmgError
from gmg_tui.model import RunSpec, Session, WorkerState
from gmg_tui.options import RUN, SWEEP, SWEEP_ONLY, TUNE_ONLY, Mark, Options
from gmg_tui.session import STORE, machine, recovery
from gmg_tui.sweep import dry_run
from gmg_tui.sweep.plan import changed


def resume(options: Options, given: Mapping[str, Any], *, engine: PrestartedEngine) -> int:
    """Continue the sweep called `options.resume`: jobs that have ended stay so, all others wait again.

    What the command line has (`given`) replaces the session's. The exit status is that of `sweep`.

    Raises:
        GmgError: There is no such sweep, it is running, or an option cannot be combined with `--resume`.
    """
    from gmg_tui.store.reader import load_jobs

    name = options.resume or ""
    check_given(name, given, SWEEP, "its name and jobs")
    fields = check_queued(options)
    upper = settings_of(
        {key: given.get(key) for key in ("gpus", "env", "per_gpu", "retries", "timeout", "min_free_mib")}
    )
    results = None if options.results is None else check_folder("--results", options.results)
    spec = session_of(name).spec
    if spec.sweep is None:
        raise GmgError(f"{name} is not a sweep; start it again with: gmg-tui {spec.script}")
    if spec.tune is not None:
        raise GmgError(f"{name} is a tuning; continue it with: gmg-tui tune --resume {name}")
    cpu = options.cpu if options.gpus is not None or options.cpu is not None else spec.cpu
    sweep = structs.replace(
        spec.sweep,
        batches=tuple(changed(batch, upper, cpu=cpu is not None) for batch in spec.sweep.batches),
        results=results or spec.sweep.results,
        best=options.best or spec.sweep.best,
        retry_failed=options.retry_failed,
    )
    spec = structs.replace(changed_spec(spec, fields, given), cpu=cpu, sweep=sweep)
    check_place(spec)
    jobs = load_jobs(Path(spec.folder) / STORE)
    if options.per_gpu not in (None, 1) and any(job.gpus > 1 for job in jobs):
        raise GmgError("--per-gpu: jobs that need several GPUs do not share them; leave it out")
    rerun = {WorkerState.FAILED} if options.retry_failed else set[WorkerState]()
    again = [job for job in jobs if not job.state.ended or job.state in rerun]
    if options.dry_run:
        dry_run.show(sweep.batches, again, total=len(jobs))
        return 0
    if not again:
        failed = any(job.state is WorkerState.FAILED for job in jobs)
        note(f"every job of {name} has ended{'; --retry-failed runs the failed ones again' if failed else ''}")
        return conclude(spec, 0)
    return start(options, lambda: prepare(spec), engine=engine, fresh=False, conclude=conclude)


def check_given(name: str, given: Mapping[str, Any], mark: Mark, fixed: str) -> None:
    """Raise `GmgError` where an option of the command line may not change; `fixed` is what it would change.

    `SWEEP` or `TUNE` marks those that may.
    """
    tables = (*RUN, *SWEEP_ONLY, *TUNE_ONLY)
    allowed = {opt.name for opt in tables if mark in opt.marks}
    flags = {opt.name: opt.long for opt in tables}
    other = {"script": "SCRIPT", "args": "its arguments", "words": "FILE", "is_script": "--script"}
    wrong = [flags.get(key) or other.get(key) or f"-{key[0]}" for key in sorted(given) if key not in allowed]
    if wrong:
        raise GmgError(f"--resume {name}: {fixed} cannot change; leave out {', '.join(wrong)}")


def session_of(name: str) -> Session:
    """The session to continue, which no engine runs. Raises `GmgError`."""
    recovery.clear(note)
    try:
        entry = sessions.inspect(sessions.sessions_folder() / sessions.check_name(name))
    except GmgError as error:
        raise GmgError(str(error).replace("--name", "--resume", 1)) from error
    if entry is None:
        raise GmgError(f"--resume {name}: there is no such session; gmg-tui ls lists them", 1)
    if entry.state == "running":
        raise GmgError(entry.away_text("stop") or f"{name} is running; open it with: gmg-tui attach {name}", 1)
    if entry.state == "lost" and entry.record.loss is None:
        host = entry.record.session.spec.host
        raise GmgError(f"{name} was lost and some of its processes are still running; try again on {host}", 1)
    return entry.record.session


def changed_spec(spec: RunSpec, fields: Mapping[str, Any], given: Mapping[str, Any]) -> RunSpec:
    """The session's spec with the changes of the command line, of which `fields` are the checked values."""
    named = [opt.spec_field for opt in RUN if opt.name in given and opt.spec_field in fields]
    changes = {field: fields[field] for field in named}
    if given.get("virtual_local_rank"):
        if spec.ddp is None:
            raise GmgError(f"--virtual-local-rank is for the ranks of a group, and {spec.name} has none")
        changes["ddp"] = structs.replace(spec.ddp, virtual_local_rank=True)
    return structs.replace(spec, **{**changes, "env": spec.env | fields["env"], "host": machine.name()})


def check_place(spec: RunSpec) -> None:
    """Raise `GmgError` unless all files that the jobs need exist."""
    if not Path(spec.cwd).is_dir():
        raise GmgError(f"{spec.name} ran in {spec.cwd}, which is gone; create it again", 1)
    interpreter.check_python(spec.python)
    for batch in spec.sweep.batches if spec.sweep is not None else ():
        check_script(batch.script if batch.module else str(Path(spec.cwd, batch.script)), batch.module)


def prepare(spec: RunSpec) -> RunSpec:
    """The spec with a socket. The session's folder is written only by an engine that holds its lock."""
    if spec.sweep is not None:
        make_results(spec.sweep.results)
    return structs.replace(spec, socket=str(sessions.socket_path(spec.name)))
