"""`completion`: click's completion for shells, and what completes the names of sessions, slots and presets.

It runs at each press of the key: nothing here imports the screen or NVML, and what goes wrong completes nothing.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    split_arg_string,
)

from gmg_tui import session as sessions

_VARIABLE = "_GMG_TUI_COMPLETE"
"""By which the script asks: click makes it of the program's name."""


class _Fish(FishComplete):
    """Keeps descriptions whole: click's script (8.5.1) cuts them at their first comma, and `1,2` too."""

    source_template = FishComplete.source_template.replace('string split ","', 'string split --max 1 ","')


_CLASSES: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": _Fish}
_LARGEST_BYTES = 1 << 20
"""A larger experiments file is not read for the names of its presets."""
_OWN_COMMAND = ("run", "demo")
"""After the script of these, all words are the script's."""


def completion(group: click.Command, shell: str) -> int:
    """Print the script for `shell`."""
    click.echo(_CLASSES[shell](group, {}, "gmg-tui", _VARIABLE).source(), nl=False)
    return 0


def answer(
    group: click.Group, arrange: Callable[[Sequence[str]], list[str]], own: Callable[[Sequence[str]], list[str]]
) -> int:
    """Print what fits the words in the environment, as a shell's script asks; the exit status."""
    shell, _, instruction = os.environ.get(_VARIABLE, "").partition("_")
    if instruction != "complete" or shell not in _CLASSES:
        return 1
    asked = _CLASSES[shell](group, {}, "gmg-tui", _VARIABLE)
    try:
        words, begun = asked.get_completion_args()
        found = _complete(asked, group, words, begun, arrange, own)
        click.echo("\n".join(map(asked.format_completion, found)))
    except Exception:  # noqa: BLE001, RUF100 - a text in the middle of a command line helps nobody
        return 1
    return 0


def _complete(
    asked: ShellComplete,
    group: click.Group,
    words: list[str],
    begun: str,
    arrange: Callable[[Sequence[str]], list[str]],
    own: Callable[[Sequence[str]], list[str]],
) -> list[CompletionItem[str]]:
    arranged = arrange(words) if words else ["run"]
    command, *rest = arranged
    before = own(arranged)
    if command in _OWN_COMMAND and len(before) < len(rest):
        return _files(begun)
    found = asked.get_completions(arranged, begun)
    if before and before[-1] in _with_values(group):
        return found or _files(begun)
    if command == "run" and "run" not in words:  # the first word: an option, a command, or a script
        found = [*(found if begun.startswith("-") else []), *asked.get_completions([], begun)]
        names = {item.value: item for item in found}
        return list(names.values()) or _files(begun)
    return found


def _with_values(group: click.Group) -> set[str]:
    options = [one for command in group.commands.values() for one in command.params if isinstance(one, click.Option)]
    return {name for one in options if not one.is_flag for name in one.opts}


def _files(begun: str) -> list[CompletionItem[str]]:
    return [CompletionItem(begun, type="file")]


def complete(kind: str, ctx: click.Context, begun: str) -> list[CompletionItem[str]]:
    """What fits `begun`: `files`, `sessions` (all), `running`, `over`, `logs` (slots, and sessions) or `presets`."""
    if kind == "files":
        return _files(begun)
    try:
        names = _presets() if kind == "presets" else _names(kind, ctx)
        return [CompletionItem(name) for name in dict.fromkeys(names) if name.startswith(begun)]
    except Exception:  # noqa: BLE001, RUF100 - a text in the middle of a command line helps nobody
        return []


def _names(kind: str, ctx: click.Context) -> Iterable[str]:
    listing = sessions.listing()
    if kind == "logs":
        given: Any = ctx.params.get("words") or ()
        found = [one for one in listing if one.name == given[0]] if given else listing[:1]
        slots = [slot.name for one in found for slot in one.record.session.slots]
        return slots if given else [*slots, *(one.name for one in listing)]
    wanted = {"running": {"running"}, "over": {"ended", "lost"}}.get(kind, {"running", "ended", "lost"})
    given = ctx.params.get("names") or ()
    return [one.name for one in listing if one.state in wanted and one.name not in given]


def _presets() -> Iterable[str]:
    """The presets of the file, the word that ends with `.toml`: click has not read it after an option without a value."""
    for word in split_arg_string(os.environ.get("COMP_WORDS", "")):
        path = Path(word).expanduser()
        if path.suffix == ".toml" and path.is_file() and path.stat().st_size <= _LARGEST_BYTES:
            return list(tomllib.loads(path.read_text("utf-8-sig")).get("preset", {}))
    return []
