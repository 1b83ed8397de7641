"""Cards and slots, and what NVML says of them."""

from __future__ import annotations

from msgspec import Struct

from gmg_tui.model.states import SlotKind


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
