"""How long the driver may be silent, and the lines for it. A driver that hangs answers nobody, maybe for hours."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import wait
from typing import TypeVar

from gmg_tui.machine.blocking_calls import begin
from gmg_tui.machine.gpu.nvml import Nvml, NvmlUnavailable
from gmg_tui.model import Gpu

_T = TypeVar("_T")

LATE_S = 3.0
"""From then on the age of metrics is displayed, or that an attempt waits."""
SILENT_S = 15.0
"""From then on metrics count as unknown."""
GIVE_UP_S = 60.0
"""How long an attempt waits for the driver."""
OPEN_S = 120.0
"""How long a session, or a command, waits for its GPUs' names; without persistence mode each GPU takes seconds."""
NO_ANSWER = "no answer from the driver"
"""Why there are no metrics."""


def gave_up(waited_s: float) -> str:
    """Why something failed that has waited for the driver, in one line."""
    return f"the NVIDIA driver has not answered for {waited_s:.0f} s; `dmesg` may have the cause"


def open_nvml() -> tuple[Nvml, tuple[Gpu, ...]]:
    """NVML, and the GPUs. Raises `NvmlUnavailable` if there is no driver, or it does not answer in time."""
    return answer_of(lambda: (nvml := Nvml.open(), nvml.gpus()))


def answer_of(function: Callable[[], _T]) -> _T:
    """What `function` returns or raises, which asks the driver. Raises `NvmlUnavailable` if that takes too long."""
    asking = begin(function)
    wait([asking], OPEN_S)
    if not asking.done():
        raise NvmlUnavailable(gave_up(OPEN_S))
    return asking.result()
