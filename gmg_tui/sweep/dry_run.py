"""`sweep --dry-run`: the jobs as rows of a table, before any of them runs."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence

from gmg_tui import units
from gmg_tui.genesis.placeholders import fill, values_for
from gmg_tui.model import Group, Job, Slot, SlotKind

HEADER = ("job", "name", "GPUs", "command")

_BARE = re.compile(r"[\w@%+=:,./{}-]+", re.ASCII)
_WHERE = ("slot", "gpu")
"""Placeholders whose values are known only once a job starts."""


def rows(groups: Sequence[Group], jobs: Sequence[Job], *, total: int, cpu: int | None) -> Iterator[tuple[str, ...]]:
    """The cells of each job: number, name, GPUs, and command line with every placeholder filled in whose value is known.

    `total` is how many jobs the sweep has (`{n}`), `cpu` how many CPU slots are used instead of GPUs.
    """
    gpus = [_gpus(group, cpu) for group in groups]
    for job in jobs:
        yield str(job.number), job.name, job.only or gpus[job.group], _command(groups[job.group], job, total)


def count(groups: Sequence[Group], jobs: Sequence[Job]) -> str:
    """How many jobs there are, and how many of each preset."""
    text = units.count(len(jobs), "job")
    if len(groups) == 1:
        return text
    sizes = Counter(job.group for job in jobs)
    return f"{text}: " + ", ".join(f"{group.name} {sizes[number]:,}" for number, group in enumerate(groups))


def _gpus(group: Group, cpu: int | None) -> str:
    if cpu is not None:
        return units.count(cpu, "CPU slot")
    gpus = group.gpus or "all"
    gpus = f"first {gpus}" if gpus.isdecimal() else gpus.rstrip(",")
    return gpus if group.per_gpu == 1 else f"{gpus} ({group.per_gpu} jobs each)"


def _command(group: Group, job: Job, total: int) -> str:
    known = values_for(Slot("", SlotKind.CPU), job.number - 1, total, None)
    values = {**{name: value for name, value in known.items() if name not in _WHERE}, **job.values}
    values |= {"job": job.number, "name": job.name}
    if job.only is not None:
        values["slot"] = job.only
    if group.out_dir is not None:
        values["out_dir"] = fill(group.out_dir, values)
    env = [f"{name}={_quoted(fill(value, values))}" for name, value in group.env.items()]
    words = ["python", *(["-m"] if group.module else []), group.script, *(fill(arg, values) for arg in group.args)]
    return " ".join([*env, *map(_quoted, words)])


def _quoted(word: str) -> str:
    """`word` as a shell would read it; placeholders keep their braces unquoted."""
    if word and _BARE.fullmatch(word):
        return word
    return shlex.quote(word) if word.isprintable() else shlex.quote(repr(word)[1:-1])
