"""`sweep`: queue the jobs of an experiments file on the slots."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui import simulation
from gmg_tui.commands.checks import check_folder, check_queued, check_script, environment, groups_of
from gmg_tui.commands.messages import note, note_jobs_left
from gmg_tui.commands.prestart import PrestartedEngine
from gmg_tui.commands.run import describe, start
from gmg_tui.errors import GmgError
from gmg_tui.model import JobRecord, RunSpec, SweepSpec, WorkerState
from gmg_tui.options import Options
from gmg_tui.session import STORE
from gmg_tui.sweep import dry_run, plan
from gmg_tui.sweep.settings import Settings, from_options, read, sets

SHARED = ("gpus", "ddp", "env", "per_gpu", "retries", "repeat", "timeout", "min_free_mib", "out_dir", "best")
"""Options that an experiments file may set too: it overrides `config.toml`, and the command line overrides it."""
_INTERRUPTED = 130


def settings_of(options: Mapping[str, Any]) -> Settings:
    """The settings that options make of those in `SHARED`. Raises `GmgError`."""
    return from_options({**options, "env": environment(tuple(options.get("env") or ()))})


def sweep(
    words: tuple[str, ...],
    options: Options,
    given: Mapping[str, Any],
    below: Mapping[str, Any],
    *,
    is_script: bool,
    module: bool,
    engine: PrestartedEngine,
) -> int:
    """Run the jobs that an experiments file, or the command line alone, describes.

    Args:
        words: The file; or (`is_script`) what the jobs run, and its arguments.
        options: All options.
        given: Those on the command line.
        below: Those from `config.toml`.
        is_script: Whether `words` name a script instead of a file.
        module: Whether the script is a module.
        engine: Its engine's process.

    Returns:
        The exit status: 0 when all jobs have finished, 1 when one failed, 130 when the user stopped it.

    Raises:
        GmgError: An option or the file is invalid, or the session cannot be started.
    """
    given, below = ({name: each[name] for name in SHARED if name in each} for each in (given, below))
    options = options.replace(env=given.get("env", ()), gpus=given.get("gpus"))
    values = sets(options.sets)
    file = _file(words, options, is_script=is_script)
    if options.retry_failed:
        raise GmgError("--retry-failed needs --resume NAME")
    fields = check_queued(options)
    upper, lower = settings_of(given), settings_of(below)
    if is_script:
        upper = structs.replace(upper, script=words[0], args=words[1:], module=module)
    top, chosen = Settings(), [("", Settings())]
    if file is not None:
        top = source = read(file)
        chosen = plan.choose(file, source, options.presets, every=options.all_presets)
    elif options.presets or options.all_presets:
        raise GmgError("--preset and --all choose presets of a file; give a FILE")
    cpu = options.cpu is not None
    settings = [(name, lower.under(preset).under(upper)) for name, preset in chosen]
    made = plan.make(settings, file or "sweep", values, check_script, cpu=cpu)
    # The session's settings come from the only preset, or else from the file's top level.
    whole = settings[0][1] if len(settings) == 1 else lower.under(top).under(upper)
    fields["ddp"] = groups_of(options, made.jobs)
    name = _name(whole, file)
    results = None if options.results is None else check_folder("--results", options.results)
    for warning in made.warnings:
        note(f"gmg-tui: {warning}")
    if options.dry_run:
        dry_run.show(made.batches, made.jobs, total=len(made.jobs))
        return 0
    asked = SweepSpec(made.batches, None if file is None else str(Path(file).absolute()), results, whole.best)
    if options.name is None and name is not None and not (sessions.sessions_folder() / name).exists():
        options = options.replace(name=name)
    after = file if name is None else f"{name}.toml"
    return start(options, lambda: _make(options, fields, after, asked, made.jobs), engine=engine, conclude=conclude)


def _file(words: tuple[str, ...], options: Options, *, is_script: bool) -> str | None:
    """The experiments file. Raises `GmgError`."""
    if is_script and not words:
        raise GmgError("--script: give the SCRIPT and its arguments after it, at the end")
    if not is_script and len(words) > 1:
        if options.sets:
            raise GmgError(f"{words[1]}: a sweep has one FILE; several values are --set KEY=V1,V2")
        raise GmgError(f"{words[1]}: only a SCRIPT (--script) has arguments")
    if options.simulate is not None:
        if words:
            raise GmgError(f"--simulate runs the bundled script instead of yours; leave out {words[0]}")
        return str(simulation.SWEEP)
    if not words:
        raise GmgError("give a FILE, or --set KEY=V1,V2 --script SCRIPT, or --resume NAME")
    return None if is_script else words[0]


def _name(whole: Settings, file: str | None) -> str | None:
    """The session's name in the file."""
    try:
        return None if whole.name is None else sessions.check_name(whole.name)
    except GmgError as error:
        raise GmgError(f"{file}: {str(error).removeprefix('--')}") from error


def _make(
    options: Options, fields: Mapping[str, Any], after: str | None, asked: SweepSpec, jobs: tuple[JobRecord, ...]
) -> RunSpec:
    """The spec of a session named `after` a file with a number (None: after the script), with a store of the jobs."""
    first = asked.batches[0]
    spec = describe(options, fields, first.script, first.args, module=first.module, after=after)
    make_results(asked.results)
    return with_store(structs.replace(spec, gpus=None, sweep=asked), jobs)


def with_store(spec: RunSpec, jobs: tuple[JobRecord, ...] = ()) -> RunSpec:
    """`spec`, with a store of its jobs in its folder; raises `GmgError`, and then the folder is gone."""
    from gmg_tui.store import reader

    try:
        reader.create(Path(spec.folder) / STORE, jobs)
    except BaseException:
        shutil.rmtree(spec.folder, ignore_errors=True)
        raise
    return spec


def make_results(results: str | None) -> None:
    """Create the additional folder for the results, if there is one. Raises `GmgError`."""
    try:
        if results is not None:
            Path(results).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GmgError(f"--results {results}: cannot be created: {error.strerror}") from error


def conclude(spec: RunSpec, status: int) -> int:
    """Print the results of a sweep that has ended; the exit status, which depends on every job.

    `status` is that of the slots' last jobs; 130 when the user interrupted it.
    """
    from gmg_tui import session as sessions
    from gmg_tui.report import text
    from gmg_tui.store import reader

    folder = Path(spec.folder)
    try:
        jobs = reader.load_jobs(folder / STORE)
        print(text.final(sessions.find(spec.name, running=False)))
    except GmgError as error:
        note(f"gmg-tui: {error}")
        return status or 1
    states = {job.state for job in jobs}
    left = sum(not job.state.ended for job in jobs)
    note_jobs_left(left, spec.name)
    if status != _INTERRUPTED and (WorkerState.FAILED in states or (left and status)):
        return 1
    return 0 if status != _INTERRUPTED and states <= {WorkerState.FINISHED} else _INTERRUPTED
