"""What tells whether a GPU is broken, or on its way there."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Severity(StrEnum):
    """What follows from a trouble with a GPU."""

    FATAL = "fatal"
    """What runs there may fail, or compute wrong numbers; nothing more is to be started."""
    DEGRADED = "degraded"
    """It works, but slower than it could, or not for long."""


class GpuTrouble(Struct, frozen=True):
    """One thing that is wrong with a GPU."""

    severity: Severity
    text: str
    """What is wrong, in one sentence, with the figure and its unit."""
    advice: str
    """What to do."""


class Xid(Struct, frozen=True):
    """An error that the driver has reported of a GPU."""

    code: int
    time: float
    """Unix time when it was first heard of, seconds."""
    count: int = 1
    """How often it was reported."""


class GpuHealth(Struct, frozen=True, omit_defaults=True):
    """A GPU's counters of errors, and the state of its links; None for what it does not report.

    "Ever" is since the GPU was made; the other ECC counters begin anew when the driver is loaded.
    """

    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    ecc_corrected_ever: int | None = None
    ecc_uncorrected_ever: int | None = None
    remapped_corrected: int | None = None
    """Rows of memory replaced because of corrected errors."""
    remapped_uncorrected: int | None = None
    remap_pending: bool | None = None
    """Whether a row waits for a reset of the GPU to be replaced."""
    remap_failed: bool | None = None
    """Whether a row could not be replaced."""
    memory_temperature_c: float | None = None
    """Of the HBM."""
    memory_temperature_max_c: float | None = None
    """From which on the driver slows the GPU down to cool its memory."""
    pcie_gen: int | None = None
    pcie_gen_max: int | None = None
    """The highest that GPU and slot have in common."""
    pcie_width: int | None = None
    """Lanes."""
    pcie_width_max: int | None = None
    nvlink_errors: int | None = None
    """CRC errors, replays and recoveries of all links together."""
    nvlink_recoveries: int | None = None
    """How often a link has failed and was set up again."""
    pstate: int | None = None
    """The performance state, 0 (full clocks) to 15."""
    mps: str | None = None
    """The folder with the pipes of MPS' daemon, through which programs share the machine's GPUs; None without one."""
    xids: tuple[Xid, ...] = ()
    """In this session, each code once, the newest last."""
    troubles: tuple[GpuTrouble, ...] = ()
    """What is wrong, the worst first."""

    @property
    def fatal(self) -> GpuTrouble | None:
        """The worst trouble, if nothing more is to be started on the GPU."""
        return next((one for one in self.troubles if one.severity is Severity.FATAL), None)


class GpuActivity(Struct, frozen=True, omit_defaults=True):
    """How much of a GPU works, by its own counters over about a second (GPM, from Hopper on); None where not reported.

    Utilisation says only that some kernel ran.
    """

    sm_pct: float | None = None
    """The share of the SMs that were busy (DCGM's SM_ACTIVE)."""
    occupancy_pct: float | None = None
    """Active warps of those that fit."""
    tensor_pct: float | None = None
    """The share of time in which tensor cores computed."""
    dram_pct: float | None = None
    """Memory bandwidth of the most that there is."""
    pcie_rx_mib_s: float | None = None
    pcie_tx_mib_s: float | None = None
    nvlink_rx_mib_s: float | None = None
    nvlink_tx_mib_s: float | None = None
