"""A worker and its attempts, at one moment."""

from __future__ import annotations

from msgspec import Struct

from gmg_tui.model.states import Phase, WorkerState


class Fps(Struct, frozen=True, omit_defaults=True):
    """Environment steps per second of one attempt, over all environments."""

    last: float
    """The number that the script printed last."""
    mean: float
    """Mean of the printed numbers."""
    max: float
    """Greatest of the printed numbers."""
    samples: int
    """How many numbers were printed."""
    rate: float | None = None
    """The rate won back from Genesis's moving average; None when the printed number is no average."""


class Progress(Struct, frozen=True, omit_defaults=True):
    """How far a run is, where the script says so."""

    done: float
    total: float
    unit: str
    """`iteration`, `step`, `it` …"""
    eta_s: float | None = None
    """Seconds to the end, from the pace of this attempt or as the script says."""


class Figures(Struct, frozen=True, omit_defaults=True):
    """What one attempt reached, to be held beside another's. Means are over the running phase."""

    attempt: int
    args: tuple[str, ...]
    fps: float | None = None
    """The number printed last."""
    rate: float | None = None
    n_envs: int | None = None
    gpu_util_pct: float | None = None
    memory_peak_mib: float | None = None
    power_w: float | None = None


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
    figures: Figures | None = None


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
    """How long this phase took the last time this script ran; None when never seen."""
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
    fps: Fps | None = None
    n_envs: int | None = None
    """As the script prints it; None when it does not."""
    progress: Progress | None = None
    device: str | None = None
    """The device that Genesis says it runs on."""
    backend: str | None = None
    """`cuda`, `cpu` … as Genesis says."""
    genesis_version: str | None = None
    warnings: tuple[str, ...] = ()
    """What is not as it should be while it runs: fell back to the CPU, sits on another card, log not written …"""
    stuck: str | None = None
    """What was seen, when the worker counts as stuck."""
    stopping: str | None = None
    """Which signal was sent and which follows when."""
    restart_in_s: float | None = None
    cpu_pct: float | None = None
    """CPU of the whole process tree, per cent of one core."""
    memory_rss_mib: float | None = None
    """Resident memory of the whole process tree."""
    last_line: str = ""
    """The newest line of output that is not blank, cleaned of control characters."""
    log_lines: int = 0
    """Lines of output so far, over all attempts."""
    now: Figures | None = None
    before: Figures | None = None
    """Figures of the attempt before the last change of arguments or environment."""
    gpu_util_mean_pct: float | None = None
    memory_peak_mib: float | None = None
    power_mean_w: float | None = None
    energy_j: float | None = None
    job: int | None = None
    """Number of the job in the queue, from 1; None in a plain run, and on a slot that no job has held yet."""
    job_name: str = ""
    timeout_s: float | None = None
    """How long an attempt may take; None for ever."""


def total_fps(workers: tuple[Worker, ...]) -> float | None:
    """The sum of the last printed FPS; None when there is none.

    While any worker is live, only running ones count: a failed worker's last number is no throughput any more. When
    all have ended it is the result: the sum over all workers that printed one, as in `summary.json`.
    """
    live = any(not worker.state.ended for worker in workers)
    counted = [w.fps.last for w in workers if w.fps and (not live or w.state is WorkerState.RUNNING)]
    return sum(counted) if counted else None


def fps_per_watt(workers: tuple[Worker, ...], powers_w: dict[str, float]) -> float | None:
    """The FPS of the running workers on cards whose power is known, per watt of these cards; None without one.

    Args:
        workers: The workers.
        powers_w: Power of each slot's card, by slot; slots of cards that do not say are left out.
    """
    pairs = [
        (worker.fps.last, powers_w[worker.slot])
        for worker in workers
        if worker.fps and worker.state is WorkerState.RUNNING and worker.slot in powers_w
    ]
    watts = sum(power for _, power in pairs)
    return sum(fps for fps, _ in pairs) / watts if watts > 0 else None
