"""NVML's error codes: what they mean for gmg-tui, and the message for the user."""

from __future__ import annotations

import os
import resource

import pynvml

LIBRARY_GONE = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    }
)
"""Codes by which NVML as a whole has stopped answering, whichever GPU was asked."""

GPU_LOST = frozenset(
    {
        pynvml.NVML_ERROR_GPU_IS_LOST,
        pynvml.NVML_ERROR_GPU_NOT_FOUND,
        pynvml.NVML_ERROR_RESET_REQUIRED,
        pynvml.NVML_ERROR_NOT_FOUND,
    }
)
"""Codes by which NVML reports, when a handle is looked up, that it cannot reach the GPU."""

FATAL = LIBRARY_GONE | {pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED}
"""Codes after which the handle is of no further use."""

_FILES = 16
"""What NVML and the driver open, and some more."""

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
    pynvml.NVML_ERROR_UNINITIALIZED: "the NVIDIA driver has gone away; it is retried every few seconds",
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "libnvidia-ml.so.1 is too old or broken: install a current NVIDIA driver",
}


class NvmlUnavailable(Exception):  # noqa: N818 - it is a state of the machine, not a fault of the program
    """NVML does not answer; its text is one line that says what is wrong and what to do."""


def unavailable(error: pynvml.NVMLError) -> NvmlUnavailable:
    """The error for the user when NVML as a whole fails with `error`."""
    few = _few_files()
    if few is not None:
        return NvmlUnavailable(few)
    return NvmlUnavailable(_TEXTS.get(error.value, f"NVML fails: {error}; `nvidia-smi` and `dmesg` may say more"))


def _few_files() -> str | None:
    """That this process may open hardly any more files, in one line: NVML then reports no library, or no driver."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        used = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - the names are not wanted
    except OSError:
        used = limit  # not even the folder could be opened
    if limit == resource.RLIM_INFINITY or limit - used >= _FILES:
        return None
    return f"NVML cannot open its files: {used} of at most {limit} are open; raise the limit with `ulimit -n 4096`"


def gpu_trouble(error: pynvml.NVMLError) -> str:
    """Why a GPU has no metrics, in one line."""
    if error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
        return "the GPU is lost: it has fallen off the bus; `dmesg` has its Xid, and the machine may need a reboot"
    if error.value == pynvml.NVML_ERROR_RESET_REQUIRED:
        return "the GPU needs a reset: `nvidia-smi --gpu-reset`, or reboot"
    if error.value in GPU_LOST:
        return "the GPU is no longer there"
    if error.value == pynvml.NVML_ERROR_NO_PERMISSION:
        return "no permission to read this GPU"
    return f"NVML: {error}"
