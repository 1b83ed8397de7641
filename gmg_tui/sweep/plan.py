"""From the file and the command line to groups and jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gmg_tui.errors import GmgError
from gmg_tui.model import Group, Job, Value
from gmg_tui.sweep import names
from gmg_tui.sweep.file import Sheet
from gmg_tui.sweep.part import Part, check_out_dirs, listed
from gmg_tui.sweep.settings import Settings

MAX_JOBS = 100_000


class Plan(NamedTuple):
    """A sweep that can be run."""

    groups: tuple[Group, ...]
    jobs: tuple[Job, ...]
    warnings: tuple[str, ...]


def choose(sheet: Sheet | None, presets: Sequence[str], *, all_presets: bool) -> list[tuple[str, Settings]]:
    """The names and settings of the groups: the chosen presets over the file's own settings, or these alone.

    Raises:
        GmgError: There is no such preset.
    """
    if sheet is None:
        if presets or all_presets:
            raise GmgError("--preset and --all choose presets of a file; give the FILE")
        return [("", Settings())]
    if presets and all_presets:
        raise GmgError("--preset and --all exclude one another; give one of them")
    if (presets or all_presets) and not sheet.presets:
        raise GmgError(f"{sheet.path} has no presets; leave out {'--all' if all_presets else '--preset'}")
    for place, name in enumerate(presets):
        if name not in sheet.presets:
            raise GmgError(f"--preset {name}: {sheet.path} has no such preset; there are: {listed(sheet.presets)}")
        if name in presets[:place]:
            raise GmgError(f"--preset {name} is given twice; give each once")
    chosen = list(sheet.presets) if all_presets else list(presets)
    return [(name, sheet.settings.under(sheet.presets[name])) for name in chosen] or [("", sheet.settings)]


def make(
    chosen: Sequence[tuple[str, Settings]],
    *,
    path: str | None,
    upper: Settings,
    sets: Mapping[str, tuple[Value, ...]],
    check_script: Callable[[str, bool], None],
    cpu: bool,
) -> Plan:
    """Make the groups and their jobs.

    Args:
        chosen: The groups' names and settings, as `choose` gives them.
        path: The file, as given; None without one.
        upper: What the command line says instead.
        sets: The values of `--set`.
        check_script: Raises `GmgError` unless a script (or a module, as the second argument says) can be run.
        cpu: Whether the jobs run on CPU slots, which the file's cards do not matter to.

    Raises:
        GmgError: The settings do not make a sweep.
    """
    where = path or "sweep"
    parts = [Part(name, settings.under(upper), sets, several=len(chosen) > 1) for name, settings in chosen]
    for part in parts:
        _check_script(where, part.settings, check_script)
        part.check_placeholders()
    total = sum(part.size for part in parts)
    if total > MAX_JOBS:
        raise GmgError(f"{where}: grid makes {total:,} jobs; a sweep has at most {MAX_JOBS:,}, so give it fewer values")
    jobs = _jobs(parts)
    check_out_dirs(parts, jobs)
    borrowings = dict.fromkeys(line for part in parts for line in part.borrowings())
    return Plan(tuple(part.group(cpu=cpu) for part in parts), jobs, (*borrowings, *_unused(where, parts)))


def _check_script(where: str, settings: Settings, check: Callable[[str, bool], None]) -> None:
    if settings.script is None:
        raise GmgError(f'{where}: script is missing; give script = "experiment.py" in the file, or --script SCRIPT')
    try:
        check(settings.script, settings.module or False)
    except GmgError as error:
        raise GmgError(f"{settings.place('script')}: {error}") from error


def _jobs(parts: Sequence[Part]) -> tuple[Job, ...]:
    taken = names.Names(_given_names(parts))
    wishes = ((group, wish) for group, part in enumerate(parts) for wish in part.jobs())
    return tuple(
        Job(number, wish.name if wish.given else taken.unlike_others(wish.name), group, wish.values)
        for number, (group, wish) in enumerate(wishes, 1)
    )


def _given_names(parts: Sequence[Part]) -> set[str]:
    found: set[str] = set()
    for part in parts:
        for place, name in part.given_names():
            if name in found:
                raise GmgError(f"{place}: there is another job {name}; give each a name of its own")
            if len(name) > names.MAX_NAME:
                raise GmgError(f"{place}: {name} is longer than {names.MAX_NAME} signs; shorten it")
            found.add(name)
    return found


def _unused(where: str, parts: Sequence[Part]) -> Iterator[str]:
    """A line about the values that no placeholder of any group uses."""
    used = set[str]().union(*(part.used for part in parts))
    unused = list(dict.fromkeys(name for part in parts for name in part.valued() if name not in used))
    if unused:
        uses = "them" if len(unused) > 1 else "it"
        yield f"{where}: no placeholder uses {listed(unused)}; write {{{unused[0]}}} where the jobs shall get {uses}"
