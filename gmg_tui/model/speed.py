"""The facts about a worker's speed, and the verdict on what bounds it."""

from __future__ import annotations

from msgspec import Struct

from gmg_tui.model.states import Phase, WorkerState


class Load(Struct, frozen=True, omit_defaults=True):
    """The load of a worker's processes over a second, from `/proc` (proc(5)). None if unknown."""

    main_cpu_pct: float | None = None
    """CPU of the main thread of the process that steps, per cent of one core: `task/TID/schedstat`."""
    main_delay_pct: float | None = None
    """Share of the time that this thread was ready and waited for a core: `schedstat`."""
    ready_pct: float | None = None
    """Share of the time that it was on a core, or ready for one or paused by a quota: samples of its state."""
    cpu_pct: float | None = None
    """CPU of all threads, per cent of one core."""
    ready: float | None = None
    """Mean number of threads that ran or waited for a core."""
    threads: int | None = None
    cores: float | None = None
    """Cores that its affinity mask and cgroups allow."""
    throttled_pct: float | None = None
    """Share of the cgroup's periods that ended early, its CPU quota used up: `nr_throttled` in `cpu.stat`. None without a quota."""
    quota: float | None = None
    """The cgroup's CPU quota, in cores; None without."""
    waits_pct: dict[str, float] = {}
    """Share of the time that the main thread waited, by what for: `sleep`, `file`, `lock`, `message`, `child`, `driver`,
    `disk`; from samples of `/proc/PID/syscall` and of its state."""
    file: str = ""
    """The file that it waited for most; empty if unknown."""
    stopped: bool = False
    """True if a signal or a debugger has stopped it."""
    cpus: tuple[int, ...] = ()
    """The CPUs that the main thread ran on: `stat`."""
    major_faults_per_s: float | None = None
    """Page faults of that process that read from a disk."""
    swap_mib: float | None = None
    """Its memory in swap: `VmSwap`."""
    swapped_mib_per_s: float | None = None
    """Traffic of the machine's swap: `pswpin` and `pswpout` of `/proc/vmstat`."""
    read_mib_per_s: float | None = None
    """From disks, by that process: `/proc/PID/io`."""


class Shares(Struct, frozen=True):
    """The time of an attempt's last seconds, shared out by the probe, per cent."""

    simulator: float
    """In `step`, without rendering."""
    learning: float
    """In a learner: backward passes, and what is between them without a step."""
    rendering: float

    @property
    def script(self) -> float:
        """The rest: the script's own code."""
        return max(0.0, 100.0 - self.simulator - self.learning - self.rendering)


class HotSpot(Struct, frozen=True):
    """The function at the top of most of the script's stacks."""

    function: str
    file: str
    line: int
    share_pct: float
    """The share of the stacks outside of the simulator's steps."""
    samples: int
    """Number of these stacks."""
    stepping_pct: float
    """Share of all stacks that were within a step."""


class SpeedFacts(Struct, frozen=True, omit_defaults=True):
    """All facts about a worker's speed at one moment. None if unknown."""

    slot: str
    state: WorkerState
    phase: Phase = Phase.NONE
    phase_s: float = 0.0
    """Seconds since it is in this phase."""
    phase_usual_s: float | None = None
    reason: str | None = None
    """The reason why it failed, or waits."""
    stuck: str | None = None
    """The alert that it is stuck."""
    misplaced: str | None = None
    """The alert that it runs on the CPU, or on another GPU."""
    waits_for: str | None = None
    """The rank of its group that it waits for, and the evidence."""
    n_envs: int | None = None
    tuned_envs: int | None = None
    """The number of environments that a tuning of the script has recommended."""
    shares: Shares | None = None
    """The time of the last seconds: the probe's."""
    load: Load | None = None
    """None if its processes are gone, or on another machine."""
    has_gpu: bool = False
    gpu_util_pct: float | None = None
    """NVML's, mean of the last 10 s, as is the next."""
    sm_pct: float | None = None
    """Share of busy SMs: GPM."""
    memory_util_pct: float | None = None
    sm_clock_mhz: float | None = None
    sm_clock_max_mhz: float | None = None
    throttle: tuple[str, ...] | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    pcie_mib_s: float | None = None
    """The greater of both directions."""
    pcie_gen: int | None = None
    pcie_gen_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    sharers: tuple[str, ...] = ()
    """Other processes that compute on the GPU."""
    remote_cpus: tuple[int, ...] = ()
    """CPUs of the main thread that are on another NUMA node than the GPU: sysfs."""
    numa_node: int | None = None
    """The GPU's."""
    hot_spot: HotSpot | None = None
    """None before stacks were taken."""
    recorded: Verdict | None = None
    """The verdict on its last attempt, once that has ended."""


class Verdict(Struct, frozen=True, omit_defaults=True):
    """The cause that bounds the speed of a worker."""

    kind: str
    """A row of `diagnosis.verdicts`."""
    text: str
    """One sentence with its figures."""
    certain: bool = True
    """False if the facts also fit another cause: the sentence then says `probably`."""
    evidence: tuple[str, ...] = ()
    advice: str = ""
