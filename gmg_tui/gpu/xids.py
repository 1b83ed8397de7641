"""Xids, the errors that the driver reports of a GPU: what each means, and what to do.

After NVIDIA's "Xid Errors" (docs.nvidia.com/deploy/xid-errors); those that an application causes are the ones that
NVIDIA's k8s-device-plugin does not hold against the GPU.
"""

from __future__ import annotations

from typing import NamedTuple

from gmg_tui.model import GpuTrouble, Severity, Xid

_RESET = "end what runs there and reset it (`nvidia-smi --gpu-reset`), or reboot"
_SCRIPT = "look for the error in the script's output; nothing is wrong with the GPU"
_RMA = f"{_RESET}; have it replaced if that comes again"


class Meaning(NamedTuple):
    """What an Xid stands for."""

    severity: Severity | None
    """None where a script has caused it."""
    text: str
    advice: str


_FATAL, _DEGRADED = Severity.FATAL, Severity.DEGRADED

_MEANINGS = {
    13: Meaning(None, "a kernel failed, as by an index out of range", _SCRIPT),
    31: Meaning(None, "a kernel used memory that is not its own", _SCRIPT),
    32: Meaning(_DEGRADED, "commands arrived corrupted, maybe over PCIe", "check the GPU's seat and its riser cable"),
    43: Meaning(None, "a program's kernel was stopped after an error", _SCRIPT),
    45: Meaning(None, "a program's work was cleaned up as it ended or was killed", _SCRIPT),
    48: Meaning(_FATAL, "an uncorrected memory error (double-bit ECC)", _RMA),
    61: Meaning(_FATAL, "the GPU's own controller has halted at a breakpoint", _RESET),
    62: Meaning(_FATAL, "the GPU's own controller has halted", _RESET),
    63: Meaning(_DEGRADED, "a row of memory is to be replaced", f"when nothing runs there: {_RESET}"),
    64: Meaning(_FATAL, "a row of memory could not be replaced", _RMA),
    68: Meaning(None, "the video decoder failed", _SCRIPT),
    69: Meaning(None, "a kernel failed by an invalid command", _SCRIPT),
    74: Meaning(_FATAL, "an NVLink failed", f"{_RESET}; check its bridge or the fabric manager"),
    79: Meaning(_FATAL, "the GPU has fallen off the bus", "reboot; check its power and seat"),
    92: Meaning(_DEGRADED, "many corrected memory errors (single-bit ECC)", "watch whether the count grows"),
    94: Meaning(_FATAL, "an uncorrected memory error, contained in one program", _RESET),
    95: Meaning(_FATAL, "an uncorrected memory error that may have reached every program", _RESET),
    109: Meaning(None, "a program's switch of context took too long", _SCRIPT),
    119: Meaning(_FATAL, "the GPU's system processor (GSP) does not answer", _RESET),
    120: Meaning(_FATAL, "the GPU's system processor (GSP) has failed", _RESET),
    140: Meaning(_FATAL, "an unrecovered memory error", _RESET),
    154: Meaning(_DEGRADED, "the driver asks for a reset or a reboot", "`dmesg` says which of them"),
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
