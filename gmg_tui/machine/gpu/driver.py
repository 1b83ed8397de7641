"""The interface to the NVIDIA driver, the meaning of its errors, and timeouts for its answers."""

from collections.abc import Callable, Iterable
from concurrent.futures import wait
from typing import Any, Protocol, TypeVar

import pynvml

from gmg_tui.machine.blocking_calls import begin
from gmg_tui.model import Gpu, GpuHealth, GpuSample
from gmg_tui.model.text import clean

_T = TypeVar("_T")
_Number = TypeVar("_Number", int, float)

LATE_S = 3.0
"""Seconds after which the age of metrics, or an attempt's wait for the driver, is shown."""
SILENT_S = 15.0
"""Seconds after which metrics are unknown."""
MAX_DRIVER_WAIT_S = 60.0
"""Maximum seconds that an attempt waits for the driver."""
OPEN_TIMEOUT_S = 120.0
"""Seconds to wait for an answer: without persistence mode the driver takes seconds for each GPU."""
NO_ANSWER = "no answer from the driver"
"""Reason for missing metrics."""

LIBRARY_GONE = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    }
)
"""Errors of NVML as a whole, whichever GPU was queried."""

FATAL = LIBRARY_GONE | {pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED}
"""Errors that invalidate a handle."""

GPU_LOST = FATAL - LIBRARY_GONE | {pynvml.NVML_ERROR_GPU_NOT_FOUND, pynvml.NVML_ERROR_NOT_FOUND}
"""Errors that mean that the GPU cannot be used or found."""

UNSUPPORTED = frozenset({pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND})

_TEXTS = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "NVML (libnvidia-ml.so.1) is not on this machine: install the NVIDIA driver, or give the container its GPUs"
    ),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (
        "the NVIDIA driver is not loaded: load its kernel module (`modprobe nvidia`), or give the container its GPUs"
    ),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "NVML and the loaded NVIDIA kernel module have different versions, as after an update: reboot"
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: (
        "no permission to use the NVIDIA driver: this user needs to read and write /dev/nvidiactl and /dev/nvidia*"
    ),
    pynvml.NVML_ERROR_UNINITIALIZED: "the NVIDIA driver has gone away; retrying every few seconds",
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "libnvidia-ml.so.1 is too old or broken: install a current NVIDIA driver",
}
_GPU_TEXTS = dict.fromkeys(GPU_LOST, "the GPU is no longer there") | {
    pynvml.NVML_ERROR_GPU_IS_LOST: (
        "the GPU is lost: it has fallen off the bus; `dmesg` has its Xid, and the machine may need a reboot"
    ),
    pynvml.NVML_ERROR_RESET_REQUIRED: "the GPU needs a reset: `nvidia-smi --gpu-reset`, or reboot",
    pynvml.NVML_ERROR_NO_PERMISSION: "no permission to read this GPU",
}


def query_text(function: Callable[..., str | bytes], *arguments: object) -> str:
    """Asks NVML for a string, and cleans it: drivers have sent invalid UTF-8 and control characters.

    All strings of NVML pass through here. Raises `pynvml.NVMLError`.
    """
    try:
        answer = function(*arguments)
    except UnicodeDecodeError as error:  # pynvml decodes the answer
        answer = error.object
    return clean((answer if isinstance(answer, bytes) else answer.encode("utf-8", "replace")).strip()).strip()


def _reason(error: pynvml.NVMLError) -> str:
    """Returns NVML's own text for an error."""
    return query_text(str, error) or f"error {error.value}"


class NvmlUnavailable(Exception):  # noqa: N818 - a state of the machine, not a fault of the program
    """NVML does not answer. The text is one line with the cause and the remedy."""


def unavailable_error(error: pynvml.NVMLError) -> NvmlUnavailable:
    """Returns the error to show for a failure of NVML as a whole."""
    unknown = f"NVML fails: {_reason(error)}; `nvidia-smi` and `dmesg` may have details"
    return NvmlUnavailable(_TEXTS.get(error.value) or unknown)


def gpu_trouble(error: pynvml.NVMLError | NvmlUnavailable) -> str:
    """Returns the reason why a GPU has no metrics."""
    if isinstance(error, NvmlUnavailable):
        return str(error)
    return _GPU_TEXTS.get(error.value) or f"NVML: {_reason(error)}"


def timeout_text(waited_s: float) -> str:
    """Returns the message for a call that timed out after `waited_s`."""
    return f"the NVIDIA driver has not answered for {waited_s:.0f} s; `dmesg` may show the cause"


def call_driver(function: Callable[[], _T]) -> _T:
    """Returns the result of a driver call. Raises its error, or `NvmlUnavailable` after `OPEN_TIMEOUT_S`."""
    future = begin(function)
    wait([future], OPEN_TIMEOUT_S)
    if not future.done():
        raise NvmlUnavailable(timeout_text(OPEN_TIMEOUT_S))
    return future.result()


class Query:
    """Queries one GPU through its handle. Returns None for values that the driver does not support or refuses."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.refusal: str | None = None
        """The reason for the last refusal; None if there was none."""

    def __call__(self, function: Callable[..., _T], *arguments: object) -> _T | None:
        """Returns the answer to `function(handle, *arguments)`; None if unsupported or refused.

        Raises `pynvml.NVMLError` if the GPU or NVML is gone (`FATAL`).
        """
        try:
            return function(self._handle, *arguments)
        except pynvml.NVMLError as error:
            if error.value in FATAL:
                raise
            if error.value not in UNSUPPORTED:
                self.refusal = gpu_trouble(error)
            return None

    def number(self, maximum: float, function: Callable[..., Any], *arguments: object, per_unit: int = 1) -> Any:
        """Returns a numeric answer divided by `per_unit`; None if unsupported, refused or implausible."""
        value = self(function, *arguments)
        return if_plausible(value if value is None or per_unit == 1 else value / per_unit, maximum)

    def text(self, function: Callable[..., str | bytes]) -> str | None:
        """Returns the cleaned answer to `function(handle)`; None if unsupported or refused."""
        return self(lambda handle: query_text(function, handle))


def if_plausible(value: _Number | None, maximum: float) -> _Number | None:
    """Returns `value`, or None if it is impossible: drivers in trouble report -1 as an unsigned number."""
    return value if value is not None and 0 <= value <= maximum else None


class Driver(Protocol):
    """The interface to the GPUs, real (NVML) or simulated. `nvml.Nvml` describes each member."""

    error: str | None

    def close(self) -> None: ...  # noqa: D102
    def gpus(self) -> tuple[Gpu, ...]: ...  # noqa: D102
    def index_of(self, uuid: str) -> int: ...  # noqa: D102
    def poll_xids(self, gpus: Iterable[Gpu]) -> bool: ...  # noqa: D102
    def check_health(self, gpu: Gpu) -> GpuHealth | None: ...  # noqa: D102
    def read(self, gpu: Gpu, *, slow: bool, activity: bool = False) -> GpuSample: ...  # noqa: D102
