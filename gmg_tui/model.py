"""The words of gmg-tui as frozen types: slot, job, worker, attempt, session, snapshot.

Every quantity carries its unit in its name: `_mib` mebibytes, `_w` watts, `_s` seconds, `_pct` per cent, `_c` degrees
Celsius, `_mhz` megahertz, `_j` joules. `None` means "not known" or "the card does not say", never 0.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class WorkerState(StrEnum):
    """What a worker is doing, in the words that the screen shows."""

    WAITING = "waiting"
    """For the start gate or for the queue."""
    STARTING = "starting"
    """The process is spawned and has printed nothing."""
    BUILDING = "building"
    """Genesis initialises, adds entities, prepares meshes or builds the scene."""
    COMPILING = "compiling"
    """Genesis compiles its kernels, or builds the visualizer after that."""
    RUNNING = "running"
    """Progress has been reported (or, for a script without Genesis, anything at all)."""
    STOPPING = "stopping"
    """A signal was sent and the process is still there."""
    RESTARTING = "restarting"
    """Between two attempts."""
    FINISHED = "finished"
    """Ended with exit code 0."""
    FAILED = "failed"
    """Ended otherwise, by itself; the worker's `reason` says why in one line."""
    STOPPED = "stopped"
    """Ended by a person."""

    @property
    def ended(self) -> bool:
        """Whether no process is left and none will follow unless a person asks for one."""
        return self in _ENDED

    @property
    def live(self) -> bool:
        """Whether a process of this worker exists."""
        return self in _LIVE


_ENDED = frozenset({WorkerState.FINISHED, WorkerState.FAILED, WorkerState.STOPPED})
_LIVE = frozenset(
    {
        WorkerState.STARTING,
        WorkerState.BUILDING,
        WorkerState.COMPILING,
        WorkerState.RUNNING,
        WorkerState.STOPPING,
    }
)


class Phase(StrEnum):
    """Where a Genesis script is, finer than `WorkerState`; the value is what the screen shows."""

    NONE = ""
    """No process."""
    IMPORTING = "importing"
    """Nothing printed yet: Python imports torch and Genesis."""
    INITIALISING = "initialising"
    CREATING = "creating scene"
    ADDING = "adding entities"
    MESHES = "preparing meshes"
    BUILDING = "building scene"
    COMPILING = "compiling kernels"
    VISUALIZER = "building visualizer"
    RUNNING = "running"
    SAVING = "saving kernels"
    """After `Exiting Genesis and caching compiled kernels...`."""


class SlotKind(StrEnum):
    """What a slot is a share of."""

    GPU = "gpu"
    MIG = "mig"
    CPU = "cpu"


class StartWay(StrEnum):
    """How a session's workers start (`--start`)."""

    GATED = "gated"
    """The first one alone, the others once it has written its mesh caches."""
    TOGETHER = "together"
    STAGGERED = "staggered"
    """One after another, some seconds apart."""


class RestartWhen(StrEnum):
    """When a worker that has ended is started again by itself (`--restart`)."""

    NEVER = "never"
    STARTUP = "startup"
    """After failures that a retry heals, before the first progress."""
    FAILURE = "failure"
    ALWAYS = "always"


class Gpu(Struct, frozen=True, omit_defaults=True):
    """One card, or one MIG instance of a card, as NVML knows it; what does not change while it runs."""

    index: int
    """NVML index of the card (of the parent card for a MIG instance), in PCI bus order."""
    uuid: str
    """`GPU-…`, or `MIG-…` for an instance."""
    name: str
    pci_bus_id: str | None = None
    memory_total_mib: int | None = None
    power_limit_w: float | None = None
    persistence: bool | None = None
    """Whether the driver keeps the card initialised with no client (persistence mode)."""
    mig_index: int | None = None
    """Index of the instance on its card; None for a whole card."""
    parent_uuid: str | None = None
    """UUID of the card that a MIG instance is on."""
    mig: bool = False
    """Whether the card is in MIG mode: nothing runs on the card as a whole, only on its instances."""


class Slot(Struct, frozen=True, omit_defaults=True):
    """A place where one worker can run."""

    name: str
    """`gpu0`, `gpu0-mig1` or `cpu0`."""
    kind: SlotKind
    gpu: Gpu | None = None
    """None on a CPU slot."""
    node: str = "local"


class GpuProcess(Struct, frozen=True, omit_defaults=True):
    """A process that holds memory on a card. NVML gives PIDs of the host's PID namespace."""

    pid: int
    name: str | None = None
    memory_mib: float | None = None
    user: str | None = None
    command: str | None = None
    age_s: float | None = None
    slot: str | None = None
    """The slot of this session whose worker's process tree it belongs to; None for anybody else's."""


class GpuReading(Struct, frozen=True, omit_defaults=True):
    """What a card said at one moment. A figure that it does not support is None."""

    uuid: str
    lost: bool = False
    """Whether NVML says that the card is lost (`NVML_ERROR_GPU_IS_LOST`), or cannot reach it any more."""
    error: str | None = None
    """Why there are no figures, in one line."""
    gpu_util_pct: float | None = None
    memory_util_pct: float | None = None
    memory_used_mib: float | None = None
    memory_total_mib: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    sm_clock_mhz: float | None = None
    sm_clock_max_mhz: float | None = None
    throttle: tuple[str, ...] | None = None
    """Reasons why the clocks are below their maximum; empty when there are none."""
    fan_pct: float | None = None
    pcie_rx_mib_s: float | None = None
    pcie_tx_mib_s: float | None = None
    energy_j: float | None = None
    """The card's energy counter, since the driver was loaded."""
    processes: tuple[GpuProcess, ...] | None = None


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


class Snapshot(Struct, frozen=True, omit_defaults=True):
    """Everything about a session at one moment."""

    time: float
    """Unix time, seconds."""
    elapsed_s: float
    """Since the session's start; stands still once all workers have ended."""
    workers: tuple[Worker, ...]
    readings: tuple[GpuReading, ...] = ()
    """One for each card of the session's slots."""
    nvml_error: str | None = None
    """Why there are no figures of any card, in one line; None where all is well or no slot is a card."""
    notes: tuple[str, ...] = ()
    """What a person should know of the session itself: disk full, folder gone …"""
    clients: int = 0

    @property
    def ended(self) -> bool:
        """Whether all workers have ended."""
        return all(worker.state.ended for worker in self.workers)

    def worker(self, slot: str) -> Worker | None:
        """The worker on `slot`."""
        return next((worker for worker in self.workers if worker.slot == slot), None)

    def reading(self, gpu: Gpu | None) -> GpuReading | None:
        """The reading of `gpu`; None on a CPU slot or before the first."""
        if gpu is None:
            return None
        return next((reading for reading in self.readings if reading.uuid == gpu.uuid), None)


class RunSpec(Struct, frozen=True, omit_defaults=True):
    """What to run and how: the command line after reading, and what `session.json` keeps of it."""

    name: str
    folder: str
    """The session's folder, absolute."""
    socket: str
    """The path of the engine's socket, absolute."""
    script: str
    """As given."""
    args: tuple[str, ...]
    """As given, placeholders not filled in."""
    cwd: str
    python: str
    """The workers' interpreter."""
    module: bool = False
    env: dict[str, str] = {}
    """As given by `--env`, placeholders not filled in."""
    gpus: str | None = None
    """The value of `--gpus`."""
    cpu: int | None = None
    """The value of `--cpu`."""
    interval_s: float = 1.0
    summary: str | None = None
    """A further file for the summary, absolute."""
    sigint_wait_s: float = 15.0
    """How long a worker may take to end after SIGINT; Genesis saves its compiled kernels in this time."""
    sigterm_wait_s: float = 10.0
    start: StartWay | None = None
    """None: gated where the script's caches are cold, else together."""
    restart: RestartWhen = RestartWhen.STARTUP
    max_restarts: int = 3
    """How often in a row a worker is started again by itself."""
    stuck_after_s: float = 60.0
    """Seconds without output and without CPU time before a worker is called stuck."""
    restart_stuck: bool = False
    host: str = ""
    """The machine that it runs on (`uname -n`); several may share the state folder."""


class Session(Struct, frozen=True, omit_defaults=True):
    """What does not change while a session runs."""

    spec: RunSpec
    slots: tuple[Slot, ...]
    engine_pid: int
    started: float
    """Unix time, seconds."""
    version: str
    """The version of gmg-tui that the engine is."""

    def slot(self, name: str) -> Slot | None:
        """The slot called `name`."""
        return next((slot for slot in self.slots if slot.name == name), None)


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
