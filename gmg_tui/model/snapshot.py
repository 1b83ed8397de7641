"""A session at one moment, and what is asked for beside it."""

from __future__ import annotations

from msgspec import Struct

from gmg_tui.model.cards import Gpu, GpuProcess, GpuReading
from gmg_tui.model.worker import Attempt, Worker


class Queue(Struct, frozen=True, omit_defaults=True):
    """How far a sweep is, at one moment."""

    waiting: int
    running: int
    """Jobs that hold a slot."""
    finished: int
    failed: int
    stopped: int
    """Stopped or skipped by a person."""
    version: int
    """Another number whenever a job, its place or a slot's use has changed."""
    group: str = ""
    """Name of the preset whose jobs run."""
    eta_s: float | None = None
    """Seconds to the end of all jobs, from the times of those that have ended; None before the first."""
    busy_s: float = 0.0
    """How long all jobs together have held slots."""
    before_s: float = 0.0
    """How long the sweep was at work before it was resumed; `Snapshot.elapsed_s` comes to that."""
    ended: bool = False
    """Whether no job runs and none will start."""

    @property
    def jobs(self) -> int:
        """How many there are."""
        return self.waiting + self.running + self.done

    @property
    def done(self) -> int:
        """How many have ended."""
        return self.finished + self.failed + self.stopped


class Snapshot(Struct, frozen=True, omit_defaults=True):
    """Everything about a session at one moment."""

    time: float
    """Unix time, seconds."""
    elapsed_s: float
    """Since the session's start; stands still while all workers have ended."""
    workers: tuple[Worker, ...]
    readings: tuple[GpuReading, ...] = ()
    """One for each card of the session's slots."""
    nvml_error: str | None = None
    """Why there are no figures of any card, in one line; None where all is well or no slot is a card."""
    notes: tuple[str, ...] = ()
    """What a person should know of the session itself: disk full, folder gone …"""
    clients: int = 0
    queue: Queue | None = None
    """None in a plain run."""

    @property
    def ended(self) -> bool:
        """Whether all workers have ended, and no job waits."""
        if self.queue is not None:
            return self.queue.ended
        return all(worker.state.ended for worker in self.workers)

    @property
    def counted(self) -> tuple[Worker, ...]:
        """The workers that the session's totals are of.

        In a sweep a worker that has ended is merely the last job of its slot: the queue counts it among the others.
        """
        if self.queue is None:
            return self.workers
        return tuple(worker for worker in self.workers if not worker.state.ended)

    def worker(self, slot: str) -> Worker | None:
        """The worker on `slot`."""
        return next((worker for worker in self.workers if worker.slot == slot), None)

    def reading(self, gpu: Gpu | None) -> GpuReading | None:
        """The reading of `gpu`; None on a CPU slot or before the first."""
        if gpu is None:
            return None
        return next((reading for reading in self.readings if reading.uuid == gpu.uuid), None)


class Details(Struct, frozen=True, omit_defaults=True):
    """What a details screen shows beside the snapshot; asked for when needed."""

    slot: str
    command: tuple[str, ...]
    """The whole command line of the current attempt."""
    cwd: str
    env: dict[str, str]
    """What gmg-tui sets for this worker."""
    unset: tuple[str, ...]
    """What gmg-tui removes from the environment for this worker."""
    egl: str
    """How `EGL_DEVICE_ID` was found, or why it is unset."""
    attempts: tuple[Attempt, ...]
    processes: tuple[GpuProcess, ...] | None = None
    """The processes on the slot's card, with their users and commands."""
    args: tuple[str, ...] = ()
    """The worker's arguments before placeholders were filled in."""
    extra_env: dict[str, str] = {}
    """The worker's `--env` before placeholders were filled in."""


class Series(Struct, frozen=True, omit_defaults=True):
    """A worker's figures at even steps, oldest first; all lists have the same length.

    `None` stands where a figure was not known at that step.
    """

    slot: str
    end: float
    """Unix time of the last step, seconds."""
    step_s: float
    fps: tuple[float | None, ...] = ()
    gpu_util_pct: tuple[float | None, ...] = ()
    memory_used_mib: tuple[float | None, ...] = ()
    power_w: tuple[float | None, ...] = ()
