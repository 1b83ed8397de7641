"""Arguments and environment as text: parsing, formatting, and numbers doubled and halved."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from gmg_tui.errors import GmgError
from gmg_tui.genesis import placeholders
from gmg_tui.model import JobRecord, Slot, SlotKind

_BARE: Final = re.compile(r"[\w@%+=:,./{}-]+", re.ASCII)
_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_GPU: Final = re.compile(r"gpu(\d+)")
_QUOTES: Final = {"No closing quotation": "unclosed quotation mark", "No escaped character": "trailing backslash"}


def join(args: Sequence[str]) -> str:
    """Arguments as one line of shell syntax; braces of placeholders are not quoted."""
    return " ".join(arg if _BARE.fullmatch(arg) else shlex.quote(arg) for arg in args)


def split(line: str) -> tuple[str, ...]:
    """The arguments in shell syntax, separated by blanks or line ends. Nothing is expanded. Raises `GmgError`."""
    try:
        return tuple(shlex.split(line))
    except ValueError as error:
        raise GmgError(f"arguments: {_QUOTES.get(str(error), str(error))}") from error


def join_env(env: Mapping[str, str]) -> str:
    """An environment as `KEY=VALUE` lines."""
    return "\n".join(f"{key}={value}" for key, value in env.items())


def split_env(text: str) -> dict[str, str]:
    """The environment in `KEY=VALUE` lines; blank lines are skipped, values are taken literally. Raises `GmgError`."""
    env: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        key, equals, value = line.partition("=")
        key = key.strip()
        if not equals:
            raise GmgError(f"environment, line {number}: expected KEY=VALUE")
        if not _KEY.fullmatch(key):
            raise GmgError(f"environment, line {number}: {key!r} is not a valid variable name")
        if key in env:
            raise GmgError(f"environment, line {number}: {key} is set twice")
        env[key] = value
    return env


def values_of(slot: str, slots: Sequence[str], job: JobRecord | None, count: int) -> dict[str, object]:
    """The values of the placeholders on `slot`, one of `slots`, or in a sweep for its `job`, one of `count`.

    A GPU's slot has the GPU's index in its name (`gpu3`, `gpu0-mig1`).
    """
    found = _GPU.match(slot)
    kind, gpu_index = (SlotKind.GPU, int(found[1])) if found else (SlotKind.CPU, None)
    if job is None:
        index = slots.index(slot) if slot in slots else 0
        return placeholders.values_for(Slot(slot, kind), index, len(slots), gpu_index)
    own = {"job": job.number, "name": job.name, **({"out_dir": job.out_dir} if job.out_dir is not None else {})}
    return placeholders.values_for(Slot(slot, kind), job.number - 1, count, gpu_index) | job.values | own


def scaled(line: str, column: int, factor: int) -> tuple[int, int, str] | None:
    """The number at `column` of `line`, doubled by a `factor` of 2 or halved by one of -2; None where there is none.

    Its start and end are given, and its replacement. A whole number stays whole, and is not halved below 1.
    """
    for match in _NUMBER.finditer(line):
        if match.start() <= column <= match.end():
            if match[0].isdecimal():
                number = int(match[0])
                fresh = str(number * 2 if factor > 0 else max(number // 2, min(number, 1)))
            else:
                fresh = f"{float(match[0]) * (2 if factor > 0 else 0.5):.12g}"
            return match.start(), match.end(), fresh
    return None
