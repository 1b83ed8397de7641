"""`sweep --dry-run`: the jobs, before any of them runs."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Sequence

from gmg_tui import tables, units
from gmg_tui.columns import Column
from gmg_tui.model import Batch, JobRecord, Slot, SlotKind
from gmg_tui.placeholders import fill, values_for

_BARE = re.compile(r"[\w@%+=:,./{}-]+", re.ASCII)
_WHERE = ("slot", "gpu")
"""Placeholders that get their values when a job starts."""


def show(batches: Sequence[Batch], jobs: Sequence[JobRecord], *, total: int) -> None:
    """Print the jobs, their number, and each one's command with every placeholder filled in that has a value before the start.

    `total` is how many jobs the sweep has (`{n}`).
    """
    columns = (
        Column[JobRecord]("job", lambda job: job.number),
        Column[JobRecord]("name", lambda job: job.name, left=True),
        Column[JobRecord]("command", lambda job: _command(batches[job.batch], job, total), left=True),
    )
    print("\n".join(tables.terminal(columns, jobs)))
    sizes = Counter(job.batch for job in jobs)
    each = ", ".join(f"{batch.name} {sizes[number]:,}" for number, batch in enumerate(batches))
    print(units.count(len(jobs), "job") + (f": {each}" if len(batches) > 1 else ""))


def _command(batch: Batch, job: JobRecord, total: int) -> str:
    values_of_slot = values_for(Slot("", SlotKind.CPU), job.number - 1, total, None)
    values = {**{name: value for name, value in values_of_slot.items() if name not in _WHERE}, **job.values}
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
