"""`sweep --dry-run`: the jobs as rows of a table, before any of them runs."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence

from gmg_tui import units
from gmg_tui.genesis.placeholders import fill, values_for
from gmg_tui.model import Batch, Job, Slot, SlotKind

HEADER = ("job", "name", "GPUs", "command")

_BARE = re.compile(r"[\w@%+=:,./{}-]+", re.ASCII)
_WHERE = ("slot", "gpu")
"""Placeholders whose values are known only once a job starts."""


def rows(batches: Sequence[Batch], jobs: Sequence[Job], *, total: int, cpu: int | None) -> Iterator[tuple[str, ...]]:
    """The cells of each job: number, name, GPUs, and command line with every placeholder filled in whose value is known.

    `total` is how many jobs the sweep has (`{n}`), `cpu` how many CPU slots are used instead of GPUs.
    """
    gpus = [_gpus(batch, cpu) for batch in batches]
    for job in jobs:
        where = job.only or _of(job, gpus[job.batch])
        yield str(job.number), job.name, where, _command(batches[job.batch], job, total)


def count(batches: Sequence[Batch], jobs: Sequence[Job]) -> str:
    """How many jobs there are, and how many of each preset."""
    text = units.count(len(jobs), "job")
    if len(batches) == 1:
        return text
    sizes = Counter(job.batch for job in jobs)
    return f"{text}: " + ", ".join(f"{batch.name} {sizes[number]:,}" for number, batch in enumerate(batches))


def _gpus(batch: Batch, cpu: int | None) -> str:
    if cpu is not None:
        return units.count(cpu, "CPU slot")
    gpus = batch.gpus or "all"
    gpus = f"first {gpus}" if gpus.isdecimal() else gpus.rstrip(",")
    return gpus if batch.per_gpu == 1 else f"{gpus} ({batch.per_gpu} jobs each)"


def _of(job: Job, gpus: str) -> str:
    """How many of the slots a job takes at once."""
    if job.world_size is not None:
        return f"{units.count(job.world_size, 'rank')} on {gpus}"
    return gpus if job.gpus == 1 else f"{job.gpus} of {gpus}"


def _command(batch: Batch, job: Job, total: int) -> str:
    known = values_for(Slot("", SlotKind.CPU), job.number - 1, total, None)
    values = {**{name: value for name, value in known.items() if name not in _WHERE}, **job.values}
    values |= {"job": job.number, "name": job.name}
    if job.only is not None:
        values["slot"] = job.only
    if batch.out_dir is not None:
        values["out_dir"] = fill(batch.out_dir, values)
    env = [f"{name}={_quoted(fill(value, values))}" for name, value in batch.env.items()]
    words = ["python", *(["-m"] if batch.module else []), batch.script, *(fill(arg, values) for arg in batch.args)]
    return " ".join([*env, *map(_quoted, words)])


def _quoted(word: str) -> str:
    """`word` as a shell would read it; placeholders keep their braces unquoted."""
    if word and _BARE.fullmatch(word):
        return word
    return shlex.quote(word) if word.isprintable() else shlex.quote(repr(word)[1:-1])
