"""Makes a sweep's batches and jobs from the file and the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gmg_tui.errors import GmgError
from gmg_tui.gpu.selection import shares
from gmg_tui.model import Batch, Job, Value
from gmg_tui.sweep import names
from gmg_tui.sweep.batch_builder import BatchBuilder, check_out_dirs, listed
from gmg_tui.sweep.experiments_file import ExperimentsFile
from gmg_tui.sweep.runs import Runs
from gmg_tui.sweep.settings import Settings

MAX_JOBS = 100_000


class Plan(NamedTuple):
    """A sweep that is ready to run."""

    batches: tuple[Batch, ...]
    jobs: tuple[Job, ...]
    warnings: tuple[str, ...]


def choose(source: ExperimentsFile | None, presets: Sequence[str], *, all_presets: bool) -> list[tuple[str, Settings]]:
    """The names and settings of the batches: the chosen presets applied to the file's settings, or these alone.

    Raises:
        GmgError: There is no such preset.
    """
    if source is None:
        if presets or all_presets:
            raise GmgError("--preset and --all choose presets of a file; give a FILE")
        return [("", Settings())]
    if presets and all_presets:
        raise GmgError("--preset and --all are mutually exclusive; give one of them")
    if (presets or all_presets) and not source.presets:
        raise GmgError(f"{source.path} has no presets; leave out {'--all' if all_presets else '--preset'}")
    for place, name in enumerate(presets):
        if name not in source.presets:
            raise GmgError(
                f"--preset {name}: {source.path} has no such preset; the presets are: {listed(source.presets)}"
            )
        if name in presets[:place]:
            raise GmgError(f"--preset {name} is given twice; give each once")
    chosen = list(source.presets) if all_presets else list(presets)
    return [(name, source.settings.under(source.presets[name])) for name in chosen] or [("", source.settings)]


def make(
    chosen: Sequence[tuple[str, Settings]],
    *,
    path: str | None,
    upper: Settings,
    sets: Mapping[str, tuple[Value, ...]],
    check_script: Callable[[str, bool], None],
    cpu: bool,
    slots: Callable[[str | None], Sequence[str]],
) -> Plan:
    """Make the batches, of which `choose` gives the names and settings, and their jobs.

    The command line overrides with `upper` and `sets`. `check_script` raises `GmgError` unless a script (or a module, as
    its second argument says) can be run. On CPU slots the file's GPUs do not matter. `slots` gives the names of the slots
    that `gpus` stand for, one for each GPU; it is asked only where jobs are to run on every one, and may raise `GmgError`.

    Raises:
        GmgError: The settings do not make a sweep.
    """
    where = path or "sweep"
    builders = [BatchBuilder(name, settings.under(upper), sets, several=len(chosen) > 1) for name, settings in chosen]
    for builder in builders:
        _check_script(where, builder.settings, check_script)
        builder.check_placeholders()
        builder.check_widths()
    batches = tuple(builder.batch(cpu=cpu) for builder in builders)
    most = 1 if cpu else max(batch.per_gpu for batch in batches)
    runs = [
        Runs(
            builder.settings.repeat or 1,
            tuple(shares(slot, batch.per_gpu, most) for slot in slots(batch.gpus))
            if builder.settings.every_gpu
            else (),
        )
        for builder, batch in zip(builders, batches, strict=True)
    ]
    total = sum(builder.size * each.per_job for builder, each in zip(builders, runs, strict=True))
    if total > MAX_JOBS:
        fewer = "fewer values" if all(each.per_job == 1 for each in runs) else "fewer values or runs"
        raise GmgError(f"{where}: grid makes {total:,} jobs; a sweep can have at most {MAX_JOBS:,}, so give {fewer}")
    jobs = _jobs(builders, runs)
    check_out_dirs(builders, jobs)
    borrowings = dict.fromkeys(line for builder in builders for line in builder.borrowings())
    return Plan(batches, jobs, (*borrowings, *_unused(where, builders)))


def _check_script(where: str, settings: Settings, check: Callable[[str, bool], None]) -> None:
    if settings.script is None:
        raise GmgError(f'{where}: script is missing; give script = "experiment.py" in the file, or --script SCRIPT')
    try:
        check(settings.script, settings.module or False)
    except GmgError as error:
        raise GmgError(f"{settings.place('script')}: {error}") from error


def _jobs(builders: Sequence[BatchBuilder], runs: Sequence[Runs]) -> tuple[Job, ...]:
    taken = names.Names(_given_names(builders))
    jobs: list[Job] = []
    for batch, (builder, each) in enumerate(zip(builders, runs, strict=True)):
        drafts = [draft if draft.given else draft._replace(name=taken.unique(draft.name)) for draft in builder.jobs()]
        for name, only, draft in each.of(drafts, taken):
            combination = draft.name if each.per_job > 1 else ""
            width = draft.gpus, draft.world_size
            jobs.append(Job(len(jobs) + 1, name, batch, draft.values, only, combination, *width))
    return tuple(jobs)


def _given_names(builders: Sequence[BatchBuilder]) -> set[str]:
    found: set[str] = set()
    for builder in builders:
        for place, name in builder.given_names():
            if name in found:
                raise GmgError(f"{place}: another job is named {name}; give each its own name")
            if names.size(name) > names.MAX_BYTES:
                raise GmgError(f"{place}: {name} is longer than {names.MAX_BYTES} bytes; shorten it")
            found.add(name)
    return found


def _unused(where: str, builders: Sequence[BatchBuilder]) -> Iterator[str]:
    """A line about the values that no placeholder in any batch uses."""
    used = set[str]().union(*(builder.used for builder in builders))
    unused = list(dict.fromkeys(name for builder in builders for name in builder.valued() if name not in used))
    if unused:
        uses = "them" if len(unused) > 1 else "it"
        yield f"{where}: no placeholder uses {listed(unused)}; write {{{unused[0]}}} where the jobs should get {uses}"
