"""Snapshots of a session, and the details that clients request."""

from enum import StrEnum
from typing import Annotated, Self

from msgspec import Meta, Struct
from msgspec.structs import replace

from gmg_tui.model import units
from gmg_tui.model.alert import Alert
from gmg_tui.model.attempt import Attempt
from gmg_tui.model.gpus import Gpu, GpuProcess, GpuSample
from gmg_tui.model.run import Allocation, NodeView, Session
from gmg_tui.model.states import WorkerState
from gmg_tui.model.tuning import Tuning
from gmg_tui.model.worker import RankGroup, Worker, summable

_MAX_SLOTS = 1 << 14


class Queue(Struct, frozen=True, omit_defaults=True):
    """A snapshot of a sweep's progress."""

    waiting: int
    running: int
    """Jobs on a slot."""
    finished: int
    failed: int
    stopped: int
    """Stopped or skipped by the user."""
    version: int
    """Number that changes with any job, position or benched slot."""
    eta_s: float | None = None
    """Seconds until the end of all jobs, estimated from those that have ended."""
    before_s: float = 0.0
    """Run time before it was resumed, in addition to `Snapshot.elapsed_s`."""
    ended: bool = False
    """True if no job is running and none will start."""
    benched: dict[str, str] = {}
    """Reasons for benched GPUs, by slot."""
    stranded: bool = False
    """True if it ended with waiting jobs, because all their GPUs are benched."""

    def after_loss(self) -> Self:
        """Returns the queue after the engine's death: running jobs wait again."""
        return replace(self, waiting=self.waiting + self.running, running=0)

    @property
    def jobs(self) -> int:
        """Number of all jobs."""
        return self.waiting + self.running + self.done

    @property
    def done(self) -> int:
        """Number of the ended jobs."""
        return self.finished + self.failed + self.stopped

    def progress(self, tuning: Tuning | None = None) -> str:
        """Returns its progress: `12/30 jobs, 3 active, 1 failed`; or a tuning's: `4/18 trials, 2 active`."""
        noun, total = ("job", self.jobs) if tuning is None else ("trial", max(self.jobs, tuning.total))
        states = (("active", self.running), ("failed", self.failed), ("stopped", self.stopped))
        counts = (f"{number:,} {word}" for word, number in states if number)
        return ", ".join((f"{self.done:,}/{units.count(total, noun)}", *counts))


TERMINAL_NOTIFICATIONS = ("bell", "osc9", "osc777")
"""The values of `--notify` that are terminal notifications; any other is a command."""


class OccurrenceKind(StrEnum):
    """Kinds of occurrences; the value of `GMG_EVENT` for `--notify` commands."""

    STARTED = "started"
    """An attempt has started its process."""
    RECOVERED = "recovered"
    """An alert has cleared while its worker was still running."""
    RESTARTING = "restarting"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"
    """A worker has failed, and is not restarted."""
    STUCK = "stuck"
    ALERT = "alert"
    """An alert was raised, or acted on."""
    JOB_FAILED = "job-failed"
    """A job of a sweep has failed, and is not retried."""
    ENDED = "ended"


class Occurrence(Struct, frozen=True, omit_defaults=True):
    """An event of the session."""

    number: int
    """From 1, in order of time."""
    time: float
    """Unix time, seconds."""
    kind: OccurrenceKind
    text: str
    slot: str = ""
    job: int | None = None
    job_name: str = ""
    reason: str = ""
    alert: str = ""
    """Kind of the alert, if it is about one."""
    quiet: bool = False
    """True for events without a notification."""


class Snapshot(Struct, frozen=True, omit_defaults=True):
    """A snapshot of everything in a session."""

    time: float
    """Unix time, seconds."""
    elapsed_s: float
    """Seconds since the session's start, without the time during which all workers had ended."""
    workers: Annotated[tuple[Worker, ...], Meta(max_length=_MAX_SLOTS)]
    samples: Annotated[tuple[GpuSample, ...], Meta(max_length=_MAX_SLOTS)] = ()
    """One for each GPU of the session's slots."""
    nvml_error: str | None = None
    """Reason in one line if no GPU has metrics."""
    alerts: tuple[Alert, ...] = ()
    """Alerts of the session itself: disk full, node lost …"""
    clients: int = 0
    saved: bool = True
    """False until all work has ended and the engine no longer waits to write its results."""
    queue: Queue | None = None
    """None in a plain run."""
    tuning: Tuning | None = None
    groups: tuple[RankGroup, ...] = ()
    """Groups that occupy slots."""
    nodes: tuple[NodeView, ...] = ()
    """Empty unless the session uses `--nodes`."""
    allocation: Allocation | None = None
    """The Slurm job that the session runs in."""
    occurred: tuple[Occurrence, ...] = ()
    """The newest occurrences with a notification, oldest first."""
    events: int = 0
    """Number of the newest occurrence of any kind."""

    @property
    def ended(self) -> bool:
        """True if all workers have ended, no job is waiting, and the engine has stopped waiting to write the results."""
        return self.saved and self.work_ended

    @property
    def is_saving(self) -> bool:
        """True if all work has ended, but the engine still waits to write the results."""
        return self.work_ended and not self.saved

    @property
    def work_ended(self) -> bool:
        """True if all workers have ended and no job is waiting; the results may not be written yet."""
        if self.queue is not None:
            return self.queue.ended
        return all(worker.state.ended for worker in self.workers)

    @property
    def total_s(self) -> float:
        """Run time of the session, including the time before it was resumed."""
        return self.elapsed_s + (self.queue.before_s if self.queue is not None else 0.0)

    @property
    def outcome(self) -> str:
        """`finished`, `failed` or `stopped`; a tuning run with an answer has finished, even if trials failed."""
        queue, tuning = self.queue, self.tuning
        if tuning is not None:
            stopped = tuning.stopped
            failed = not stopped and tuning.answer.fastest is None
        elif queue is not None:
            failed, stopped = queue.failed > 0 or queue.stranded, queue.finished < queue.jobs
        else:
            states = {worker.state for worker in self.workers}
            failed, stopped = WorkerState.FAILED in states, WorkerState.STOPPED in states
        return "failed" if failed else "stopped" if stopped else "finished"

    @property
    def exit_status(self) -> int:
        """The command's exit status once the session has ended."""
        return {"finished": 0, "failed": 1, "stopped": 130}[self.outcome]

    @property
    def counted(self) -> tuple[Worker, ...]:
        """The workers in the session's totals; in a sweep, without the ended ones, whose jobs the queue counts."""
        if self.queue is None:
            return self.workers
        return tuple(worker for worker in self.workers if not worker.state.ended)

    def after_loss(self, reason: str) -> Self:
        """Returns the snapshot after the engine's death: workers that had not ended have failed for that `reason`.

        A queue's slots without a job keep the reason that they were idle.
        """
        lost = {"state": WorkerState.FAILED, "alerts": (), "stopping": None, "reason": reason}
        lost |= {"cpu_pct": None, "memory_rss_mib": None}
        idle = {worker.slot for worker in self.workers if self.queue is not None and worker.job is None}
        workers = tuple(
            worker if worker.state.ended or worker.slot in idle else replace(worker, **lost) for worker in self.workers
        )
        tuning, queue = self.tuning and self.tuning.after_loss(reason), self.queue and self.queue.after_loss()
        return replace(self, workers=workers, tuning=tuning, queue=queue, saved=True)

    def worker(self, slot: str) -> Worker | None:
        """Returns the worker on `slot`, if any."""
        return next((worker for worker in self.workers if worker.slot == slot), None)

    def group(self, slot: str) -> RankGroup | None:
        """Returns the group with a rank on `slot`, if any."""
        return next((group for group in self.groups if slot in group.slots), None)

    def sample(self, gpu: Gpu | None) -> GpuSample | None:
        """Returns the sample of `gpu`, if any."""
        if gpu is None:
            return None
        return next((sample for sample in self.samples if sample.uuid == gpu.uuid), None)


class Details(Struct, frozen=True, omit_defaults=True):
    """The details of a worker."""

    slot: str
    command: tuple[str, ...]
    """Command line of the newest attempt."""
    cwd: str
    env: dict[str, str]
    """Variables that gmg-tui sets."""
    unset: tuple[str, ...]
    """Variables that gmg-tui unsets."""
    egl: str
    """Origin of `EGL_DEVICE_ID`, or the reason it is unset."""
    attempts: tuple[Attempt, ...]
    processes: tuple[GpuProcess, ...] | None = None
    """Processes on the slot's GPU."""
    args: tuple[str, ...] = ()
    """Arguments, placeholders not filled in."""
    extra_env: dict[str, str] = {}
    """Environment of `--env`, placeholders not filled in."""
    cpus: str = ""
    """CPU cores it is pinned to, such as `0-31`; empty if not pinned."""


class Series(Struct, frozen=True, omit_defaults=True):
    """A worker's metrics at even steps, oldest first. All have the same length, but `sm_pct` is empty if unknown."""

    slot: str
    end: float
    """Unix time of the last step."""
    step_s: float
    fps: tuple[float | None, ...] = ()
    gpu_util_pct: tuple[float | None, ...] = ()
    memory_used_mib: tuple[float | None, ...] = ()
    power_w: tuple[float | None, ...] = ()
    sm_pct: tuple[float | None, ...] = ()


class Stacks(Struct, frozen=True, omit_defaults=True):
    """The Python stacks of a worker's first process."""

    slot: str
    rank: int | None = None
    """None outside a group."""
    text: str = ""
    """Stacks of all threads, innermost frame first, as written by `faulthandler`."""
    error: str | None = None
    """Reason in one line if there are none."""


def fps_per_watt(session: Session, snapshot: Snapshot) -> float | None:
    """Returns the FPS per watt of running workers on GPUs with known power; None if there are none.

    A whole group's rate counts with the GPUs of all its ranks.
    """
    gpus = {slot.name: slot.gpu for slot in session.slots}
    powers_w = {sample.uuid: sample.power_w for sample in snapshot.samples if sample.power_w is not None}
    fps, used_w = 0.0, dict[str, float]()
    for worker in summable(snapshot.workers):
        rate = worker.current_fps
        group = snapshot.group(worker.slot) if worker.newest.fps_of_group else None
        uuids = {gpu.uuid for slot in (group.slots if group else (worker.slot,)) if (gpu := gpus.get(slot)) is not None}
        if rate is not None and uuids and uuids <= powers_w.keys():
            fps += rate
            used_w.update((uuid, powers_w[uuid]) for uuid in uuids)  # once, however many workers share it
    watts = sum(used_w.values())
    return fps / watts if watts > 0 else None
