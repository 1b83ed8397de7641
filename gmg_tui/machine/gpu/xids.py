"""The meanings of Xids, the driver's error codes of a GPU, with advice.

They come from NVIDIA's Xid catalog (docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, for Ampere and later), 61
from the archived table for Volta and earlier. The catalog's "immediate action" gives the severity: a reset of the GPU or a
reboot is fatal; restarting or correcting the application means that a script is the cause, except for 32, where
applications rarely are; everything else is degraded. So is 109, which NVIDIA's k8s-device-plugin counts among the
application's errors.
"""

from __future__ import annotations

from typing import NamedTuple

from gmg_tui.model import GpuTrouble, Xid

_RESET = "end its processes and reset it (`nvidia-smi --gpu-reset`), or reboot"
IDLE_RESET = "reset the GPU when it is idle"
_SCRIPT = "read the error in the script's output; the GPU is fine"
RMA = f"{_RESET}; if it happens again, have it replaced"
_AGAIN = f"restart the script; if it happens again, {_RESET}"
_LINK = "`dmesg` and `nvidia-smi nvlink -e` name the link and its errors; a reset of the GPU may be needed"
_FATAL, _DEGRADED = True, False


class Meaning(NamedTuple):
    """The meaning of an Xid."""

    fatal: bool | None
    """See `GpuTrouble`; None if a script is the cause."""
    text: str
    advice: str = _SCRIPT


_UNKNOWN = Meaning(_DEGRADED, "an error of the GPU or the driver", "`dmesg` and NVIDIA's list of Xids have more")
_MEANINGS = {
    8: Meaning(_DEGRADED, "the GPU stopped working on a program", _AGAIN),
    11: Meaning(None, "a program sent an invalid command"),
    13: Meaning(None, "a kernel failed, as by an index out of range"),
    25: Meaning(None, "a program sent an invalid command"),
    31: Meaning(None, "a kernel accessed memory that is not its own"),
    32: Meaning(_DEGRADED, "commands arrived corrupted over PCIe", f"check its seat and riser cable; {_AGAIN}"),
    43: Meaning(None, "a program's kernel was stopped after an error"),
    45: Meaning(None, "a program's work was cleaned up as it ended or was killed"),
    46: Meaning(_FATAL, "the GPU has stopped working", _RESET),
    48: Meaning(_FATAL, "an uncorrected memory error (double-bit ECC)", RMA),
    54: Meaning(_DEGRADED, "the GPU's auxiliary power is not connected", "check its power cables"),
    61: Meaning(_DEGRADED, "the GPU's own controller has met a breakpoint or a warning", _AGAIN),
    62: Meaning(_FATAL, "the GPU's own controller has halted", _RESET),
    63: Meaning(_DEGRADED, "a row of memory is to be replaced", "nothing at once: the next reset replaces the row"),
    64: Meaning(_FATAL, "a row of memory could not be replaced", RMA),
    68: Meaning(None, "the video decoder failed"),
    69: Meaning(None, "a kernel failed by an invalid command"),
    74: Meaning(_FATAL, "an NVLink failed, at this end or the other", _RESET),
    79: Meaning(_FATAL, "the GPU has fallen off the bus", "reboot; check its power and seat"),
    80: Meaning(None, "a program's commands arrived corrupted"),
    92: Meaning(_DEGRADED, "many corrected memory errors (single-bit ECC)", "watch whether the count grows"),
    94: Meaning(
        _DEGRADED, "an uncorrected memory error, contained in one program", f"restart that script; {IDLE_RESET}"
    ),
    95: Meaning(_FATAL, "an uncorrected memory error that may have reached every program", _RESET),
    106: Meaning(None, "a test message of the management bus", "nothing"),
    107: Meaning(None, "a test message of the management bus", "nothing"),
    109: Meaning(_DEGRADED, "a program's switch of context took too long", _AGAIN),
    110: Meaning(_FATAL, "a security fault, mostly of the hardware", "power the machine off and on, not just reboot"),
    119: Meaning(_FATAL, "the GPU's system processor (GSP) does not answer", _RESET),
    120: Meaning(_FATAL, "the GPU's system processor (GSP) has failed", _RESET),
    121: Meaning(_DEGRADED, "corrected errors on the link to the Grace CPU", IDLE_RESET),
    136: Meaning(_FATAL, "an NVLink could not be trained", _RESET),
    137: Meaning(None, "a kernel accessed another GPU's memory that is not its own"),
    140: Meaning(_FATAL, "an unrecovered memory error", RMA),
    143: Meaning(_FATAL, "the GPU could not be initialised", _RESET),
    **dict.fromkeys(range(144, 151), Meaning(_DEGRADED, "an error of NVLink", _LINK)),
    154: Meaning(_DEGRADED, "what recovers the GPU after another Xid", "`dmesg` has it: nothing, a reset, or a reboot"),
    155: Meaning(_FATAL, "an NVLink went down by its software", _RESET),
    156: Meaning(_FATAL, "a part of the GPU is to be retired", _RESET),
    157: Meaning(_DEGRADED, "a part of the GPU could not be retired: none is left", "watch its errors"),
    158: Meaning(_FATAL, "the GPU did not answer in time", _RESET),
    171: Meaning(_DEGRADED, "the uncorrected error of Xid 48 is in the memory (DRAM)", RMA),
    172: Meaning(_DEGRADED, "the uncorrected error of Xid 48 is inside the chip (SRAM)", RMA),
}


def meaning(code: int) -> Meaning:
    """Returns the meaning of an Xid; unknown codes count as degraded."""
    return _MEANINGS.get(code, _UNKNOWN)


def trouble(xid: Xid) -> GpuTrouble | None:
    """Returns the trouble of a GPU with an Xid; None if a script is the cause."""
    fault = meaning(xid.code)
    if fault.fatal is None:
        return None
    times = f" ({xid.count} times)" if xid.count > 1 else ""
    return GpuTrouble(fault.fatal, f"Xid {xid.code}{times}: {fault.text}", fault.advice)
