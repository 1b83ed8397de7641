"""The words of a queue as frozen types: job, group of jobs, and what became of a job.

A job is what to run; a slot is where. The plain run has one job, run once on every slot, and its records are one for
each slot; a sweep has many jobs, which wait in a queue for the next free slot.

Every quantity carries its unit in its name, as in the rest of the model; `None` means "not known", never 0.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct

from gmg_tui.model.states import WorkerState
from gmg_tui.model.worker import Fps

Value = bool | int | float | str
"""What a placeholder of the experiments' file can stand for."""


class Group(Struct, frozen=True, omit_defaults=True):
    """Jobs with the same settings: all of a sweep, or one of its presets. Groups run one after another."""

    name: str = ""
    """The preset's name; empty where there is none."""
    script: str = ""
    """As given in the file, beside which it is looked for."""
    args: tuple[str, ...] = ()
    """Placeholders not filled in."""
    env: dict[str, str] = {}
    """Placeholders not filled in."""
    module: bool = False
    """Whether the script is a module's name, as in `python -m`."""
    gpus: str | None = None
    """The cards that its jobs may run on, in the form of `--gpus`; None for all that the session has."""
    per_gpu: int = 1
    """Jobs on one card at once."""
    retries: int = 0
    """How often a failed job is run again, beside the restarts that `--restart startup` makes."""
    timeout_s: float | None = None
    """How long one attempt may take; None for ever."""
    min_free_mib: float | None = None
    """Memory of the card that must be free, as NVML sees it, before a job starts on it."""
    out_dir: str | None = None
    """The jobs' own folders, placeholders not filled in; None for `SLOT_NAME` in the results' folder."""


class Job(Struct, frozen=True, omit_defaults=True):
    """One of a sweep's runs."""

    number: int
    """From 1, in the order of the file: `{job}`."""
    name: str
    """Unlike any other's in the session; safe as a file's name: `{name}`."""
    group: int = 0
    """Place of its group in the sweep's groups, from 0."""
    values: dict[str, Value] = {}
    """What the file's placeholders stand for in this job."""


class SweepSpec(Struct, frozen=True, omit_defaults=True):
    """What `session.json` keeps of a sweep; its jobs are in the session's store."""

    groups: tuple[Group, ...]
    file: str | None = None
    """The experiments' file, absolute; None for a sweep without one."""
    results: str | None = None
    """A further folder for the results, absolute."""
    best: str | None = None
    """The column by which the final table is ordered, with `-` before it for the smallest first; None for the
    jobs' order."""


class JobRecord(Struct, frozen=True, omit_defaults=True):
    """A job and what became of it so far. Figures are those of its last attempt; times and energy are of all.

    A plain run has one for each slot, which has the slot's name.
    """

    number: int
    """From 1."""
    name: str
    group: int = 0
    values: dict[str, Value] = {}
    state: WorkerState = WorkerState.WAITING
    place: float = 0.0
    """Its place in the queue: the job with the smallest is the next."""
    reason: str | None = None
    """Why it failed, was stopped, or waits, in one line."""
    slot: str | None = None
    """Where it runs, or ran last."""
    gpu_index: int | None = None
    gpu_uuid: str | None = None
    attempts: int = 0
    exit_code: int | None = None
    """Of its last attempt, as `returncode` of asyncio."""
    started: float | None = None
    """Unix time of the first attempt's start, seconds."""
    ended: float | None = None
    """Unix time when it gave its slot back for the last time, seconds."""
    elapsed_s: float | None = None
    """How long it has held slots, all attempts and the pauses between them together."""
    fps: Fps | None = None
    n_envs: int | None = None
    memory_peak_mib: float | None = None
    gpu_util_mean_pct: float | None = None
    power_mean_w: float | None = None
    energy_j: float | None = None
    """Of all attempts together."""
    out_dir: str | None = None
    """Its own folder, absolute."""
    log: str | None = None
    """Path of its log in the session's folder."""
    result: dict[str, Any] = {}
    """What the script reported itself, by `gmg:result` lines and `result.json`."""


class QueueAction(StrEnum):
    """What a person can do to jobs."""

    UP = "up"
    """One place nearer to the head of the queue."""
    DOWN = "down"
    TOP = "top"
    """To the head of the queue."""
    SKIP = "skip"
    """A job that waits is not run; one that runs is stopped."""
    RETRY = "retry"
    """A job that has ended is run again, as the next of its group."""


class Lane(Struct, frozen=True, omit_defaults=True):
    """A slot of a sweep, as the queue sees it."""

    slot: str
    used: bool = True
    """Whether jobs may start on it."""
    job: int | None = None
    """Number of the job that holds it."""
    waits: str | None = None
    """Why the next job does not start on it, in one line."""


class QueueView(Struct, frozen=True, omit_defaults=True):
    """A part of the queue, for a screen."""

    version: int
    """The `Queue.version` that it shows."""
    first: int
    """How many records stand before these."""
    total: int
    """How many there are in all."""
    jobs: tuple[JobRecord, ...]
    """Ended jobs in the order in which they ended, then those that run, then those that wait, the next first."""
    lanes: tuple[Lane, ...]
    groups: tuple[str, ...]
    """The groups' names, in their order."""
