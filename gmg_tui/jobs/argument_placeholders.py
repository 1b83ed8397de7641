"""`{slot}`, `{gpu}`, `{i}`, `{n}` and `{seed}` in a worker's arguments and environment; in a sweep also its values.

Workers that write to one folder delete each other's checkpoints (Genesis's go2_train.py removes `logs/<exp_name>`), and
workers with one seed compute the same thing: `-e run-{i} --seed {seed}` helps against both.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gmg_tui.model import Slot
from gmg_tui.model.errors import GmgError, listed, nearest

NAMES = ("slot", "gpu", "i", "n", "seed")
"""Placeholders of every worker."""
JOB_NAMES = ("job", "name")
"""Further placeholders of a sweep's jobs, besides the values of the experiments file."""
CHECKPOINT_NAMES = ("checkpoint", "checkpoint_dir", "checkpoint_name", "checkpoint_dir_name")
"""Further placeholders of `--resume-args`."""
NAME = re.compile(r"[A-Za-z_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?")
"""A placeholder's name; dots and dashes allow hydra's `optim.lr` and the names of options."""

_MARK = re.compile(r"(?P<foreign>\$\{NAME\})|\{\{|\}\}|\{(?P<name>NAME)\}".replace("NAME", NAME.pattern))
_BARE = re.compile(r"[\w@%+=:,./{}-]+", re.ASCII)
_SEED_STEP = 1000
"""Between the seeds of two workers: scripts that derive a seed for each environment add small numbers."""


def fill(text: str, values: Mapping[str, object]) -> str:
    """`text` with its placeholders filled in from `values`, in one pass: filled-in values are not expanded again.

    `{{` becomes `{`, and the `}}` that closes it becomes `}`. All else in braces stays as it is: names that `values`
    lacks, hydra's `${…}`, JSON, also nested JSON, where `}}` closes two braces that stood alone. Booleans are filled in
    as `true` and `false`.
    """
    doubled = 0

    def value(match: re.Match[str]) -> str:
        nonlocal doubled
        name = match["name"]
        if name is not None:
            return as_text(values[name]) if name in values else match[0]
        if match["foreign"] is not None:
            return match[0]
        if match[0] == "{{":
            doubled += 1
            return "{"
        if doubled == 0:
            return "}}"
        doubled -= 1
        return "}"

    return _MARK.sub(value, text)


def fill_some(text: str, values: Mapping[str, object]) -> str:
    """`text` with only those placeholders filled in that `values` has.

    What `fill` makes of the rest afterwards is what it would make of all at once.
    """

    def value(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None or name not in values:
            return match[0]
        value_text = as_text(values[name])
        return value_text.replace("{", "{{").replace("}", "}}") if "{" in value_text else value_text

    return _MARK.sub(value, text)


def names_in(text: str) -> tuple[str, ...]:
    """The names of the placeholders in `text`, each once, in order."""
    return tuple(dict.fromkeys(match["name"] for match in _MARK.finditer(text) if match["name"] is not None))


def check_names(texts: Iterable[str], known: Sequence[str]) -> None:
    """Raises `GmgError` for a placeholder without a value, such as a mistyped one."""
    for name in (name for text in texts for name in names_in(text)):
        if name not in known:
            raise GmgError(
                f"{{{name}}} has no value{nearest(name, known)}; there are: {listed(known)}; "
                f"literal braces are {{{{{name}}}}}"
            )


def join_args(args: Sequence[str]) -> str:
    """Arguments as one line of shell syntax; braces of placeholders are not quoted."""
    return " ".join(arg if _BARE.fullmatch(arg) else shlex.quote(arg) for arg in args)


def as_text(value: object) -> str:
    """A value as filled in: booleans as in TOML and JSON, all else as Python prints it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def checkpoint_values(path: Path) -> dict[str, object]:
    """Returns the values of the further placeholders of `--resume-args` for a checkpoint's path."""
    return dict(zip(CHECKPOINT_NAMES, (path, path.parent, path.stem, path.parent.name), strict=True))


def values_for(slot: Slot, index: int, count: int, gpu_index: int | None) -> dict[str, object]:
    """Returns the values of the placeholders of the worker on `slot`, the same at each attempt.

    Args:
        slot: Where the worker runs.
        index: The worker's number, from 0: `{i}`.
        count: How many workers there are: `{n}`.
        gpu_index: NVML index of the slot's GPU: `{gpu}`. None on a CPU slot, where `{gpu}` is the worker's number, so
            that a command line made for GPUs still distinguishes the workers. It is not the CUDA ordinal to pass to
            torch: that is 0 in every worker.

    `{seed}` is 1000 times the worker's number, plus one: it differs from worker to worker by more than the environments
    of a script that derives their seeds by counting up from it.
    """
    return {
        "slot": slot.name,
        "gpu": index if gpu_index is None else gpu_index,
        "i": index,
        "n": count,
        "seed": index * _SEED_STEP + 1,
    }
