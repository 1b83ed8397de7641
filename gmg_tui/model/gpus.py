"""GPUs, slots, samples by NVML, and the signs of a broken GPU."""

from __future__ import annotations

from msgspec import Struct

from gmg_tui.model.states import Moment


class GpuTrouble(Struct, frozen=True):
    """One thing that is wrong with a GPU."""

    fatal: bool
    """True if work on the GPU may fail, or compute wrong numbers, and nothing more is to start; otherwise it works,
    but slower than it could, or not for long."""
    text: str
    """One sentence on the fault, with the figure and its unit."""
    advice: str
    """The remedy."""


class Xid(Struct, frozen=True):
    """An error that the driver has reported of a GPU."""

    code: int
    time: Moment
    """Unix time when it was first reported, seconds."""
    count: int = 1
    """Count of its reports."""


class GpuHealth(Struct, frozen=True, omit_defaults=True):
    """A GPU's counters of errors since the driver was loaded, and the state of its links; None for what it does not report."""

    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    remap_pending: bool | None = None
    """True if a row waits for a reset of the GPU to be replaced."""
    remap_failed: bool | None = None
    """True if a row could not be replaced."""
    memory_temperature_c: float | None = None
    """The HBM's."""
    memory_temperature_max_c: float | None = None
    """Temperature above which the driver slows the GPU down to cool its memory."""
    pcie_gen: int | None = None
    pcie_gen_max: int | None = None
    """The highest that GPU and slot have in common."""
    pcie_width: int | None = None
    """Lanes."""
    pcie_width_max: int | None = None
    nvlink_recoveries: int | None = None
    """Count of a link's failures and recoveries."""
    pstate: int | None = None
    """The performance state, 0 (full clocks) to 15."""
    xids: tuple[Xid, ...] = ()
    """In this session, each code once, the newest last."""
    troubles: tuple[GpuTrouble, ...] = ()
    """Faults, the worst first."""

    @property
    def fatal(self) -> GpuTrouble | None:
        """The worst trouble, if nothing more is to be started on the GPU."""
        return next((trouble for trouble in self.troubles if trouble.fatal), None)


class Gpu(Struct, frozen=True, omit_defaults=True):
    """One GPU, or one MIG instance of a GPU, as NVML reports it; what does not change."""

    index: int
    """NVML index of the GPU (of the parent GPU for a MIG instance), in PCI bus order."""
    uuid: str
    """`GPU-…`, or `MIG-…` for an instance."""
    name: str
    pci_bus_id: str | None = None
    memory_total_mib: int | None = None
    power_limit_w: float | None = None
    persistence: bool | None = None
    """True if the driver keeps the GPU initialised with no client (persistence mode)."""
    mig_index: int | None = None
    """Index of the instance on its GPU; None for a whole GPU."""
    parent_uuid: str | None = None
    """UUID of the GPU that a MIG instance is on."""
    mig_ids: tuple[int | None, int | None] | None = None
    """The IDs of a MIG instance's GPU instance and compute instance, as in `nvidia-smi mig -lci`."""
    driver: str | None = None
    """The driver's version."""
    cuda: str | None = None
    """The newest CUDA that the driver runs."""
    mig: bool = False
    """True in MIG mode: nothing runs on the GPU as a whole, only on its instances."""


class Slot(Struct, frozen=True, omit_defaults=True):
    """A place for one worker."""

    name: str
    """`gpu0`, `gpu0-mig1` or `cpu0`."""
    gpu: Gpu | None = None
    """None on a CPU slot."""
    node: str = ""
    """The machine that it is on; empty for the engine's machine."""

    @property
    def is_mig(self) -> bool:
        """True for an instance of a GPU."""
        return self.gpu is not None and self.gpu.mig_index is not None


class GpuProcess(Struct, frozen=True, omit_defaults=True):
    """A process that holds memory on a GPU. NVML gives PIDs of the host's PID namespace."""

    pid: int
    name: str | None = None
    memory_mib: float | None = None
    user: str | None = None
    command: str | None = None
    age_s: float | None = None
    slot: str | None = None
    """The slot of this session whose worker it belongs to; None for others."""
    foreign: bool = False
    """True if the PID is of the host's namespace and this process runs in a container's: here the number means another
    process, or none."""
    graphics: bool = False
    """True if it only draws."""
    session: str | None = None
    """The session of gmg-tui that it belongs to, whichever; None if unknown, as for other users' processes."""

    @property
    def own_pid(self) -> int | None:
        """The PID in this namespace; None for a foreign one."""
        return None if self.foreign else self.pid


class GpuSample(Struct, frozen=True, omit_defaults=True):
    """The metrics of a GPU at one moment. Unsupported ones are None."""

    uuid: str
    lost: bool = False
    """True if NVML reports the GPU as lost (`NVML_ERROR_GPU_IS_LOST`), or can no longer reach it."""
    error: str | None = None
    """One line on why there are no metrics."""
    age_s: float | None = None
    """Age of the reading, once it is later than it should be; with an `error`, for how long the driver has
    been silent. None while samples come in time."""
    gpu_util_pct: float | None = None
    memory_util_pct: float | None = None
    memory_used_mib: float | None = None
    memory_total_mib: float | None = None
    memory_free_mib: float | None = None
    """Less than the total without what is used: the driver keeps some for itself."""
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
    """The GPU's energy counter, since the driver was loaded."""
    processes: tuple[GpuProcess, ...] | None = None
    sm_pct: float | None = None
    """Share of busy SMs (DCGM's SM_ACTIVE); None if the GPU does not support GPM, and before its
    second sample. Utilisation shows only that some kernel ran."""
    health: GpuHealth | None = None
    """None before the first check."""

    @property
    def silent(self) -> bool:
        """True if the driver has been silent for too long to know the GPU's state."""
        return self.error is not None and self.age_s is not None
