"""`--resume`: continue a sweep, or a tuning, that has ended or was lost, in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import structs

from gmg_tui import machine, recovery
from gmg_tui import session as sessions
from gmg_tui.commands.messages import tell
from gmg_tui.commands.options import Checked, RunOptions, check_folder, check_module, check_queued, check_script
from gmg_tui.commands.run import start
from gmg_tui.commands.sweep import conclude, make_results, show_jobs
from gmg_tui.errors import GmgError
from gmg_tui.genesis import interpreter
from gmg_tui.model import Job, RestartMode, RunSpec, StartMode, SweepSpec, Visible, WorkerState
from gmg_tui.session import STORE, Found
from gmg_tui.sweep.batch_builder import changed
from gmg_tui.sweep.overrides import SweepOptions, overrides
from gmg_tui.sweep.settings import Settings

_FIXED = {
    "script": "--script",
    "module": "--module",
    "sets": "--set",
    "args": "--args",
    "words": "arguments after --",
    "out_dir": "--out-dir",
    "repeat": "--repeat",
    "every_gpu": "--every-gpu",
    "presets": "--preset",
    "all_presets": "--all",
}
"""Options that define the jobs, which do not change."""
_FIELDS = {
    "keep_slurm_env": "keep_slurm_env",
    "interval": "interval_s",
    "pattern": "patterns",
    "restart_stuck": "restart_stuck",
    "max_restarts": "max_restarts",
    "stuck_after": "stuck_after_s",
    "sigint_wait": "sigint_wait_s",
    "sigterm_wait": "sigterm_wait_s",
}
"""Options that are copied to the `RunSpec`, and the field of each."""


def resume(file: str | None, options: RunOptions, own: SweepOptions, given: frozenset[str]) -> int:
    """Continue the sweep called `own.resume`: jobs that have ended stay so, all others wait again.

    The fields of `options` in `given` (what the command line has) replace the session's; `file` must not be given.
    The exit status is that of `sweep`.

    Raises:
        GmgError: There is no such sweep, it is running, or an option cannot be combined with `--resume`.
    """
    from gmg_tui.store.reader import load_jobs

    _check_options(file, options, own)
    checked = check_queued(options)
    upper = overrides(own, gpus=options.gpus, env=checked.env)
    results = None if own.results is None else check_folder("--results", own.results)
    name = own.resume or ""
    recovery.clear(tell)
    found = found_session(name)
    spec = found.record.session.spec
    if spec.sweep is None:
        raise GmgError(f"{name} is not a sweep; start it again with: gmg-tui {spec.script}")
    if spec.tune is not None:
        raise GmgError(f"{name} is a tuning; go on with it with: gmg-tui tune --resume {name}")
    store = found.folder / STORE
    if not store.is_file():
        raise GmgError(f"{name} has no store ({store}); its jobs are unknown; start the sweep again", 1)
    cpu = options.cpu if options.gpus is not None or options.cpu is not None else spec.cpu
    sweep = _sweep(spec.sweep, upper, results, cpu=cpu is not None, retry_failed=own.retry_failed)
    spec = structs.replace(changed_spec(spec, options, checked, given), cpu=cpu, sweep=sweep)
    check_place(spec, sweep)
    jobs = load_jobs(store)
    if own.per_gpu not in (None, 1) and any(job.gpus > 1 for job in jobs):
        raise GmgError("--per-gpu: jobs that need several GPUs do not share them; leave it out")
    if own.per_gpu is not None and any(job.only is not None for job in jobs):
        raise GmgError("--per-gpu: the jobs of every_gpu have their slots, whose names would change; leave it out")
    rerun = {WorkerState.FAILED} if own.retry_failed else set[WorkerState]()
    again = [job for job in jobs if not job.state.ended or job.state in rerun]
    if own.dry_run:
        left = tuple(
            Job(job.number, job.name, job.batch, job.values, job.only, gpus=job.gpus, world_size=job.world_size)
            for job in again
        )
        show_jobs(sweep.batches, left, total=len(jobs), cpu=cpu)
        return 0
    if not again:
        failed = any(job.state is WorkerState.FAILED for job in jobs)
        tell(f"every job of {name} has ended{'; --retry-failed runs the failed ones again' if failed else ''}")
        return conclude(spec, 0)
    return start(options, lambda: prepare(spec), fresh=False, conclude=conclude)


def _check_options(file: str | None, options: RunOptions, own: SweepOptions) -> None:
    wrong = [option for field, option in _FIXED.items() if getattr(own, field)]
    wrong += (
        ["--ddp"] * (options.ddp is not None) + ["FILE"] * (file is not None) + ["--name"] * (options.name is not None)
    )
    if wrong:
        raise GmgError(f"--resume {own.resume}: its name and jobs cannot change; leave out {', '.join(wrong)}")


def found_session(name: str) -> Found:
    """The session to continue, which no engine runs. Raises `GmgError`."""
    try:
        found = sessions.inspect(sessions.sessions_folder() / sessions.check_name(name))
    except GmgError as error:
        raise GmgError(str(error).replace("--name", "--resume", 1)) from error
    if found is None:
        raise GmgError(f"--resume {name}: there is no such session; `gmg-tui ls` lists them", 1)
    if found.state == "running":
        raise GmgError(found.away_text("stop") or f"{name} is running; open it with: gmg-tui attach {name}", 1)
    if found.state == "lost" and found.record.loss is None:
        host = found.record.session.spec.host
        raise GmgError(f"{name} was lost and some of its processes are still running; try again on {host}", 1)
    return found


def changed_spec(spec: RunSpec, options: RunOptions, checked: Checked, given: frozenset[str]) -> RunSpec:
    """The session's spec with the command line's changes."""
    if "simulate" in given:
        raise GmgError(f"--simulate: the GPUs of {spec.name} stay what they are; leave it out")
    changes: dict[str, Any] = {field: getattr(options, name) for name, field in _FIELDS.items() if name in given}
    if options.start is not None:
        changes["start"] = StartMode(options.start)
    if "visible" in given:
        changes["visible"] = Visible(options.visible)
    if "restart" in given:
        changes["restart"] = RestartMode(options.restart)
    if "notify" in given:
        changes["notify"] = options.notify
    if options.python is not None:
        changes["python"] = checked.python
    if options.summary is not None:
        changes["summary"] = checked.summary
    if options.log_max is not None:
        changes["log_max_bytes"] = checked.log_max_bytes
    ranks = {name: getattr(options, name) for name in ("virtual_local_rank", "flight_recorder") if name in given}
    if ranks and spec.ddp is None:
        raise GmgError(f"--{next(iter(ranks)).replace('_', '-')} is for the ranks of a group, and {spec.name} has none")
    if spec.ddp is not None:
        changes["ddp"] = structs.replace(spec.ddp, **ranks)
    changes["env"] = spec.env | checked.env
    changes["host"] = machine.name()
    return structs.replace(spec, **changes)


def _sweep(sweep: SweepSpec, upper: Settings, results: str | None, *, cpu: bool, retry_failed: bool) -> SweepSpec:
    return structs.replace(
        sweep,
        batches=tuple(changed(batch, upper, cpu=cpu) for batch in sweep.batches),
        results=results or sweep.results,
        best=upper.best or sweep.best,
        retry_failed=retry_failed,
    )


def check_place(spec: RunSpec, sweep: SweepSpec) -> None:
    """Raise `GmgError` unless everything the jobs need is still in place."""
    if not Path(spec.cwd).is_dir():
        raise GmgError(f"{spec.name} ran in {spec.cwd}, which is gone; create it again", 1)
    interpreter.check_python(spec.python)
    for batch in sweep.batches:
        check_module(batch.script) if batch.module else check_script(str(Path(spec.cwd, batch.script)))


def prepare(spec: RunSpec) -> RunSpec:
    """The spec with a socket. The session's folder is written only by an engine that holds its lock."""
    if spec.sweep is not None:
        make_results(spec.sweep.results)
    return structs.replace(spec, socket=str(sessions.socket_path(spec.name)))
