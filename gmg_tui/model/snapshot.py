"""A session at one moment, and what is asked for separately."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from gmg_tui.model.alert import Alert
from gmg_tui.model.attempt import Attempt
from gmg_tui.model.gpus import Gpu, GpuProcess, GpuSample
from gmg_tui.model.run import Allocation, NodeView, Session
from gmg_tui.model.states import WorkerState
from gmg_tui.model.tuning import Tuning
from gmg_tui.model.worker import RankGroup, Worker, own_rates


class Queue(Struct, frozen=True, omit_defaults=True):
    """Progress of a sweep, at one moment."""

    waiting: int
    running: int
    """Jobs that occupy a slot."""
    finished: int
    failed: int
    stopped: int
    """Stopped or skipped by the user."""
    version: int
    """Changes whenever a job, its position or a slot's use does."""
    eta_s: float | None = None
    """Seconds to the end of all jobs, from the times of those that have ended; None before the first."""
    before_s: float = 0.0
    """Run time of the sweep before it was resumed, in addition to `Snapshot.elapsed_s`."""
    ended: bool = False
    """True if no job runs and none will start."""
    benched: dict[str, str] = {}
    """Slots whose GPU is benched until a user allows it, each with one line on the reason."""
    stranded: bool = False
    """True if it has ended with waiting jobs, because every GPU that they may use is benched."""

    def after_loss(self) -> Queue:
        """Returns the queue once the engine has died: what ran waits."""
        return replace(self, waiting=self.waiting + self.running, running=0)

    @property
    def jobs(self) -> int:
        """Number of all jobs."""
        return self.waiting + self.running + self.done

    @property
    def done(self) -> int:
        """Number of the ended jobs."""
        return self.finished + self.failed + self.stopped


TERMINAL_WAYS = ("bell", "osc9", "osc777")
"""The values of `--notify` that the terminal itself notifies; every other is a command."""


class OccurrenceKind(StrEnum):
    """Kinds of occurrences; a command gets the value in `GMG_EVENT`."""

    STARTED = "started"
    """An attempt has started its process."""
    RECOVERED = "recovered"
    """A stuck worker has recovered."""
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
    """All workers have ended, and no job waits."""


class Occurrence(Struct, frozen=True, omit_defaults=True):
    """Something that has happened."""

    number: int
    """From 1, in order of time."""
    time: float
    """Unix time, seconds."""
    kind: OccurrenceKind
    text: str
    """One line on the occurrence and its place."""
    slot: str = ""
    job: int | None = None
    """Number of the job, in a sweep."""
    job_name: str = ""
    reason: str = ""
    """One line on the reason; empty if there is none."""
    alert: str = ""
    """The alert's kind."""
    quiet: bool = False
    """True if nobody is notified of it."""


class Snapshot(Struct, frozen=True, omit_defaults=True):
    """Everything about a session at one moment."""

    time: float
    """Unix time, seconds."""
    elapsed_s: float
    """Since the session's start; stands still while all workers have ended."""
    workers: tuple[Worker, ...]
    samples: tuple[GpuSample, ...] = ()
    """One for each GPU of the session's slots."""
    nvml_error: str | None = None
    """One line on why no GPU has metrics; None if all metrics are there, or no slot is a GPU."""
    alerts: tuple[Alert, ...] = ()
    """Alerts of the session itself: disk full, node lost …"""
    clients: int = 0
    queue: Queue | None = None
    """None in a plain run."""
    tuning: Tuning | None = None
    """None without a tuning."""
    groups: tuple[RankGroup, ...] = ()
    """Those whose ranks are on slots."""
    nodes: tuple[NodeView, ...] = ()
    """The session's machines; empty where it uses only its engine's machine."""
    allocation: Allocation | None = None
    """The Slurm job that the session runs in; None outside of one."""
    occurred: tuple[Occurrence, ...] = ()
    """The newest occurrences that users are notified of, the oldest first."""
    events: int = 0
    """Number of the newest occurrence of any kind."""

    @property
    def ended(self) -> bool:
        """True if all workers have ended, and no job waits."""
        if self.queue is not None:
            return self.queue.ended
        return all(worker.state.ended for worker in self.workers)

    @property
    def total_s(self) -> float:
        """Run time of the session, with the time before it was resumed."""
        return self.elapsed_s + (self.queue.before_s if self.queue is not None else 0.0)

    @property
    def outcome(self) -> str:
        """The end of the session in a word: `finished`, `failed` or `stopped`.

        A tuning has finished if it has an answer, whatever its trials did.
        """
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
        """The command's exit status once it has ended: 0 finished, 1 failed, 130 stopped by the user."""
        return {"finished": 0, "failed": 1, "stopped": 130}[self.outcome]

    @property
    def counted(self) -> tuple[Worker, ...]:
        """The workers that count for the session's totals.

        In a sweep a worker that has ended is merely the last job of its slot: the queue counts it among the others.
        """
        if self.queue is None:
            return self.workers
        return tuple(worker for worker in self.workers if not worker.state.ended)

    def after_loss(self, reason: str) -> Snapshot:
        """Returns the snapshot once the engine has died, which is the `reason`: no worker and no trial runs."""
        workers = tuple(
            worker
            if worker.state.ended
            else replace(worker, state=WorkerState.FAILED, alerts=(), stopping=None, reason=reason)
            for worker in self.workers
        )
        tuning, queue = self.tuning and self.tuning.after_loss(reason), self.queue and self.queue.after_loss()
        return replace(self, workers=workers, tuning=tuning, queue=queue)

    def worker(self, slot: str) -> Worker | None:
        """Returns the worker on `slot`."""
        return next((worker for worker in self.workers if worker.slot == slot), None)

    def group(self, slot: str) -> RankGroup | None:
        """Returns the group whose rank is on `slot`."""
        return next((group for group in self.groups if slot in group.slots), None)

    def sample(self, gpu: Gpu | None) -> GpuSample | None:
        """Returns the sample of `gpu`; None on a CPU slot or before the first."""
        if gpu is None:
            return None
        return next((sample for sample in self.samples if sample.uuid == gpu.uuid), None)


class Details(Struct, frozen=True, omit_defaults=True):
    """The details of a worker, requested when needed."""

    slot: str
    command: tuple[str, ...]
    """The whole command line of the current attempt."""
    cwd: str
    env: dict[str, str]
    """Variables that gmg-tui sets for this worker."""
    unset: tuple[str, ...]
    """Variables that gmg-tui removes from the environment for this worker."""
    egl: str
    """The origin of `EGL_DEVICE_ID`, or the reason why it is unset."""
    attempts: tuple[Attempt, ...]
    processes: tuple[GpuProcess, ...] | None = None
    """The processes on the slot's GPU, with their users and commands."""
    args: tuple[str, ...] = ()
    """The worker's arguments before placeholders were filled in."""
    extra_env: dict[str, str] = {}
    """The worker's `--env` before placeholders were filled in."""
    cpus: str = ""
    """The CPU cores near its GPU, which it is kept on, such as `0-31`; empty if it is not."""


class Series(Struct, frozen=True, omit_defaults=True):
    """A worker's metrics at even steps, oldest first; all lists have the same length, but `sm_pct` is empty if unknown.

    `None` stands for an unknown value; `fps` is the settled rate where there is one.
    """

    slot: str
    end: float
    """Unix time of the last step, seconds."""
    step_s: float
    fps: tuple[float | None, ...] = ()
    gpu_util_pct: tuple[float | None, ...] = ()
    memory_used_mib: tuple[float | None, ...] = ()
    power_w: tuple[float | None, ...] = ()
    sm_pct: tuple[float | None, ...] = ()
    """The share of the SMs that were busy."""


class Stacks(Struct, frozen=True, omit_defaults=True):
    """The Python stacks of one worker's first process."""

    slot: str
    rank: int | None = None
    """Its rank in its group; None outside a group."""
    text: str = ""
    """The stacks of all threads, innermost frame first, as `faulthandler` writes them."""
    error: str | None = None
    """One line on why there are none."""


def fps_per_watt(session: Session, snapshot: Snapshot) -> float | None:
    """Returns the FPS of the running workers on GPUs whose power is reported, per watt of these GPUs; None without one.

    To a rate that is a whole group's belong the GPUs of all its ranks.
    """
    gpus = {slot.name: slot.gpu for slot in session.slots}
    powers_w = {sample.uuid: sample.power_w for sample in snapshot.samples if sample.power_w is not None}
    fps, used_w = 0.0, dict[str, float]()
    for worker in own_rates(snapshot.workers):
        rate = worker.current_fps
        group = snapshot.group(worker.slot) if worker.newest.fps_of_group else None
        on = {gpu.uuid for slot in (group.slots if group else (worker.slot,)) if (gpu := gpus.get(slot)) is not None}
        if rate is not None and on and on <= powers_w.keys():
            fps += rate
            used_w.update((uuid, powers_w[uuid]) for uuid in on)  # once, however many workers share it
    watts = sum(used_w.values())
    return fps / watts if watts > 0 else None
