"""Facts about a worker's speed, and the verdict on its bottleneck."""

from msgspec import Struct

from gmg_tui.model.gpus import GpuSample
from gmg_tui.model.states import Phase, WorkerState


class Load(Struct, frozen=True, omit_defaults=True):
    """The load of a worker's processes over about a second, from `/proc` (proc(5)); unknown values are None."""

    main_cpu_pct: float | None = None
    """CPU of the stepping process's main thread, in percent of one core: `task/TID/schedstat`."""
    main_delay_pct: float | None = None
    """Share of time that this thread waited for a core: `schedstat`."""
    ready_pct: float | None = None
    """Share of time that this thread ran, waited for a core, or was paused by a quota: samples of its state."""
    cpu_pct: float | None = None
    """CPU of all threads, in percent of one core."""
    ready: float | None = None
    """Mean number of threads that ran or waited for a core."""
    threads: int | None = None
    cores: float | None = None
    """Cores that its affinity mask and cgroups allow."""
    throttled_pct: float | None = None
    """Share of the cgroup's periods in which its CPU quota ran out: `nr_throttled` in `cpu.stat`."""
    quota: float | None = None
    """The cgroup's CPU quota, in cores."""
    waits_pct: dict[str, float] = {}
    """Share of time the main thread waited, by wait reason: `sleep`, `file`, `lock`, `message`, `child`, `driver`,
    `disk`, `terminal`; samples of `/proc/PID/syscall` and its state."""
    file: str = ""
    """The file that the main thread waited for most often."""
    stopped: bool = False
    """True if a signal or debugger has stopped the process."""
    cpus: tuple[int, ...] = ()
    """CPUs that the main thread ran on: `stat`."""
    major_faults_per_s: float | None = None
    """Page faults of the stepping process that read from disk."""
    swap_mib: float | None = None
    """Memory of the stepping process in swap: `VmSwap`."""
    swapped_mib_per_s: float | None = None
    """Traffic of the machine's swap: `pswpin` and `pswpout` of `/proc/vmstat`."""
    read_mib_per_s: float | None = None
    """Reads of the stepping process from disks: `/proc/PID/io`."""


class Shares(Struct, frozen=True):
    """Shares of an attempt's last seconds, in percent, as measured by the probe."""

    simulator: float
    """Time in `step`, without rendering."""
    learning: float
    """Time in backward passes, and between them if no step intervenes."""
    rendering: float

    @property
    def script(self) -> float:
        """Time in the script's own code: the rest."""
        return max(0.0, 100.0 - self.simulator - self.learning - self.rendering)

    @property
    def by_name(self) -> dict[str, float]:
        """All shares by name."""
        return {name: getattr(self, name) for name in ("simulator", "script", "learning", "rendering")}


class HotSpot(Struct, frozen=True):
    """The script's function that is innermost in most stacks."""

    function: str
    file: str
    line: int
    share_pct: float
    """Share of the stacks outside simulator steps."""
    samples: int
    """Number of those stacks."""
    stepping_pct: float
    """Share of all stacks within a step."""


class Verdict(Struct, frozen=True, omit_defaults=True):
    """The bottleneck of a worker."""

    kind: str
    """A short name such as `script`, set by `diagnosis.verdicts`."""
    text: str
    certain: bool = True
    """False if the facts also fit another cause: `text` then begins with `probably`."""
    evidence: tuple[str, ...] = ()
    advice: str = ""


class SpeedFacts(Struct, frozen=True, omit_defaults=True):
    """A snapshot of the facts about a worker's speed; unknown ones are None."""

    slot: str
    state: WorkerState
    phase: Phase = Phase.NONE
    phase_s: float = 0.0
    phase_usual_s: float | None = None
    reason: str | None = None
    stuck: str | None = None
    """Text of its alert `stuck`."""
    misplaced: str | None = None
    """Text of its alert `cpu` or `misplaced`."""
    waits_for: str | None = None
    """The rank it waits for, with the evidence."""
    n_envs: int | None = None
    tuned_envs: int | None = None
    """The `n_envs` that a tuning run of the script recommends."""
    shares: Shares | None = None
    load: Load | None = None
    """None if its processes are gone or on another machine."""
    has_gpu: bool = False
    gpu_util_pct: float | None = None
    """Mean over the last 10 s, like `sm_pct`."""
    sm_pct: float | None = None
    """Share of busy SMs: GPM."""
    sample: GpuSample | None = None
    """The newest sample of its GPU, without processes."""
    sharers: tuple[str, ...] = ()
    """Other processes that compute on the GPU."""
    remote_cpus: tuple[int, ...] = ()
    """CPUs of the main thread on another NUMA node than the GPU's: sysfs."""
    numa_node: int | None = None
    hot_spot: HotSpot | None = None
    """None unless stacks were taken."""
    recorded: Verdict | None = None
    """Verdict on its last attempt, once that has ended."""
