"""Arguments and environment as text: formatting, parsing, placeholders."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from gmg_tui import placeholders
from gmg_tui.errors import GmgError
from gmg_tui.model import JobRecord, Slot, SlotKind
from gmg_tui.ui.view import View

_BARE: Final = re.compile(r"[\w@%+=:,./{}-]+", re.ASCII)
_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
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


def placeholder_values(view: View, name: str, job: JobRecord | None) -> dict[str, object]:
    """The values of the placeholders on the slot called `name`, in a sweep for its `job`."""
    slot = view.slot(name) or Slot(name, SlotKind.CPU)
    gpu_index = slot.gpu.index if slot.gpu is not None else None
    if job is None:
        index = view.present.index(name) if name in view.present else 0
        return placeholders.values_for(slot, index, len(view.present), gpu_index)
    count = view.queue.jobs if view.queue is not None else 0
    of_job = {"job": job.number, "name": job.name}
    return placeholders.values_for(slot, job.number - 1, count, gpu_index) | job.values | of_job
