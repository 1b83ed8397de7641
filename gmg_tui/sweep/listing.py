"""A sweep's jobs written down before they run."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence

from gmg_tui.genesis.placeholders import fill, values_for
from gmg_tui.model import Group, Job, Slot, SlotKind

HEADER = ("job", "name", "cards", "command")
LEFT = frozenset({"name", "cards", "command"})
"""The columns that are set to the left."""

_BARE = re.compile(r"[\w@%+=:,./{}-]+", re.ASCII)
_WHERE = ("slot", "gpu")
"""What nobody knows before a job starts."""


def rows(groups: Sequence[Group], jobs: Sequence[Job], *, total: int, cpu: int | None) -> Iterator[tuple[str, ...]]:
    """The cells of each job: number, name, cards, and command line with all filled in that is known before it starts.

    Args:
        groups: The sweep's.
        jobs: Those to write down.
        total: How many jobs the sweep has: `{n}`.
        cpu: How many CPU slots take the place of cards.
    """
    cards = [_cards(group, cpu) for group in groups]
    for job in jobs:
        yield str(job.number), job.name, cards[job.group], _command(groups[job.group], job, total)


def count(groups: Sequence[Group], jobs: Sequence[Job]) -> str:
    """How many jobs there are, and how many of each preset."""
    text = f"{len(jobs):,} job" + ("" if len(jobs) == 1 else "s")
    if len(groups) == 1:
        return text
    sizes = Counter(job.group for job in jobs)
    return f"{text}: " + ", ".join(f"{group.name} {sizes[place]:,}" for place, group in enumerate(groups))


def _cards(group: Group, cpu: int | None) -> str:
    if cpu is not None:
        return f"{cpu} CPU slot" + ("" if cpu == 1 else "s")
    cards = group.gpus or "all"
    cards = f"first {cards}" if cards.isdecimal() else cards.rstrip(",")
    return cards if group.per_gpu == 1 else f"{cards} ({group.per_gpu} jobs each)"


def _command(group: Group, job: Job, total: int) -> str:
    # The slot does not matter to those that are taken of what it gives.
    always = values_for(Slot("", SlotKind.CPU), job.number - 1, total, None)
    values = {**{name: value for name, value in always.items() if name not in _WHERE}, **job.values}
    values |= {"job": job.number, "name": job.name}
    if group.out_dir is not None:
        values["out_dir"] = fill(group.out_dir, values)
    env = [f"{name}={_quoted(fill(value, values))}" for name, value in group.env.items()]
    words = ["python", *(["-m"] if group.module else []), group.script, *(fill(arg, values) for arg in group.args)]
    return " ".join([*env, *map(_quoted, words)])


def _quoted(word: str) -> str:
    """`word` as a shell would read it; the braces of placeholders are left bare."""
    if word and _BARE.fullmatch(word):
        return word
    return shlex.quote(word) if word.isprintable() else shlex.quote(repr(word)[1:-1])
