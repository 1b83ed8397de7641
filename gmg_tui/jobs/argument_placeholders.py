"""Placeholders in a worker's arguments and environment: `{slot}`, `{gpu}`, `{i}`, `{n}`, `{seed}`, a sweep's values.

Workers that share a folder delete each other's checkpoints (Genesis' go2_train.py removes `logs/<exp_name>`), and
workers with the same seed compute the same thing; `-e run-{i} --seed {seed}` prevents both.
"""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gmg_tui.model import Slot
from gmg_tui.model.errors import GmgError, join_words, suggest

WORKER_NAMES = ("slot", "gpu", "i", "n", "seed")
"""Placeholders of every worker."""
JOB_NAMES = ("job", "name")
"""Placeholders of a sweep's jobs, besides the values of the experiments file."""
CHECKPOINT_NAMES = ("checkpoint", "checkpoint_dir", "checkpoint_name", "checkpoint_dir_name")
"""Placeholders of `--resume-args`."""
NAME_PATTERN = re.compile(r"[A-Za-z_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?")
"""A placeholder's name; with dots and dashes for hydra's `optim.lr` and the names of options."""

_PLACEHOLDER = re.compile(r"(?P<foreign>\$\{NAME\})|\{\{|\}\}|\{(?P<name>NAME)\}".replace("NAME", NAME_PATTERN.pattern))
_NEEDS_NO_QUOTES = re.compile(r"[\w@%+=:,./{}-]+", re.ASCII)
_SEED_STEP = 1000
"""Difference between the seeds of two workers: scripts count up from a seed for their environments."""


def fill(text: str, values: Mapping[str, object]) -> str:
    """Fills in the placeholders of `text` from `values` in one pass; values are not expanded again.

    `{{` becomes `{`, and the closing `}}` becomes `}`. Other braces stay: names missing in `values`, hydra's `${…}`,
    and JSON, even nested, where `}}` closes two single braces. Booleans become `true` and `false`.
    """
    open_doubled = 0

    def replacement(match: re.Match[str]) -> str:
        nonlocal open_doubled
        name = match["name"]
        if name is not None:
            return as_text(values[name]) if name in values else match[0]
        if match["foreign"] is not None:
            return match[0]
        if match[0] == "{{":
            open_doubled += 1
            return "{"
        if open_doubled == 0:
            return "}}"
        open_doubled -= 1
        return "}"

    return _PLACEHOLDER.sub(replacement, text)


def fill_some(text: str, values: Mapping[str, object]) -> str:
    """Fills in only the placeholders in `values`; a later `fill` with the other values completes the text."""

    def replacement(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None or name not in values:
            return match[0]
        value_text = as_text(values[name])
        return value_text.replace("{", "{{").replace("}", "}}") if "{" in value_text else value_text

    return _PLACEHOLDER.sub(replacement, text)


def names_in(text: str) -> tuple[str, ...]:
    """Returns the names of the placeholders in `text`, each once, in order."""
    return tuple(dict.fromkeys(match["name"] for match in _PLACEHOLDER.finditer(text) if match["name"] is not None))


def check_names(texts: Iterable[str], known: Sequence[str]) -> None:
    """Raises `GmgError` for a placeholder that is not `known`, such as a mistyped one."""
    for name in (name for text in texts for name in names_in(text)):
        if name not in known:
            hint = suggest(name, known) or f"; available: {join_words(known)}"
            raise GmgError(f"{{{name}}} has no value{hint}; for literal braces, write {{{{{name}}}}}")


def join_args(args: Sequence[str]) -> str:
    """Joins arguments in shell syntax, without quoting the braces of placeholders."""
    return " ".join(arg if _NEEDS_NO_QUOTES.fullmatch(arg) else shlex.quote(arg) for arg in args)


def as_text(value: object) -> str:
    """Formats a value for a placeholder: booleans as in TOML and JSON, all others like `str`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def checkpoint_values(path: Path) -> dict[str, object]:
    """Returns the values of `CHECKPOINT_NAMES` for a checkpoint's path."""
    return dict(zip(CHECKPOINT_NAMES, (path, path.parent, path.stem, path.parent.name), strict=True))


def values_for(slot: Slot, index: int, count: int, gpu_index: int | None) -> dict[str, object]:
    """Returns the values of `WORKER_NAMES` for worker `index` of `count` on `slot`, the same for each attempt.

    `{gpu}` is the NVML index of the slot's GPU, not the CUDA ordinal, which is 0 in every worker; on a CPU slot it
    is the worker's number, so that command lines for GPUs still distinguish the workers.
    """
    return {
        "slot": slot.name,
        "gpu": index if gpu_index is None else gpu_index,
        "i": index,
        "n": count,
        "seed": index * _SEED_STEP + 1,
    }
