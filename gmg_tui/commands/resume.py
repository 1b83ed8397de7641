"""`sweep --resume`: a sweep that has ended, or was lost, goes on in its folder."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from msgspec import structs

from gmg_tui import lost
from gmg_tui import session as sessions
from gmg_tui.commands.options import Checked, RunOptions, check_folder, check_module, check_queued, check_script
from gmg_tui.commands.run import start
from gmg_tui.commands.sweep import conclude, make_results, show_jobs
from gmg_tui.commands.tell import tell
from gmg_tui.errors import GmgError
from gmg_tui.genesis import interpreter
from gmg_tui.model import Job, JobRecord, RestartWhen, RunSpec, StartWay, SweepSpec, WorkerState
from gmg_tui.session import STORE, Found
from gmg_tui.sweep.overlay import SweepOptions, overlay
from gmg_tui.sweep.part import changed
from gmg_tui.sweep.settings import Settings

_FIXED = {
    "script": "--script",
    "module": "--module",
    "sets": "--set",
    "args": "--args",
    "words": "arguments after --",
    "out_dir": "--out-dir",
    "presets": "--preset",
    "all_presets": "--all",
}
"""What made the jobs, which stay as they are."""
_FIELDS = {
    "interval": "interval_s",
    "restart_stuck": "restart_stuck",
    "max_restarts": "max_restarts",
    "stuck_after": "stuck_after_s",
    "sigint_wait": "sigint_wait_s",
    "sigterm_wait": "sigterm_wait_s",
}
"""Options that go into the `RunSpec` as they are, and where."""


def resume(file: str | None, options: RunOptions, own: SweepOptions, given: frozenset[str]) -> int:
    """Go on with the sweep called `own.resume`: what has ended stays, all other jobs wait again.

    Args:
        file: An experiments' file, which there must not be.
        options: The options that `run` has too; those that are given replace what the session had.
        own: Those that only a sweep has.
        given: The fields of `options` that the command line gives.

    Returns:
        The exit status, as of `sweep`.

    Raises:
        GmgError: There is no such sweep, it runs, or an option does not go with it.
    """
    from gmg_tui.store.reader import load_jobs

    _check_options(file, options, own)
    checked = check_queued(options)
    upper = overlay(own, gpus=options.gpus, env=checked.env)
    results = None if own.results is None else check_folder("--results", own.results)
    name = own.resume or ""
    lost.clear(tell)
    found = _found(name)
    spec = found.record.session.spec
    if spec.sweep is None:
        raise GmgError(f"{name} is no sweep; start it again with: gmg-tui {spec.script}")
    store = found.folder / STORE
    if not store.is_file():
        raise GmgError(f"{name} has no store ({store}); its jobs are not known: start the sweep again", 1)
    cpu = options.cpu if options.gpus is not None or options.cpu is not None else spec.cpu
    sweep = _sweep(spec.sweep, upper, results, cpu=cpu is not None)
    spec = structs.replace(_changed(spec, options, checked, given), cpu=cpu, sweep=sweep)
    _check_place(spec, sweep)
    jobs = load_jobs(store)
    again = [job for job in jobs if _waits(job, own)]
    if own.dry_run:
        left = tuple(Job(job.number, job.name, job.group, job.values) for job in again)
        show_jobs(sweep.groups, left, total=len(jobs), cpu=cpu)
        return 0
    if not again:
        failed = any(job.state is WorkerState.FAILED for job in jobs)
        tell(f"every job of {name} has ended{'; --retry-failed runs the failed ones again' if failed else ''}")
        return conclude(spec, 0)
    return start(options, lambda: _prepare(spec, store, again), fresh=False, conclude=conclude)


def _check_options(file: str | None, options: RunOptions, own: SweepOptions) -> None:
    wrong = [option for field, option in _FIXED.items() if getattr(own, field)]
    wrong += ["FILE"] * (file is not None) + ["--name"] * (options.name is not None)
    if wrong:
        raise GmgError(f"--resume {own.resume}: its name and jobs stay as they are; leave out {', '.join(wrong)}")


def _found(name: str) -> Found:
    """The session to go on with, which nobody runs. Raises `GmgError`."""
    try:
        found = sessions.look(sessions.sessions_folder() / sessions.check_name(name))
    except GmgError as error:
        raise GmgError(str(error).replace("--name", "--resume", 1)) from error
    if found is None:
        raise GmgError(f"--resume {name}: there is no such session; `gmg-tui ls` shows those that there are", 1)
    if found.state == "running":
        raise GmgError(f"{name} runs; look at it with: gmg-tui attach {name}", 1)
    if found.state == "lost" and found.record.loss is None:
        host = found.record.session.spec.host
        raise GmgError(f"{name} was lost and not all of its processes have ended; try again, on {host}", 1)
    return found


def _changed(spec: RunSpec, options: RunOptions, checked: Checked, given: frozenset[str]) -> RunSpec:
    """The session's spec with what the command line says instead."""
    changes: dict[str, Any] = {field: getattr(options, name) for name, field in _FIELDS.items() if name in given}
    if options.start is not None:
        changes["start"] = StartWay(options.start)
    if "restart" in given:
        changes["restart"] = RestartWhen(options.restart)
    if options.python is not None:
        changes["python"] = checked.python
    if options.summary is not None:
        changes["summary"] = checked.summary
    changes["env"] = spec.env | checked.env
    changes["host"] = os.uname().nodename
    return structs.replace(spec, **changes)


def _sweep(sweep: SweepSpec, upper: Settings, results: str | None, *, cpu: bool) -> SweepSpec:
    return structs.replace(
        sweep,
        groups=tuple(changed(group, upper, cpu=cpu) for group in sweep.groups),
        results=results or sweep.results,
        best=upper.best or sweep.best,
    )


def _check_place(spec: RunSpec, sweep: SweepSpec) -> None:
    """Raise `GmgError` unless all that the jobs need is still where it was."""
    if not Path(spec.cwd).is_dir():
        raise GmgError(f"{spec.name} ran in {spec.cwd}, which is gone; make it again", 1)
    interpreter.check_python(spec.python)
    for group in sweep.groups:
        check_module(group.script) if group.module else check_script(str(Path(spec.cwd, group.script)))


def _waits(job: JobRecord, own: SweepOptions) -> bool:
    """Whether the engine will run a job."""
    return not job.state.ended or (own.retry_failed and job.state is WorkerState.FAILED)


def _prepare(spec: RunSpec, store: Path, again: list[JobRecord]) -> RunSpec:
    """The spec with a socket, once all that the engine will find is in its place."""
    socket = sessions.socket_path(spec.name)
    socket.unlink(missing_ok=True)
    if spec.sweep is not None:
        make_results(spec.sweep.results)
    failed = [job for job in again if job.state is WorkerState.FAILED]
    if failed:
        asyncio.run(_let_wait(store, failed))
    return structs.replace(spec, socket=str(socket))


async def _let_wait(store: Path, failed: list[JobRecord]) -> None:
    """Have failed jobs wait in the store. Raises `GmgError`."""
    from gmg_tui.store.writer import StoreWriter

    troubles: list[str] = []
    writer = StoreWriter(store, lambda text: troubles.append(text) if text else troubles.clear())
    writer.start()
    for job in failed:
        writer.job(structs.replace(job, state=WorkerState.WAITING, reason=None, exit_code=None, ended=None))
    await writer.close()
    if troubles:
        raise GmgError(f"the failed jobs cannot be queued again: {troubles[-1]}", 1)
