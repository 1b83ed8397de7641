"""What one card says, asked of its NVML handle; what it does not say is None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pynvml
from msgspec import structs

from gmg_tui.gpu import throttle
from gmg_tui.gpu.failure import FATAL, card_trouble
from gmg_tui.model import GpuProcess, GpuReading

_T = TypeVar("_T")

MIB = 1 << 20


class Asker:
    """Asks one card, and turns what it refuses into None.

    Attributes:
        refusal: Why the last refused question was refused, in one line; None when none was, or when the card just does
            not support what was asked.
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.refusal: str | None = None

    def __call__(self, question: Callable[..., _T], *arguments: object) -> _T | None:
        """The answer to `question(handle, *arguments)`; None when the card does not give it.

        Raises:
            pynvml.NVMLError: The card is lost or NVML is gone (`FATAL`).
        """
        try:
            return question(self._handle, *arguments)
        except pynvml.NVMLError as error:
            if error.value in FATAL:
                raise
            if error.value not in (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND):
                self.refusal = card_trouble(error)
            return None


def fast(ask: Asker, kept: GpuReading) -> GpuReading:
    """The figures that change from second to second, put into `kept`, which has the others.

    Raises:
        pynvml.NVMLError: The card is lost or NVML is gone.
    """
    utilisation = ask(pynvml.nvmlDeviceGetUtilizationRates)
    memory = _memory(ask)
    return structs.replace(
        kept,
        gpu_util_pct=utilisation.gpu if utilisation else None,
        memory_util_pct=utilisation.memory if utilisation else None,
        memory_used_mib=memory.used / MIB if memory else None,
        memory_total_mib=memory.total / MIB if memory else None,
        temperature_c=ask(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
        power_w=_scaled(ask(pynvml.nvmlDeviceGetPowerUsage), 1000),
        sm_clock_mhz=ask(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM),
        throttle=_throttle(ask),
        energy_j=_scaled(ask(pynvml.nvmlDeviceGetTotalEnergyConsumption), 1000),
    )


def slow(ask: Asker, uuid: str) -> GpuReading:
    """The figures that change seldom or cost much, in a reading that has no others.

    PCIe throughput is the dear one: the driver counts for 20 ms for each direction (nvml.h, nvmlDeviceGetPcieThroughput).

    Raises:
        pynvml.NVMLError: The card is lost or NVML is gone.
    """
    return GpuReading(
        uuid=uuid,
        power_limit_w=power_limit_w(ask),
        sm_clock_max_mhz=ask(pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_SM),
        fan_pct=ask(pynvml.nvmlDeviceGetFanSpeed),
        pcie_rx_mib_s=_scaled(ask(pynvml.nvmlDeviceGetPcieThroughput, pynvml.NVML_PCIE_UTIL_RX_BYTES), 1024),
        pcie_tx_mib_s=_scaled(ask(pynvml.nvmlDeviceGetPcieThroughput, pynvml.NVML_PCIE_UTIL_TX_BYTES), 1024),
        processes=_processes(ask),
    )


def power_limit_w(ask: Asker) -> float | None:
    """The limit in force: the lowest of those that the card, the driver and a person set."""
    return _scaled(ask(pynvml.nvmlDeviceGetEnforcedPowerLimit), 1000)


def memory_total_mib(ask: Asker) -> int | None:
    """The card's memory, or the instance's."""
    memory = _memory(ask)
    return memory.total // MIB if memory else None


def _memory(ask: Asker) -> Any:
    # The second form leaves what the driver reserves for itself out of `used`, as nvidia-smi does since R510.
    return ask(pynvml.nvmlDeviceGetMemoryInfo, pynvml.nvmlMemory_v2) or ask(pynvml.nvmlDeviceGetMemoryInfo)


def _scaled(value: int | None, per_unit: int) -> float | None:
    return None if value is None else value / per_unit


def _throttle(ask: Asker) -> tuple[str, ...] | None:
    mask = ask(pynvml.nvmlDeviceGetCurrentClocksEventReasons)
    if mask is None:  # its name before driver R535
        mask = ask(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons)
    return None if mask is None else throttle.words(mask)


def _processes(ask: Asker) -> tuple[GpuProcess, ...] | None:
    """Compute and graphics processes, each PID once, by PID."""
    lists = (
        _first(ask, pynvml.nvmlDeviceGetComputeRunningProcesses_v3, pynvml.nvmlDeviceGetComputeRunningProcesses_v2),
        _first(ask, pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3, pynvml.nvmlDeviceGetGraphicsRunningProcesses_v2),
    )
    if lists == (None, None):
        return None
    found: dict[int, float | None] = {}
    for process in (process for processes in lists for process in processes or ()):
        used = None if process.usedGpuMemory is None else process.usedGpuMemory / MIB
        known = found.get(process.pid)
        # A process that computes and draws is in both lists with the same memory.
        found[process.pid] = used if known is None else max(known, used or 0.0)
    return tuple(GpuProcess(pid=pid, memory_mib=used) for pid, used in sorted(found.items()))


def _first(ask: Asker, *questions: Callable[[Any], list[Any]]) -> list[Any] | None:
    for question in questions:
        answer = ask(question)
        if answer is not None:
            return answer
    return None
