"""The vocabulary of a queue as frozen types: job, and a job's outcome.

A job is what to run; a slot is where. The plain run has one job, run once on every slot, and its records are one for
each slot; a sweep has many jobs, which wait in a queue for the next free slot.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct

from gmg_tui.model.attempt import NO_ATTEMPT, Attempt
from gmg_tui.model.states import WorkerState

Value = bool | int | float | str
"""The value of a placeholder in the experiments' file."""


MAX_NAMES = 1000
"""Limits the names of results in a session."""


class SweepSpec(Struct, frozen=True, omit_defaults=True):
    """The part of a sweep in `session.json` besides its program; its jobs are in the session's store."""

    per_gpu: int = 1
    """Jobs on one GPU at once."""
    timeout_s: float | None = None
    """Time limit of an attempt; None for no limit."""
    file: str | None = None
    """The experiments' file, absolute; None for a sweep without one."""
    best: str | None = None
    """The column to sort its final table by, with a leading `-` for the smallest first."""
    retry_failed: bool = False
    """True if a resuming engine runs failed jobs again."""


class JobRecord(Struct, frozen=True, omit_defaults=True):
    """A job and its outcome so far. A plain run has one for each slot, which has the slot's name."""

    number: int
    """From 1, in the order of the file: `{job}`."""
    name: str
    """Unique in the session; safe as a file name: `{name}`."""
    values: dict[str, Value] = {}
    """The values of the file's placeholders in this job."""
    state: WorkerState = WorkerState.WAITING
    position: float = 0.0
    """Its position in the queue: the job with the smallest is the next."""
    reason: str | None = None
    """One line on why it failed, was stopped, or waits."""
    only: str | None = None
    """The slot that it must run on; None for any."""
    world_size: int | None = None
    """Number of its ranks, each on a slot of its own; None for one process."""
    group: str | None = None
    """Its group's name."""
    rank: int | None = None
    """In a plain run, the one that the slot's worker is in its group; None for a sweep's job, which is all ranks."""
    slot: str | None = None
    """Its current or last slot; the first of several."""
    slots: tuple[str, ...] = ()
    """All its slots, in the order of its ranks; empty where it takes only one."""
    gpu_uuid: str | None = None
    last: Attempt = NO_ATTEMPT
    """Its newest attempt, of all ranks `together`."""
    started: float | None = None
    """Unix time of the first attempt's start, seconds."""
    ended: float | None = None
    """Unix time when it left its last slot, seconds."""
    elapsed_s: float | None = None
    """Its run time from the start of its first process, including the pauses between attempts."""
    energy_j: float | None = None
    """Of all attempts, which `last.energy_j` is not."""
    args: tuple[str, ...] | None = None
    """Its arguments, placeholders not filled in, if they were edited; None for the sweep's."""
    env: dict[str, str] = {}
    """Its environment, likewise, if its arguments were edited."""
    edited_from: int | None = None
    """Number of the job that it was edited from."""
    log: str | None = None
    """Path of its log in the session's folder."""
    result: dict[str, Any] | None = {}
    """The script's results, from `gmg:result` lines; empty where clients see it. None: they are where they were recorded
    before, as the engine keeps none in memory."""

    @property
    def width(self) -> int:
        """Number of slots that it takes at once."""
        return self.world_size or 1


SKIPPED = "skipped"
"""The reason of a job that was skipped while it waited."""


class QueueAction(StrEnum):
    """The user's actions on jobs."""

    SKIP = "skip"
    """Do not run a job that waits."""
    STOP = "stop"
    """Stop a job that runs."""
    RETRY = "retry"
    """Run a job that has ended again, as the next one."""
