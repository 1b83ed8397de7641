"""`sweep`: queue the jobs of an experiments file on the slots."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui import simulation
from gmg_tui.commands.messages import notice, tell, tell_left
from gmg_tui.commands.options import (
    Checked,
    RunOptions,
    check_folder,
    check_module,
    check_queued,
    check_script,
    groups_of,
)
from gmg_tui.commands.run import describe, start
from gmg_tui.errors import GmgError
from gmg_tui.model import Batch, Job, RunSpec, SweepSpec, WorkerState
from gmg_tui.session import STORE
from gmg_tui.settings.scripts import patterns_of
from gmg_tui.slurm import allocation
from gmg_tui.sweep import dry_run, plan
from gmg_tui.sweep.experiments_file import read
from gmg_tui.sweep.overrides import SweepOptions, overrides, sets
from gmg_tui.sweep.settings import Settings

_INTERRUPTED = 130


def sweep(file: str | None, options: RunOptions, own: SweepOptions, below: Mapping[str, Any]) -> int:
    """Run the jobs that an experiments file, or the command line alone, describes.

    `below` are options from the user's settings, over which both win.

    Returns:
        The exit status: 0 when all jobs have finished, 1 when one failed, 130 when the user stopped it.

    Raises:
        GmgError: An option or the file is invalid, or the session cannot be started.
    """
    if own.retry_failed:
        raise GmgError("--retry-failed needs --resume NAME")
    if options.simulate is not None:
        if file is not None or own.script is not None:
            raise GmgError(f"--simulate runs the included script in Genesis's place; leave out {own.script or file}")
        file = str(simulation.SWEEP)
    if file is None and own.script is None:
        raise GmgError("give a FILE, or --script SCRIPT and --set KEY=V1,V2, or --resume NAME")
    checked = check_queued(options)
    upper = overrides(own, gpus=options.gpus, env=checked.env, ddp=options.ddp)
    source = None if file is None else read(file)
    chosen = plan.choose(source, own.presets, all_presets=own.all_presets)
    lowest = _lowest(below, options)
    chosen = [(name, lowest.under(settings)) for name, settings in chosen]
    made = plan.make(
        chosen,
        path=file,
        upper=upper,
        sets=sets(own.sets),
        check_script=lambda script, module: check_module(script) if module else check_script(script),
        cpu=options.cpu is not None,
        slots=lambda gpus: _slots(gpus, options),
    )
    # The session's own settings come from the only preset, or else from the file's top level.
    whole = (chosen[0][1] if source is None or len(chosen) == 1 else lowest.under(source.settings)).under(upper)
    checked = checked._replace(ddp=groups_of(options, made.jobs))
    name = _name(whole)
    results = None if own.results is None else check_folder("--results", own.results)
    for warning in made.warnings:
        tell(f"gmg-tui: {warning}")
    if own.dry_run:
        show_jobs(made.batches, made.jobs, total=len(made.jobs), cpu=options.cpu)
        return 0
    asked = SweepSpec(made.batches, None if file is None else str(Path(file).absolute()), results, whole.best)
    if options.name is None and name is not None and not (sessions.sessions_folder() / name).exists():
        options = options._replace(name=name)
    after = file if name is None else f"{name}.toml"
    return start(options, lambda: _make(options, checked, after, asked, made.jobs), conclude=conclude)


def _lowest(below: Mapping[str, Any], options: RunOptions) -> Settings:
    """The level of settings under the file's, from the user's. Raises `GmgError`."""
    own = {name: value for name, value in below.items() if name in SweepOptions._fields}
    shared = {name: value for name, value in below.items() if name in RunOptions._fields}
    env = check_queued(RunOptions(env=shared.get("env", ()))).env
    gpus = shared.get("gpus") if options.cpu is None and options.simulate is None else None
    return overrides(SweepOptions(**own), gpus=gpus, env=env, ddp=shared.get("ddp"))


def _slots(gpus: str | None, options: RunOptions) -> list[str]:
    """The names of the slots that `gpus` stand for, one for each GPU; of all CPU slots where there are any."""
    from gmg_tui.gpu import selection, silence
    from gmg_tui.gpu.nvml import NvmlUnavailable
    from gmg_tui.simulation.driver import SimulatedNvml

    if options.cpu is not None:
        return [slot.name for slot in selection.cpu_slots(options.cpu)]
    if options.simulate is not None:
        return [slot.name for slot in selection.slots(SimulatedNvml(options.simulate).gpus(), gpus, None)]
    try:
        with notice("asking the driver"):
            nvml, known = silence.open_nvml()
    except NvmlUnavailable as error:
        raise selection.no_gpu(str(error)) from error
    nvml.close()
    visible = allocation.visible(os.environ, sum(gpu.mig_index is None for gpu in known))
    return [slot.name for slot in selection.slots(known, gpus, visible)]


def _name(whole: Settings) -> str | None:
    """The session's name in the file."""
    try:
        return None if whole.name is None else sessions.check_name(whole.name)
    except GmgError as error:
        raise GmgError(f"{whole.place('name')}: {str(error).removeprefix('--name ')}") from error


def _make(options: RunOptions, checked: Checked, after: str | None, asked: SweepSpec, jobs: tuple[Job, ...]) -> RunSpec:
    """The spec of a session named `after` a file with a number (None: after the script), with a store of the jobs."""
    from gmg_tui.store import reader

    first = asked.batches[0]
    spec = describe(options, checked, first.script, first.args, module=first.module, after=after)
    try:
        make_results(asked.results)
        reader.create(Path(spec.folder) / STORE, jobs)
    except BaseException:
        shutil.rmtree(spec.folder, ignore_errors=True)
        raise
    fitting = (patterns_of(batch.script, options.script_patterns) for batch in asked.batches)
    patterns = options.pattern or tuple(dict.fromkeys(one for found in fitting for one in found))
    return structs.replace(spec, gpus=None, sweep=asked, patterns=patterns)


def make_results(results: str | None) -> None:
    """Create the additional folder for the results, if there is one. Raises `GmgError`."""
    try:
        if results is not None:
            Path(results).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GmgError(f"--results {results}: cannot be created: {error.strerror}") from error


def show_jobs(batches: tuple[Batch, ...], jobs: tuple[Job, ...], *, total: int, cpu: int | None) -> None:
    """Print the jobs and their number."""
    from gmg_tui import tables

    rows = [dry_run.HEADER, *dry_run.rows(batches, jobs, total=total, cpu=cpu)]
    print("\n".join(tables.lines(rows, "rlll")))
    print(dry_run.count(batches, jobs))


def conclude(spec: RunSpec, status: int) -> int:
    """Print the results of a sweep that has ended; the exit status, which depends on every job.

    `status` is that of the slots' last jobs; 130 when the user interrupted it.
    """
    from gmg_tui import report
    from gmg_tui.store import reader

    folder = Path(spec.folder)
    try:
        jobs = reader.load_jobs(folder / STORE)
        print(report.final(folder))
    except GmgError as error:
        tell(f"gmg-tui: {error}")
        return status or 1
    states = {job.state for job in jobs}
    left = sum(not job.state.ended for job in jobs)
    tell_left(left, spec.name)
    if status != _INTERRUPTED and (WorkerState.FAILED in states or (left and status)):
        return 1
    return 0 if status != _INTERRUPTED and states <= {WorkerState.FINISHED} else _INTERRUPTED
