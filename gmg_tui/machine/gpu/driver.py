"""The NVIDIA driver as the rest of the program sees it: what it can be asked, and what its errors mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

import pynvml

from gmg_tui.model import Gpu, GpuHealth, GpuSample
from gmg_tui.model.text import clean

_T = TypeVar("_T")
_Number = TypeVar("_Number", int, float)

LIBRARY_GONE = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    }
)
"""Error codes of NVML as a whole, whichever GPU was queried."""

FATAL = LIBRARY_GONE | {pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED}
"""Codes after which the handle is of no further use."""

GPU_LOST = FATAL - LIBRARY_GONE | {pynvml.NVML_ERROR_GPU_NOT_FOUND, pynvml.NVML_ERROR_NOT_FOUND}
"""Error codes of a handle's look-up that mean an unreachable GPU."""

UNSUPPORTED = frozenset({pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND})

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
_GPU_TEXTS = dict.fromkeys(GPU_LOST, "the GPU is no longer there") | {
    pynvml.NVML_ERROR_GPU_IS_LOST: (
        "the GPU is lost: it has fallen off the bus; `dmesg` has its Xid, and the machine may need a reboot"
    ),
    pynvml.NVML_ERROR_RESET_REQUIRED: "the GPU needs a reset: `nvidia-smi --gpu-reset`, or reboot",
    pynvml.NVML_ERROR_NO_PERMISSION: "no permission to read this GPU",
}


def text_of(question: Callable[..., str | bytes], *arguments: object) -> str:
    """Asks NVML for a string, and returns it cleaned: drivers have sent bytes that are no UTF-8, and control characters.

    Every string from NVML comes through here. Raises `pynvml.NVMLError`.
    """
    try:
        answer = question(*arguments)
    except UnicodeDecodeError as error:  # raised by pynvml, which decodes
        answer = error.object
    return clean(answer if isinstance(answer, bytes) else answer.encode("utf-8", "replace")).strip()


def _reason(error: pynvml.NVMLError) -> str:
    """Returns NVML's own words for an error, which it may have from the driver."""
    return text_of(str, error) or f"error {error.value}"


class NvmlUnavailable(Exception):  # noqa: N818 - it is a state of the machine, not a fault of the program
    """NVML does not answer; its text is one line: what is wrong and what to do."""


def unavailable(error: pynvml.NVMLError) -> NvmlUnavailable:
    """Returns the error for the user when NVML as a whole fails with `error`."""
    return NvmlUnavailable(
        _TEXTS.get(error.value) or f"NVML fails: {_reason(error)}; `nvidia-smi` and `dmesg` may have details"
    )


def gpu_trouble(error: pynvml.NVMLError | NvmlUnavailable) -> str:
    """Returns one line on why a GPU has no metrics."""
    if isinstance(error, NvmlUnavailable):
        return str(error)
    return _GPU_TEXTS.get(error.value) or f"NVML: {_reason(error)}"


class Asker:
    """Queries one GPU through its handle; what it refuses is None."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.refusal: str | None = None
        """One line on the last refused query; None if none was refused, or only as unsupported."""

    def __call__(self, question: Callable[..., _T], *arguments: object) -> _T | None:
        """Returns the answer to `question(handle, *arguments)`; None if the GPU does not give one.

        Raises `pynvml.NVMLError` when the GPU is lost or NVML is gone (`FATAL`).
        """
        try:
            return question(self._handle, *arguments)
        except pynvml.NVMLError as error:
            if error.value in FATAL:
                raise
            if error.value not in UNSUPPORTED:
                self.refusal = gpu_trouble(error)
            return None

    def text(self, question: Callable[..., str | bytes]) -> str | None:
        """Returns the answer to `question(handle)` as `text_of` cleans it; None as for other questions."""
        return self(lambda handle: text_of(question, handle))


def plausible(value: _Number | None, most: float) -> _Number | None:
    """Returns `value`, or None if no GPU could have it: a driver in trouble reports -1 as an unsigned number."""
    return value if value is not None and 0 <= value <= most else None


class Driver(Protocol):
    """The engine's interface to the GPUs, real (NVML) or simulated. `nvml.Nvml` describes each member."""

    error: str | None
    silent: tuple[tuple[int, str], ...]

    def close(self) -> None: ...  # noqa: D102
    def gpus(self) -> tuple[Gpu, ...]: ...  # noqa: D102
    def index_of(self, uuid: str) -> int: ...  # noqa: D102
    def take_xids(self, gpus: Iterable[Gpu]) -> bool: ...  # noqa: D102
    def check_health(self, gpu: Gpu) -> GpuHealth | None: ...  # noqa: D102
    def read(self, gpu: Gpu, *, slow: bool, activity: bool = False) -> GpuSample: ...  # noqa: D102
