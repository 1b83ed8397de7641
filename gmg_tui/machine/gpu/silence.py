"""Limits for a silent driver, and the messages about it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import wait
from typing import TypeVar

from gmg_tui.machine.blocking_calls import begin
from gmg_tui.machine.gpu.nvml import Nvml, NvmlUnavailable
from gmg_tui.model import Gpu

_T = TypeVar("_T")

LATE_S = 3.0
"""Seconds after which the age of metrics, or an attempt's wait, is shown."""
SILENT_S = 15.0
"""Seconds after which metrics are unknown."""
GIVE_UP_S = 60.0
"""Seconds that an attempt waits for the driver."""
OPEN_S = 120.0
"""Seconds to wait for the GPUs' names, which take seconds each without persistence mode."""
NO_ANSWER = "no answer from the driver"
"""Reason for missing metrics."""


def gave_up(waited_s: float) -> str:
    """Returns the message of a call that timed out."""
    return f"the NVIDIA driver has not answered for {waited_s:.0f} s; `dmesg` may have the cause"


def open_nvml() -> tuple[Nvml, tuple[Gpu, ...]]:
    """Opens NVML. Returns it with the GPUs. Raises `NvmlUnavailable` without a driver that answers in time."""
    return answer_of(lambda: (nvml := Nvml.open(), nvml.gpus()))


def answer_of(function: Callable[[], _T]) -> _T:
    """Returns or raises the result of a driver call. Raises `NvmlUnavailable` if it takes too long."""
    asking = begin(function)
    wait([asking], OPEN_S)
    if not asking.done():
        raise NvmlUnavailable(gave_up(OPEN_S))
    return asking.result()
