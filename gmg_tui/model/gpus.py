"""GPUs, slots, NVML samples, and GPU faults."""

from msgspec import Struct

from gmg_tui.model.states import Moment


class GpuTrouble(Struct, frozen=True):
    """A fault of a GPU."""

    fatal: bool
    """True if work on the GPU may fail or compute wrong numbers, so that no more workers start there; False if the GPU
    is only slow, or about to fail."""
    text: str
    advice: str


class Xid(Struct, frozen=True):
    """An error of a GPU reported by the driver."""

    code: int
    time: Moment
    """Time of its first report."""
    count: int = 1


class GpuHealth(Struct, frozen=True, omit_defaults=True):
    """A GPU's error counters since the driver was loaded, and the state of its links; None for unsupported values."""

    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    remap_pending: bool | None = None
    """True if a memory row will be remapped at the next reset of the GPU."""
    remap_failed: bool | None = None
    memory_temperature_c: float | None = None
    memory_temperature_max_c: float | None = None
    """Temperature above which the driver throttles the GPU to cool its memory."""
    pcie_gen: int | None = None
    pcie_gen_max: int | None = None
    """The highest generation that GPU and slot both support."""
    pcie_width: int | None = None
    """Number of lanes."""
    pcie_width_max: int | None = None
    nvlink_recoveries: int | None = None
    pstate: int | None = None
    """Performance state, 0 (full clocks) to 15."""
    xids: tuple[Xid, ...] = ()
    """Xids of this session, each code once, newest last."""
    troubles: tuple[GpuTrouble, ...] = ()
    """Worst first."""

    @property
    def fatal(self) -> GpuTrouble | None:
        """The worst fatal fault, if any."""
        return next((trouble for trouble in self.troubles if trouble.fatal), None)


class Gpu(Struct, frozen=True, omit_defaults=True):
    """The fixed properties of a GPU or a MIG instance, as reported by NVML."""

    index: int
    """NVML index, in PCI bus order; for a MIG instance, that of its GPU."""
    uuid: str
    """`GPU-…`, or `MIG-…` for an instance."""
    name: str
    pci_bus_id: str | None = None
    memory_total_mib: int | None = None
    power_limit_w: float | None = None
    persistence: bool | None = None
    """True in persistence mode: the driver keeps the GPU initialised without clients."""
    mig_index: int | None = None
    """Index of a MIG instance on its GPU; None for a whole GPU."""
    parent_uuid: str | None = None
    """UUID of a MIG instance's GPU."""
    gpu_instance: int | None = None
    """ID of a MIG instance's GPU instance, as in `nvidia-smi mig -lgi`."""
    driver: str | None = None
    cuda: str | None = None
    """Newest CUDA version that the driver supports."""
    mig: bool = False
    """True in MIG mode: only instances run processes."""
    trouble: str | None = None
    """Reason that the GPU does not respond; it then has neither UUID nor name."""


class Slot(Struct, frozen=True, omit_defaults=True):
    """A place for one worker."""

    name: str
    """`gpu0`, `gpu0-mig1` or `cpu0`."""
    gpu: Gpu | None = None
    """None on a CPU slot."""
    node: str = ""
    """Name of its machine; empty for the engine's."""

    @property
    def is_mig(self) -> bool:
        """True for an instance of a GPU."""
        return self.gpu is not None and self.gpu.mig_index is not None


class GpuProcess(Struct, frozen=True, omit_defaults=True):
    """A process that holds memory on a GPU. NVML reports PIDs of the host's PID namespace."""

    pid: int
    name: str | None = None
    memory_mib: float | None = None
    user: str | None = None
    command: str | None = None
    age_s: float | None = None
    slot: str | None = None
    """Slot of this session's worker that owns it, if any."""
    foreign: bool = False
    """True if the PID is the host's while gmg-tui runs in a container."""
    graphics: bool = False
    """True if it renders graphics only."""
    session: str | None = None
    """Its gmg-tui session; None if unknown, as for other users' processes."""

    @property
    def own_pid(self) -> int | None:
        """The PID in this namespace, if known."""
        return None if self.foreign else self.pid


class GpuSample(Struct, frozen=True, omit_defaults=True):
    """A snapshot of a GPU's metrics; unsupported ones are None."""

    uuid: str
    lost: bool = False
    """True if NVML reports that the GPU is lost or needs a reset, or can no longer find it."""
    error: str | None = None
    """Reason in one line if there are no metrics."""
    age_s: float | None = None
    """Age of a late sample; with an `error`, duration of the driver's silence. None while samples are on time."""
    gpu_util_pct: float | None = None
    memory_util_pct: float | None = None
    memory_used_mib: float | None = None
    memory_total_mib: float | None = None
    memory_free_mib: float | None = None
    """Less than total minus used: the driver reserves some."""
    temperature_c: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    sm_clock_mhz: float | None = None
    sm_clock_max_mhz: float | None = None
    throttle: tuple[str, ...] | None = None
    """Reasons for reduced clocks; empty if they are not reduced."""
    fan_pct: float | None = None
    pcie_rx_mib_s: float | None = None
    pcie_tx_mib_s: float | None = None
    energy_j: float | None = None
    """Energy counter, since the driver was loaded."""
    processes: tuple[GpuProcess, ...] | None = None
    sm_pct: float | None = None
    """Share of busy SMs (DCGM's SM_ACTIVE), whereas utilisation counts any kernel; needs GPM and two samples."""
    health: GpuHealth | None = None

    @property
    def silent(self) -> bool:
        """True if the driver has been silent for too long to know the GPU's state."""
        return self.error is not None and self.age_s is not None
