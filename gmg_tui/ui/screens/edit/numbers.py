"""Which number of an argument line a person is about to change: where the cursor begins."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

from gmg_tui.genesis import env_count, placeholders
from gmg_tui.model import Settings, Tunable, TuneSpec
from gmg_tui.ui.screens.edit import arguments

_VALUE: Final = re.compile(r"(?P<name>[\w.+-]+=)?.*?(?P<number>\d[\d_.]*)\D*")
"""An argument with a number, after its name where it has one."""
_WHOLE: Final = re.compile(r"[1-9](?:_?\d){0,11}")
_PART: Final = re.compile(r"(?:\d[eE][+-]?|0[xX][0-9a-fA-F]*|(?:^|=)-)$")
"""What digits stand behind that are not a number of their own: `1e-3`, `0x40`, `-5`."""


def cursor(args: Sequence[str], edited: str) -> int:
    """The place in `arguments.join(args)` after the number that matters; the end where there is none.

    That is the number that was `edited` last, a name as `edited_name` gives it, else the number of environments.
    """
    place = env_count.place(args)
    for index in (_index_of(args, edited), place[0] if place is not None else None):
        match = _VALUE.fullmatch(args[index]) if index is not None else None
        if match is not None:
            before, shown = arguments.join(args[:index]), arguments.join([match[0]])
            return len(before) + bool(before) + shown.rindex(match["number"]) + len(match["number"])
    return len(arguments.join(args))


def tunable(settings: Settings, edited: str) -> Tunable | None:
    """The number of `settings` that a tuning is to look for; None where there is none.

    That is the one that was `edited` last if it is whole and above 0, else the number of environments.
    """
    args = settings.args
    place = env_count.place(args)
    for index in (_index_of(args, edited), place[0] if place is not None else None):
        match = _VALUE.fullmatch(args[index]) if index is not None else None
        if index is None or match is None or not _WHOLE.fullmatch(match["number"]):
            continue
        before, behind = args[index][: match.start("number")], args[index][match.end("number") :]
        if _PART.search(before):
            continue
        name = TuneSpec().variable if place is not None and index == place[0] else _name_of(args, index, match["name"])
        filled = (*args[:index], f"{before}{{{name}}}{behind}", *args[index + 1 :])
        return Tunable(name, int(match["number"]), filled, settings.env)
    return None


def _name_of(args: Sequence[str], index: int, own: str | None) -> str:
    """What to call the number of an argument: by its `own` name, or the option's before it; never as a placeholder."""
    is_value = index > 0 and args[index - 1].startswith("-") and not args[index].startswith("-")
    option = own or (args[index - 1] if is_value else "")
    named = placeholders.NAME.search(option.rstrip("="))
    name = named[0] if named is not None else "value"
    return f"{name}_value" if name in (*placeholders.NAMES, *placeholders.JOB_NAMES) else name


def edited_name(before: Sequence[str], after: Sequence[str]) -> str:
    """The name of the first number that an edit has changed: `--lr`, `lr=` or, of one without a name, its place (`3`).

    Empty where none has changed.
    """
    for index, (old, fresh) in enumerate(zip_longest(before, after, fillvalue="")):
        match = _VALUE.fullmatch(fresh) if fresh != old else None
        if match is None:
            continue
        if match["name"]:
            return match["name"]
        option = after[index - 1] if index else ""
        return option if option.startswith("-") else str(index)
    return ""


def _index_of(args: Sequence[str], name: str) -> int | None:
    """Which argument has the number called `name`."""
    if name.isdecimal():
        return int(name) if int(name) < len(args) else None
    for index, arg in enumerate(args):
        if name.endswith("=") and arg.startswith(name):
            return index
        if name and arg == name and index + 1 < len(args):
            return index + 1
    return None
