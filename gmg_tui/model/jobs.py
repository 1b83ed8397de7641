"""The vocabulary of a queue as frozen types: job, batch of jobs, and a job's outcome.

A job is what to run; a slot is where. The plain run has one job, run once on every slot, and its records are one for
each slot; a sweep has many jobs, which wait in a queue for the next free slot.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from gmg_tui.model.attempt import NO_ATTEMPT, Attempt
from gmg_tui.model.states import WorkerState

Value = bool | int | float | str
"""The value of a placeholder in the experiments' file."""


class Batch(Struct, frozen=True, omit_defaults=True):
    """Jobs with the same settings: all of a sweep, or one of its presets. Batches run one after another."""

    name: str = ""
    """The preset's name; empty where there is none."""
    script: str = ""
    """As given in the file, relative to it."""
    args: tuple[str, ...] = ()
    """Placeholders not filled in."""
    env: dict[str, str] = {}
    """Placeholders not filled in."""
    module: bool = False
    """Whether the script is a module's name, as in `python -m`."""
    gpus: str | None = None
    """The GPUs that its jobs may run on, in the form of `--gpus`; None for all of the session's."""
    per_gpu: int = 1
    """Jobs on one GPU at once."""
    retries: int = 0
    """How often a failed job is retried, besides the restarts of `--restart startup`."""
    timeout_s: float | None = None
    """How long one attempt may take; None for no limit."""
    min_free_mib: float | None = None
    """Memory of the GPU that must be free, as NVML sees it, before a job starts on it."""
    out_dir: str | None = None
    """The jobs' folders, placeholders not filled in; None for the job's name in the results' folder."""


class SweepSpec(Struct, frozen=True, omit_defaults=True):
    """What `session.json` keeps of a sweep; its jobs are in the session's store."""

    batches: tuple[Batch, ...] = field(name="groups")
    file: str | None = None
    """The experiments' file, absolute; None for a sweep without one."""
    best: str | None = None
    """The column by which the final table is ordered, with `-` before it for the smallest first; None for the
    jobs' order."""
    retry_failed: bool = False
    """Whether an engine that goes on with it runs failed jobs again."""


class JobRecord(Struct, frozen=True, omit_defaults=True):
    """A job and its outcome so far. A plain run has one for each slot, which has the slot's name."""

    number: int
    """From 1, in the order of the file: `{job}`."""
    name: str
    """Unique in the session; safe as a file name: `{name}`."""
    batch: int = 0
    """Position of its batch in the sweep's batches, from 0."""
    values: dict[str, Value] = {}
    """The values of the file's placeholders in this job."""
    state: WorkerState = WorkerState.WAITING
    position: float = 0.0
    """Its position in the queue: the job with the smallest is the next."""
    reason: str | None = None
    """Why it failed, was stopped, or waits, in one line."""
    only: str | None = None
    """The slot that it must run on; None for any of its batch's."""
    gpus: int = 1
    """How many slots it takes at once."""
    world_size: int | None = None
    """How many ranks it has, one on each of its slots; None where it is one process that sees them all."""
    group: str | None = None
    """Its group's name."""
    rank: int | None = None
    """In a plain run, the one that the slot's worker is in its group; None for a sweep's job, which is all ranks."""
    slot: str | None = None
    """Where it runs, or ran last; the first of several."""
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
    """How long it has run, from its first process on, including the pauses between attempts."""
    energy_j: float | None = None
    """Of all attempts, which `last.energy_j` is not."""
    out_dir: str | None = None
    """Its folder, absolute; from its first attempt on the same for all, wherever they run."""
    log: str | None = None
    """Path of its log in the session's folder."""
    result: dict[str, Any] | None = {}
    """The script's results, from `gmg:result` lines and `result.json`; empty in a `QueueView`. None: they are
    where they were recorded before, as the engine keeps none in memory."""


SKIPPED = "skipped"
"""The reason of a job that was skipped while it waited."""


class QueueAction(StrEnum):
    """The user's actions on jobs."""

    SKIP = "skip"
    """Do not run a job that waits."""
    STOP = "stop"
    """Stop a job that runs."""
    RETRY = "retry"
    """Run a job that has ended again, as the next of its batch."""


class Lane(Struct, frozen=True, omit_defaults=True):
    """A slot of a sweep, as the queue sees it."""

    slot: str
    used: bool = True
    """Whether jobs may start on it."""
    job: int | None = None
    """Number of the job that occupies it."""
    waits: str | None = None
    """Why the next job does not start on it, in one line."""
    benched: str | None = None
    """Why no job starts on its GPU until a user allows it, in one line; None while jobs start."""


class QueueView(Struct, frozen=True, omit_defaults=True):
    """A part of the queue, for a screen."""

    version: int
    """The `Queue.version` of this view."""
    first: int
    """How many records precede these."""
    total: int
    """How many there are in all."""
    jobs: tuple[JobRecord, ...]
    """Ended jobs in the order in which they ended, then those that run, then those that wait, the next first."""
    lanes: tuple[Lane, ...]
    batches: tuple[str, ...]
    """The batches' names, in their order."""
