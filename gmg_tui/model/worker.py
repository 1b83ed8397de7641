"""A worker and its attempts, at one moment."""

from __future__ import annotations

from typing import Protocol, TypeVar

from msgspec import Struct, UnsetType

from gmg_tui.model.states import Phase, WorkerState

_BUSY = "busy"
"""What is said for the state of a worker that works without a line, in a phase that may have ended unseen."""
_SAVING = "saving"
"""What is said for its state while Genesis saves its kernels at the end, whatever it has done before."""
_LOST = "lost"
"""What is said for the state of a worker whose node is lost."""
_UNDISTURBED = frozenset({WorkerState.STARTING, WorkerState.BUILDING, WorkerState.COMPILING, WorkerState.RUNNING})


class Fps(Struct, frozen=True, omit_defaults=True):
    """Environment steps per second of one attempt, over all environments."""

    last: float
    """The number printed last."""
    mean: float
    max: float
    samples: int
    """How many numbers were printed."""
    settled: float | None = None
    """Environment steps by wall time over the last seconds, won back from the printed numbers; None where not known."""
    spread: float | None = None
    """The standard deviation of the settled rate's parts: the periods of a loop with stalls, else its seconds."""

    @property
    def best_known(self) -> float:
        """The settled rate, or the number printed last where that is not known."""
        return self.last if self.settled is None else self.settled


class Progress(Struct, frozen=True, omit_defaults=True):
    """How far a run is, if the script reports it."""

    done: float
    total: float
    unit: str
    """`iteration`, `step`, `it` …"""
    eta_s: float | None = None
    """Seconds to the end, from the pace of this attempt or from the script."""
    pace_per_s: float | None = None
    """Units a second, as the script says; None where it does not."""
    reward: str = ""
    """rsl_rl's mean reward, as printed; empty where there is none."""


class AttemptMetrics(Struct, frozen=True, omit_defaults=True):
    """What one attempt reached, to be compared with another's. Means are over the running phase."""

    attempt: int
    args: tuple[str, ...]
    fps: float | None = None
    """The number printed last."""
    settled: float | None = None
    """As `Fps.settled`."""
    n_envs: int | None = None
    gpu_util_pct: float | None = None
    memory_peak_mib: float | None = None
    power_w: float | None = None
    fps_mean: float | None = None
    """The mean of the printed numbers."""
    given: tuple[str, ...] | None = None
    """`args` before what differs from worker to worker was filled in: of the placeholders only a job's values are. None
    in older records."""
    env: dict[str, str] = {}
    """The environment that was given for the worker, filled in as `given` is."""
    spread: float | None = None
    """As `Fps.spread`."""
    running_s: float | None = None
    """How long it has been in its running phase. None in older records."""


class Settings(Struct, frozen=True, omit_defaults=True):
    """What a worker is started with, placeholders not filled in."""

    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    """As given by `--env`, or in the edit dialog."""


class Attempt(Struct, frozen=True, omit_defaults=True):
    """One process of a worker."""

    number: int
    """From 1."""
    args: tuple[str, ...]
    pid: int | None = None
    started: float = 0.0
    """Unix time, seconds."""
    ended: float | None = None
    exit_code: int | None = None
    """As `returncode` of asyncio: negative is a signal's number."""
    state: WorkerState = WorkerState.STARTING
    reason: str | None = None
    metrics: AttemptMetrics | None = None


class Rank(Struct, frozen=True, omit_defaults=True):
    """A worker's place in its group."""

    id: str
    """The group's: `g0`, `g1` …"""
    rank: int
    """From 0."""
    world_size: int
    """How many ranks the group has."""


class Worker(Struct, frozen=True, omit_defaults=True):
    """A job on a slot, at one moment."""

    slot: str
    index: int
    """0, 1, 2 … among the session's workers."""
    state: WorkerState
    state_s: float = 0.0
    """Seconds in this state."""
    phase: Phase = Phase.NONE
    phase_s: float = 0.0
    """Seconds in this phase."""
    phase_usual_s: float | None = None
    """How long this phase usually takes in a start like this one, cold or warm; None if unknown."""
    silent_s: float | None = None
    """Seconds of work without a line, in a phase that may have ended unseen; None otherwise."""
    args: tuple[str, ...] = ()
    attempt: int = 0
    """Number of the current attempt, from 1; 0 before the first."""
    attempt_s: float | None = None
    """Seconds since the attempt's start, or from its start to its end; None before the first."""
    pid: int | None = None
    exit_code: int | None = None
    reason: str | None = None
    """Why it failed, or what it waits for, in one line."""
    advice: str | None = None
    """What helps, in one line."""
    out_of_memory: bool = False
    """Whether it has failed because its GPU's memory was too small: with the same settings it would again."""
    fps: Fps | None = None
    fps_silent_s: float | None = None
    """Seconds since the last number, where these are several times as many as usual; None while `fps` is current."""
    n_envs: int | None = None
    """As the script prints it, or its arguments name it; None otherwise."""
    progress: Progress | None = None
    device: str | None = None
    """The device that Genesis says it runs on."""
    backend: str | None = None
    """`cuda`, `cpu` … as Genesis says."""
    genesis_version: str | None = None
    warnings: tuple[str, ...] = ()
    """Warnings while it runs: fell back to the CPU, is on another GPU, log not written …"""
    stuck: str | None = None
    """What was observed, when the worker counts as stuck."""
    stopping: str | None = None
    """Which signal was sent, and how long its effect is waited for."""
    restart_in_s: float | None = None
    cpu_pct: float | None = None
    """CPU of the whole process tree, per cent of one core."""
    memory_rss_mib: float | None = None
    """Resident memory of the whole process tree."""
    last_line: str = ""
    """The newest line of output that is not blank, without control characters."""
    log_lines: int = 0
    """Lines of output so far, over all attempts."""
    output_bytes: int | None = None
    """Output of this attempt so far, bytes; None where that is not known."""
    warning_lines: int = 0
    """Warnings that this attempt has printed, at most 9,999; `warnings` are what gmg-tui makes of some."""
    error_lines: int = 0
    """Errors and exceptions that this attempt has printed, at most 9,999."""
    now: AttemptMetrics | None = None
    before: AttemptMetrics | None = None
    """Figures of the attempt to compare with since the last change of arguments or environment: the last one that had a
    settled rate, else one that had printed FPS; none that failed."""
    gpu_util_mean_pct: float | None = None
    memory_peak_mib: float | None = None
    power_mean_w: float | None = None
    energy_j: float | None = None
    below_median_pct: float | None = None
    """How far its settled rate is below the median of the slots with the same arguments, per cent (negative), where that
    is more than a few; None otherwise."""
    job: int | None = None
    """Number of the job in the queue, from 1; None in a plain run, and on a slot that no job has occupied yet."""
    job_name: str = ""
    timeout_s: float | None = None
    """How long an attempt may take; None for no limit."""
    group: Rank | None = None
    """None for a worker that is no rank of a group."""
    lost_since: float | None = None
    """Unix time since which its node is lost; None while it is not."""
    fps_of_group: bool = False
    """Whether `fps` is the whole group's, which rank 0 reports, and not this rank's own."""
    fps_in_rank_0: bool = False
    """Whether rank 0 reports for the whole group, this other rank included; `fps` is then its own, or None."""

    @property
    def state_word(self) -> str:
        """The state in one word: `busy` while nobody can say which of two it is, `saving` at the end, `lost` with its node."""
        if self.lost_since is not None:
            return _LOST
        if self.phase is Phase.SAVING and self.state in _UNDISTURBED:
            return _SAVING
        # Where phases are not printed, building may have ended at any time.
        untold = self.phase is Phase.AT_WORK and self.state is WorkerState.BUILDING
        return _BUSY if untold or self.silent_s is not None else self.state.value

    @property
    def current_fps(self) -> float | None:
        """The rate at which it runs: the settled one where that is known; None unless it runs, and still says so."""
        silent = self.fps_silent_s is not None or self.lost_since is not None
        if self.fps is None or self.state is not WorkerState.RUNNING or silent:
            return None
        return self.fps.best_known


class _Rated(Protocol):
    """A worker, as far as it says whose its rate is."""

    @property
    def group(self) -> Rank | UnsetType | None: ...

    @property
    def fps_of_group(self) -> bool | UnsetType: ...


_RatedT = TypeVar("_RatedT", bound=_Rated)


def own_rates(workers: tuple[_RatedT, ...]) -> tuple[_RatedT, ...]:
    """The workers whose rates add up: where one reports its whole group's, without the group's others."""
    whole = {one.group.id for one in workers if one.group and one.fps_of_group}
    return tuple(one for one in workers if not one.group or one.group.id not in whole or one.fps_of_group)


def total_fps(workers: tuple[Worker, ...]) -> float | None:
    """The sum of the workers' rates; None when there is none.

    While any worker is live, only current ones count: a failed worker's last number is no longer throughput. When
    all have ended it is the result: the sum over all workers that printed one. Where a rank reports its whole group's
    rate, that of the others is part of it.
    """
    workers = own_rates(workers)
    if any(not worker.state.ended for worker in workers):
        counted = [rate for worker in workers if (rate := worker.current_fps) is not None]
    else:
        counted = [worker.fps.best_known for worker in workers if worker.fps]
    return sum(counted) if counted else None
