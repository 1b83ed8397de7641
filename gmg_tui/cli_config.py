"""The command `config`, and the settings that it is about, as they are used by the others.

Where there is no file of settings, a command pays for one look that finds none.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from gmg_tui.cli_options import HELP, call
from gmg_tui.errors import GmgError

if TYPE_CHECKING:
    from gmg_tui.settings.source import Source

_REFUSES = frozenset({"run", "demo", "sweep", "tune"})
"""Commands that start nothing where a setting is wrong; the others look at things, and go on without it."""
_READ = _REFUSES | {"attach", "serve", "share", "logs", "report", "metrics", "slurm-script", "doctor"}
"""Commands that read settings. What ends workers, removes or answers a shell does not; agents take none."""
_NOT_WITH = frozenset({"-h", "--help", "--facts"})
"""Words with which none are read: for the help, and for another machine that asks this one."""
_INSTEAD: Mapping[str, frozenset[str]] = {
    "gpus": frozenset({"cpu"}),
    "cpu": frozenset({"gpus", "simulate", "nodes"}),
    "simulate": frozenset({"gpus", "cpu", "nodes"}),
    "nodes": frozenset({"gpus", "cpu", "simulate"}),
    "ddp": frozenset({"start"}),
    "listen": frozenset({"textfile"}),
    "textfile": frozenset({"listen"}),
    "headless": frozenset({"detach"}),
    "detach": frozenset({"headless", "summary"}),
}
"""Options on the command line, and settings that then do not count because they mean the opposite."""
_NEEDS = {
    "min_nodes": "nodes",
    "slurm": "nodes",
    "virtual_local_rank": "ddp",
    "flight_recorder": "ddp",
}
"""Settings that count only beside another option."""
_RESUMED = frozenset({"theme", "ascii_only", "no_mouse", "no_confirm", "headless", "verbose", "detach"})
"""Settings that count where a session is resumed, which keeps its own of all others."""
_BY_FILE = frozenset(
    {"gpus", "env", "per_gpu", "ddp", "retries", "repeat", "every_gpu", "timeout", "min_free_mib", "out_dir", "best"}
)
"""Options of `sweep` that an experiments file may set, which wins over the settings."""


class Configured:
    """The settings of one command, none where there is no file.

    Attributes:
        options: The values of its options, as click calls them.
        below: Those that an experiments file wins over.
        patterns: Names or globs of scripts, each with its patterns.
    """

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}
        self.below: dict[str, Any] = {}
        self.patterns: tuple[tuple[str, tuple[str, ...]], ...] = ()
        self.places: dict[str, Callable[[], str]] = {}
        """What tells where an option, `--name`, was set."""

    def blame(self, text: str) -> str:
        """What is wrong, with the place of the setting that it is about, if it is about one."""
        place = self.places.get(text.partition(" ")[0])
        return f"{place()}: {text}" if place else text


@click.command("config", context_settings=HELP)
@click.option("--path", "show_path", is_flag=True, help="Print where the file is.")
@click.option("--example", "show_example", is_flag=True, help="Print a whole file with an explanation of each setting.")
@click.option("--check", is_flag=True, help="Say what is wrong in the file.")
@click.pass_context
def config(ctx: click.Context, /, show_path: bool, show_example: bool, check: bool) -> int:
    """Show what is set in the file of settings, config.toml."""
    return call("config", ctx.find_root().command, _READ, show_path=show_path, show_example=show_example, check=check)


def configured(group: click.Group, arranged: Sequence[str], own: Sequence[str]) -> Configured:
    """The settings for a command line, of which `own` are the words that are gmg-tui's. The keys are put into force.

    Raises:
        GmgError: The file is wrong, and the command would start something.
    """
    command = arranged[0] if arranged else ""
    if command not in _READ or not _NOT_WITH.isdisjoint(own):
        return Configured()
    from gmg_tui.settings import place

    file = place.path()
    if file is None or not place.is_there(file):
        return Configured()
    from gmg_tui.settings import source

    try:
        loaded = source.load(file)
    except GmgError as error:
        if command in _REFUSES:
            raise
        print(f"gmg-tui: {error}; no settings are used", file=sys.stderr)
        return Configured()
    return Configured() if loaded is None else _of(group, command, own, loaded)


def _of(group: click.Group, command: str, own: Sequence[str], loaded: Source) -> Configured:
    from gmg_tui.commands.known_settings import known
    from gmg_tui.settings.reading import read

    found = read(loaded, known(group, _READ))
    if found.wrong:
        more = f" (and {len(found.wrong) - 1} more: gmg-tui config --check)" if len(found.wrong) > 1 else ""
        if command in _REFUSES:
            raise GmgError(f"{found.texts()[0]}{more}")
        print(f"gmg-tui: {found.texts()[0]}{more}; it is ignored", file=sys.stderr)
    settings = found.settings
    if settings.keys:
        from gmg_tui.ui import remapping

        remapping.use(settings.keys)
    params = [one for one in group.commands[command].params if isinstance(one, click.Option)]
    values = dict(settings.options.get(command, {}))
    if settings.theme is not None and any(one.name == "theme" for one in params):
        values["theme"] = settings.theme
    given = {one.name or "" for one in params if not _words(own).isdisjoint(one.opts)}
    values = _counting(values, given)
    result = Configured()
    result.patterns = settings.patterns
    for one in params:
        if one.name in values:
            place = settings.places.get((command, one.name), ("theme",))
            result.places.update(dict.fromkeys(one.opts, partial(_place, loaded, place)))
    for name, value in values.items():
        if command == "sweep" and name in _BY_FILE:
            option = next(one for one in params if one.name == name)
            result.below[name] = option.type_cast_value(click.Context(group.commands[command]), value)
        else:
            result.options[name] = value
    return result


def _place(loaded: Source, keys: tuple[str, ...]) -> str:
    return f"{loaded.path}:{loaded.line(*keys)}"


def _words(own: Sequence[str]) -> set[str]:
    """The options among the words of a command line."""
    return {word.partition("=")[0] for word in own if word.startswith("-")}


def _counting(values: Mapping[str, Any], given: set[str]) -> dict[str, Any]:
    """The settings that count beside the options that are given."""
    against = {name for one in given for name in _INSTEAD.get(one, ())} | given
    left = {name: value for name, value in values.items() if name not in against}
    if "resume" in given:
        left = {name: value for name, value in left.items() if name in _RESUMED}
    there = given | left.keys()
    return {name: value for name, value in left.items() if _NEEDS.get(name, name) in there}
