"""Arguments and environment as a person writes them: read, written, and tuned by twos."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from gmg_tui.errors import GmgError
from gmg_tui.genesis import placeholders
from gmg_tui.model import JobRecord, Slot, SlotKind

_BARE: Final = re.compile(r"[\w@%+=:,./{}-]+", re.ASCII)
_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_CARD: Final = re.compile(r"gpu(\d+)")
_QUOTES: Final = {
    "No closing quotation": "a quotation mark is not closed",
    "No escaped character": "the backslash at the end has nothing after it",
}


def join(args: Sequence[str]) -> str:
    """Arguments as one line that a shell would read as these; braces of placeholders are not quoted."""
    return " ".join(arg if _BARE.fullmatch(arg) else shlex.quote(arg) for arg in args)


def split(line: str) -> tuple[str, ...]:
    """The arguments in a shell-like line; line ends part them as blanks do. Nothing is expanded.

    Raises:
        GmgError: A quotation mark is not closed, or a backslash ends the line.
    """
    try:
        return tuple(shlex.split(line))
    except ValueError as error:
        raise GmgError(f"arguments: {_QUOTES.get(str(error), str(error))}") from error


def join_env(env: Mapping[str, str]) -> str:
    """An environment as `KEY=VALUE` lines."""
    return "\n".join(f"{key}={value}" for key, value in env.items())


def split_env(text: str) -> dict[str, str]:
    """The environment in `KEY=VALUE` lines; blank lines are left out, values are taken as they stand.

    Raises:
        GmgError: A line is no `KEY=VALUE`, or a key comes twice.
    """
    env: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        key, equals, value = line.partition("=")
        key = key.strip()
        if not equals:
            raise GmgError(f"environment, line {number}: no = in it; write KEY=VALUE")
        if not _KEY.fullmatch(key):
            raise GmgError(f"environment, line {number}: {key!r} is no name of a variable")
        if key in env:
            raise GmgError(f"environment, line {number}: {key} is there already")
        env[key] = value
    return env


def values_of(slot: str, slots: Sequence[str]) -> dict[str, object]:
    """What the placeholders stand for on `slot`, one of `slots` (`genesis.placeholders.values_for`)."""
    return _values_at(slot, slots.index(slot) if slot in slots else 0, len(slots))


def values_of_job(slot: str, job: JobRecord, count: int) -> dict[str, object]:
    """What the placeholders stand for in a sweep's `job`, one of `count`, on `slot`."""
    own = {"job": job.number, "name": job.name, **({"out_dir": job.out_dir} if job.out_dir is not None else {})}
    return _values_at(slot, job.number - 1, count) | job.values | own


def _values_at(slot: str, index: int, count: int) -> dict[str, object]:
    """A card's slot carries the card's index in its name (`gpu3`, `gpu0-mig1`)."""
    card = _CARD.match(slot)
    kind = SlotKind.GPU if card else SlotKind.CPU
    return placeholders.values_for(Slot(slot, kind), index, count, int(card[1]) if card else None)


class Scaled(NamedTuple):
    """A number in a line, and what it becomes."""

    start: int
    end: int
    text: str


def scaled(line: str, column: int, factor: int) -> Scaled | None:
    """The number at `column` of `line`, doubled by a `factor` of 2 or halved by one of -2; None where there is none.

    A whole number stays whole, and is not halved below 1.
    """
    for match in _NUMBER.finditer(line):
        if match.start() <= column <= match.end():
            if match[0].isdecimal():
                number = int(match[0])
                fresh = str(number * 2 if factor > 0 else max(number // 2, min(number, 1)))
            else:
                fresh = f"{float(match[0]) * (2 if factor > 0 else 0.5):.12g}"
            return Scaled(match.start(), match.end(), fresh)
    return None
