"""What NVML's error codes mean for gmg-tui, and the line that a person reads."""

from __future__ import annotations

import pynvml

LIBRARY_GONE = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    }
)
"""Codes that say that NVML as a whole does not answer any more, whatever card was asked."""

CARD_LOST = frozenset(
    {
        pynvml.NVML_ERROR_GPU_IS_LOST,
        pynvml.NVML_ERROR_GPU_NOT_FOUND,
        pynvml.NVML_ERROR_RESET_REQUIRED,
        pynvml.NVML_ERROR_NOT_FOUND,
    }
)
"""Codes by which NVML says, when a handle is looked up, that it cannot reach the card."""

FATAL = LIBRARY_GONE | {pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED}
"""Codes after which no further question to the same handle is worth asking."""

_TEXTS = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "NVML (libnvidia-ml.so.1) is not on this machine: install the NVIDIA driver, or give the container its GPUs"
    ),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (
        "the NVIDIA driver is not loaded: load its kernel module (`modprobe nvidia`), or give the container its GPUs"
    ),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "NVML and the loaded NVIDIA kernel module are of different versions, as after an update: reboot"
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: (
        "no permission to use the NVIDIA driver: this user must be able to read and write /dev/nvidiactl and /dev/nvidia*"
    ),
    pynvml.NVML_ERROR_UNINITIALIZED: "the NVIDIA driver has gone away; it is asked again every few seconds",
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "libnvidia-ml.so.1 is too old or broken: install a current NVIDIA driver",
}


class NvmlUnavailable(Exception):  # noqa: N818 - it is a state of the machine, not a fault of the program
    """NVML does not answer; its text is one line that says what is wrong and what to do."""


def unavailable(error: pynvml.NVMLError) -> NvmlUnavailable:
    """What a person reads when NVML as a whole fails with `error`."""
    return NvmlUnavailable(_TEXTS.get(error.value, f"NVML fails: {error}; `nvidia-smi` and `dmesg` may say more"))


def card_trouble(error: pynvml.NVMLError) -> str:
    """Why a card gives no figures, in one line."""
    if error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
        return "the card is lost: it has fallen off the bus; `dmesg` has its Xid, and the machine may need a reboot"
    if error.value == pynvml.NVML_ERROR_RESET_REQUIRED:
        return "the card needs a reset: `nvidia-smi --gpu-reset`, or reboot"
    if error.value in CARD_LOST:
        return "the card is no longer there"
    if error.value == pynvml.NVML_ERROR_NO_PERMISSION:
        return "no permission to read this card"
    return f"NVML: {error}"
