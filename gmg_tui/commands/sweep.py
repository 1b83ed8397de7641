"""`sweep`: queue the jobs of an experiments' file over the slots."""

from __future__ import annotations

import shutil
from pathlib import Path

from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui import units
from gmg_tui.commands.options import Checked, RunOptions, check_folder, check_module, check_queued, check_script
from gmg_tui.commands.run import describe, start
from gmg_tui.commands.tell import tell
from gmg_tui.errors import GmgError
from gmg_tui.model import Group, Job, RunSpec, SweepSpec, WorkerState
from gmg_tui.session import STORE
from gmg_tui.sweep import listing, plan
from gmg_tui.sweep.file import read
from gmg_tui.sweep.overlay import SweepOptions, overlay, sets
from gmg_tui.sweep.settings import Settings

_INTERRUPTED = 130


def sweep(file: str | None, options: RunOptions, own: SweepOptions) -> int:
    """Run the jobs that a file, or the command line alone, describes.

    Args:
        file: The experiments' file.
        options: The options that `run` has too.
        own: Those that only a sweep has.

    Returns:
        The exit status: 0 when all jobs have finished, 1 when one failed, 130 when a person stopped it.

    Raises:
        GmgError: Something cannot be meant so, or the session cannot be started.
    """
    if own.retry_failed:
        raise GmgError("--retry-failed is for a sweep that goes on; give --resume NAME too")
    if file is None and own.script is None:
        raise GmgError("give a FILE, or --script SCRIPT and --set KEY=V1,V2, or --resume NAME")
    checked = check_queued(options)
    upper = overlay(own, gpus=options.gpus, env=checked.env)
    sheet = None if file is None else read(file)
    chosen = plan.choose(sheet, own.presets, all_presets=own.all_presets)
    made = plan.make(
        chosen,
        path=file,
        upper=upper,
        sets=sets(own.sets),
        check_script=lambda script, module: check_module(script) if module else check_script(script),
        cpu=options.cpu is not None,
    )
    # What holds for the whole session is said by the only preset, or beside all of them.
    whole = (chosen[0][1] if sheet is None or len(chosen) == 1 else sheet.settings).under(upper)
    name = _name(whole)
    results = None if own.results is None else check_folder("--results", own.results)
    for warning in made.warnings:
        tell(f"gmg-tui: {warning}")
    if own.dry_run:
        show_jobs(made.groups, made.jobs, total=len(made.jobs), cpu=options.cpu)
        return 0
    asked = SweepSpec(made.groups, None if file is None else str(Path(file).absolute()), results, whole.best)
    if options.name is None and name is not None and not (sessions.sessions_folder() / name).exists():
        options = options._replace(name=name)
    after = file if name is None else f"{name}.toml"
    return start(options, lambda: _make(options, checked, after, asked, made.jobs), conclude=conclude)


def _name(whole: Settings) -> str | None:
    """What the file calls the session."""
    try:
        return None if whole.name is None else sessions.check_name(whole.name)
    except GmgError as error:
        raise GmgError(f"{whole.place('name')}: {str(error).removeprefix('--name ')}") from error


def _make(options: RunOptions, checked: Checked, after: str | None, asked: SweepSpec, jobs: tuple[Job, ...]) -> RunSpec:
    """What to run, with a store of its jobs in the session's folder.

    Args:
        options: The options that `run` has too.
        checked: What their checks found out.
        after: What the session is named after, a number behind it; None for the script.
        asked: What to queue.
        jobs: Its jobs.
    """
    from gmg_tui.store import reader

    first = asked.groups[0]
    spec = describe(options, checked, first.script, first.args, module=first.module, after=after)
    try:
        make_results(asked.results)
        reader.create(Path(spec.folder) / STORE, jobs)
    except BaseException:
        shutil.rmtree(spec.folder, ignore_errors=True)
        raise
    return structs.replace(spec, gpus=None, sweep=asked)


def make_results(results: str | None) -> None:
    """Make the further folder for the results, if there is one to be. Raises `GmgError`."""
    try:
        if results is not None:
            Path(results).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GmgError(f"--results {results}: cannot be made: {error.strerror}") from error


def show_jobs(groups: tuple[Group, ...], jobs: tuple[Job, ...], *, total: int, cpu: int | None) -> None:
    """Print the jobs, and how many they are."""
    from gmg_tui.headless.columns import columns

    print("\n".join(columns(listing.HEADER, list(listing.rows(groups, jobs, total=total, cpu=cpu)), left=listing.LEFT)))
    print(listing.count(groups, jobs))


def conclude(spec: RunSpec, status: int) -> int:
    """Print the results of a sweep that has ended; the exit status, to which every job's end counts.

    Args:
        spec: What was run.
        status: What the slots' last jobs came to; 130 when a person interrupted it.
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
    if left:
        tell(f"{units.count(left, 'job')} left; go on with: gmg-tui sweep --resume {spec.name}")
    if status != _INTERRUPTED and WorkerState.FAILED in states:
        return 1
    return 0 if status != _INTERRUPTED and states <= {WorkerState.FINISHED} else _INTERRUPTED
