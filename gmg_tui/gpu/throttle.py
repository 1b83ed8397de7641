"""Why a GPU's clocks are below their maximum, in short words."""

from __future__ import annotations

_HW_SLOWDOWN = 0x08
_HW_CAUSES = 0x40 | 0x80

_WORDS = {
    0x04: "power cap",
    _HW_SLOWDOWN: "hw slowdown",
    0x10: "sync boost",
    0x20: "thermal",
    0x40: "hw thermal",
    0x80: "power brake",
    0x100: "display clock",
    0x200: "board limit",
    0x400: "reliability",
}
"""Bits of nvmlClocksEventReason* and nvmlClocksThrottleReason* (nvml.h).

Left out are 0x1 (the GPU is idle) and 0x2 (application clocks are set), which are no throttling.
"""


def words(mask: int) -> tuple[str, ...]:
    """The reasons in `mask`, the answer of `nvmlDeviceGetCurrentClocksEventReasons`.

    The driver sets "hw slowdown" together with its cause; where the cause is known it stands alone. Bits that NVML may
    define later are left out.
    """
    if mask & _HW_CAUSES:
        mask &= ~_HW_SLOWDOWN
    return tuple(word for bit, word in _WORDS.items() if mask & bit)
