"""`{slot}`, `{gpu}`, `{i}`, `{n}` and `{seed}` in a worker's arguments and environment.

Workers that write to one folder delete each other's checkpoints (Genesis's go2_train.py removes `logs/<exp_name>`), and
workers with one seed compute the same thing: `-e run-{i} --seed {seed}` helps against both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gmg_tui.model import Slot

NAMES = ("slot", "gpu", "i", "n", "seed")
"""All that is filled in."""

_MARK = re.compile(r"\{\{|\}\}|\{(" + "|".join(NAMES) + r")\}")
_SEED_STEP = 1000
"""Between the seeds of two workers: scripts that derive a seed for each environment add small numbers to it."""


def fill(text: str, values: Mapping[str, object]) -> str:
    """`text` with its placeholders filled in.

    `{{` becomes `{`, and the `}}` that closes it becomes `}`. All else in braces stays as it is: hydra's `${…}`, JSON,
    also nested JSON, where `}}` closes two braces that stood alone.
    """
    doubled = 0

    def value(match: re.Match[str]) -> str:
        nonlocal doubled
        name = match[1]
        if name is not None:
            return str(values.get(name, match[0]))
        if match[0] == "{{":
            doubled += 1
            return "{"
        if doubled == 0:
            return "}}"
        doubled -= 1
        return "}"

    return _MARK.sub(value, text)


def values_for(slot: Slot, index: int, count: int, gpu_index: int | None) -> dict[str, object]:
    """What the placeholders of the worker on `slot` stand for, the same at each attempt.

    Args:
        slot: Where the worker runs.
        index: The worker's number, from 0: `{i}`.
        count: How many workers there are: `{n}`.
        gpu_index: NVML index of the slot's card: `{gpu}`. None on a CPU slot, where `{gpu}` is the worker's number, so
            that a command line made for cards still tells the workers apart. It is not the CUDA ordinal to pass to
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
