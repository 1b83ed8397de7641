"""Xids, the errors that the driver reports of a GPU: what each means, and what to do.

After NVIDIA's Xid catalog (docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, for Ampere and later), with its
"immediate action": what asks for a reset of the GPU or a reboot (RESET_GPU, RESTART_BM, WORKFLOW_XID_48, and
WORKFLOW_NVLINK_ERR, of which it says that a reset is needed) is fatal; where the application is to be restarted or
corrected (RESTART_APP with CHECK_APP/CUDA, IGNORE of 43), a script has caused it, but for 32, of which it says that
applications rarely do; all else is degraded. The catalog has 61 as unused: its meaning is that of the archived table for
Volta and earlier. 109 asks for a reset there, while NVIDIA's k8s-device-plugin counts it among the application's errors:
it is degraded here.
"""

from __future__ import annotations

from typing import NamedTuple

from gmg_tui.model import GpuTrouble, Severity, Xid

_RESET = "end what runs there and reset it (`nvidia-smi --gpu-reset`), or reboot"
_SCRIPT = "look for the error in the script's output; nothing is wrong with the GPU"
_RMA = f"{_RESET}; have it replaced if that comes again"
_AGAIN = f"restart the script; if that comes again: {_RESET}"
_LINK = "`dmesg` and `nvidia-smi nvlink -e` say which link and how badly; a reset of the GPU may be needed"


class Meaning(NamedTuple):
    """What an Xid stands for."""

    severity: Severity | None
    """None where a script has caused it."""
    text: str
    advice: str


_FATAL, _DEGRADED = Severity.FATAL, Severity.DEGRADED

_MEANINGS = {
    8: Meaning(_DEGRADED, "the GPU stopped working on a program", _AGAIN),
    11: Meaning(None, "a program sent an invalid command", _SCRIPT),
    13: Meaning(None, "a kernel failed, as by an index out of range", _SCRIPT),
    25: Meaning(None, "a program sent an invalid command", _SCRIPT),
    31: Meaning(None, "a kernel used memory that is not its own", _SCRIPT),
    32: Meaning(
        _DEGRADED,
        "commands arrived corrupted, mostly by the quality of PCIe",
        "restart the script; if that comes again, check the GPU's seat and its riser cable",
    ),
    43: Meaning(None, "a program's kernel was stopped after an error", _SCRIPT),
    45: Meaning(None, "a program's work was cleaned up as it ended or was killed", _SCRIPT),
    46: Meaning(_FATAL, "the GPU has stopped working", _RESET),
    48: Meaning(_FATAL, "an uncorrected memory error (double-bit ECC)", _RMA),
    54: Meaning(_DEGRADED, "the GPU's auxiliary power is not connected", "check its power cables"),
    61: Meaning(_DEGRADED, "the GPU's own controller has met a breakpoint or a warning", _AGAIN),
    62: Meaning(_FATAL, "the GPU's own controller has halted", _RESET),
    63: Meaning(
        _DEGRADED,
        "a row of memory is to be replaced",
        "nothing at once: what runs stays correct, and the next reset of the GPU replaces the row",
    ),
    64: Meaning(_FATAL, "a row of memory could not be replaced", _RMA),
    68: Meaning(None, "the video decoder failed", _SCRIPT),
    69: Meaning(None, "a kernel failed by an invalid command", _SCRIPT),
    74: Meaning(
        _FATAL, "an NVLink failed, at this end or the other", f"{_RESET}; look for another GPU that failed before"
    ),
    79: Meaning(_FATAL, "the GPU has fallen off the bus", "reboot; check its power and seat"),
    80: Meaning(None, "a program's commands arrived corrupted", _SCRIPT),
    92: Meaning(_DEGRADED, "many corrected memory errors (single-bit ECC)", "watch whether the count grows"),
    94: Meaning(
        _DEGRADED,
        "an uncorrected memory error, contained in one program",
        "restart the script that it ended, the others are unaffected; reset the GPU when nothing runs there",
    ),
    95: Meaning(_FATAL, "an uncorrected memory error that may have reached every program", _RESET),
    106: Meaning(None, "a test message of the management bus", "nothing"),
    107: Meaning(None, "a test message of the management bus", "nothing"),
    109: Meaning(_DEGRADED, "a program's switch of context took too long", _AGAIN),
    110: Meaning(
        _FATAL,
        "a security fault, mostly of the hardware",
        "power the machine off and on; have it replaced if that comes again",
    ),
    119: Meaning(_FATAL, "the GPU's system processor (GSP) does not answer", _RESET),
    120: Meaning(_FATAL, "the GPU's system processor (GSP) has failed", _RESET),
    121: Meaning(_DEGRADED, "corrected errors on the link to the Grace CPU", "reset the GPU when nothing runs there"),
    136: Meaning(_FATAL, "an NVLink could not be trained", _RESET),
    137: Meaning(None, "a kernel used memory of another GPU that is not its own", _SCRIPT),
    140: Meaning(_FATAL, "an unrecovered memory error", _RMA),
    143: Meaning(_FATAL, "the GPU could not be initialised", _RESET),
    **{code: Meaning(_DEGRADED, "an error of NVLink", _LINK) for code in range(144, 151)},
    154: Meaning(
        _DEGRADED,
        "the driver says what recovers the GPU after another Xid",
        "`dmesg` has it: nothing, a reset, or a reboot",
    ),
    155: Meaning(_FATAL, "an NVLink went down by its software", _RESET),
    156: Meaning(_FATAL, "a part of the GPU is to be retired", _RESET),
    157: Meaning(
        _DEGRADED, "a part of the GPU could not be retired: none is left", "it may come again; watch its errors"
    ),
    158: Meaning(_FATAL, "the GPU did not answer in time", _RESET),
    171: Meaning(_DEGRADED, "the uncorrected error of Xid 48 is in the memory (DRAM)", _RMA),
    172: Meaning(_DEGRADED, "the uncorrected error of Xid 48 is inside the chip (SRAM)", _RMA),
}


def meaning(code: int) -> Meaning:
    """What is known of an Xid; one that is not in the table counts as a fault of the GPU, but not as a fatal one."""
    found = _MEANINGS.get(code)
    return found or Meaning(
        _DEGRADED, "an error of the GPU or the driver", "`dmesg` and NVIDIA's list of Xids say more"
    )


def trouble(xid: Xid) -> GpuTrouble | None:
    """What follows from an Xid; None where a script has caused it."""
    known = meaning(xid.code)
    if known.severity is None:
        return None
    times = f" ({xid.count} times)" if xid.count > 1 else ""
    return GpuTrouble(known.severity, f"Xid {xid.code}{times}: {known.text}", known.advice)
