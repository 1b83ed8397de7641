"""The metrics of one GPU, read through its NVML handle; unsupported ones are None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pynvml
from msgspec import structs

from gmg_tui.gpu import throttle
from gmg_tui.gpu.failure import FATAL, gpu_trouble
from gmg_tui.gpu.processes import in_initial_namespace
from gmg_tui.model import GpuProcess, GpuSample

_T = TypeVar("_T")

MIB = 1 << 20


class Asker:
    """Queries one GPU; what it refuses is None."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.refusal: str | None = None
        """Why the last refused query was refused, in one line; None if none was, or if it is just unsupported."""

    def __call__(self, question: Callable[..., _T], *arguments: object) -> _T | None:
        """The answer to `question(handle, *arguments)`; None if the GPU does not give one.

        Raises `pynvml.NVMLError` when the GPU is lost or NVML is gone (`FATAL`).
        """
        try:
            return question(self._handle, *arguments)
        except pynvml.NVMLError as error:
            if error.value in FATAL:
                raise
            if error.value not in (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND):
                self.refusal = gpu_trouble(error)
            return None


def fast(ask: Asker, kept: GpuSample) -> GpuSample:
    """The metrics that change from second to second, added to `kept`, which has the others. Raises what an `Asker` raises."""
    utilisation = ask(pynvml.nvmlDeviceGetUtilizationRates)
    memory = _memory(ask)
    return structs.replace(
        kept,
        gpu_util_pct=utilisation.gpu if utilisation else None,
        memory_util_pct=utilisation.memory if utilisation else None,
        memory_used_mib=memory.used / MIB if memory else None,
        memory_total_mib=memory.total / MIB if memory else None,
        memory_free_mib=memory.free / MIB if memory else None,
        temperature_c=ask(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
        power_w=_scaled(ask(pynvml.nvmlDeviceGetPowerUsage), 1000),
        sm_clock_mhz=ask(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM),
        throttle=_throttle(ask),
        energy_j=_scaled(ask(pynvml.nvmlDeviceGetTotalEnergyConsumption), 1000),
    )


def slow(ask: Asker, uuid: str) -> GpuSample:
    """The metrics that change rarely or are expensive, in a sample without the others.

    PCIe throughput is the expensive one: the driver counts for 20 ms in each direction (nvml.h, nvmlDeviceGetPcieThroughput).
    Raises what an `Asker` raises.
    """
    return GpuSample(
        uuid=uuid,
        power_limit_w=power_limit_w(ask),
        sm_clock_max_mhz=ask(pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_SM),
        fan_pct=ask(pynvml.nvmlDeviceGetFanSpeed),
        pcie_rx_mib_s=_scaled(ask(pynvml.nvmlDeviceGetPcieThroughput, pynvml.NVML_PCIE_UTIL_RX_BYTES), 1024),
        pcie_tx_mib_s=_scaled(ask(pynvml.nvmlDeviceGetPcieThroughput, pynvml.NVML_PCIE_UTIL_TX_BYTES), 1024),
        processes=_processes(ask),
    )


def power_limit_w(ask: Asker) -> float | None:
    """The enforced limit: the lowest of those set by the GPU, the driver and the user."""
    return _scaled(ask(pynvml.nvmlDeviceGetEnforcedPowerLimit), 1000)


def memory_total_mib(ask: Asker) -> int | None:
    """The GPU's memory, or the instance's."""
    memory = _memory(ask)
    return memory.total // MIB if memory else None


def _memory(ask: Asker) -> Any:
    # Version 2 excludes what the driver reserves for itself from `used`, as nvidia-smi does since R510.
    return ask(pynvml.nvmlDeviceGetMemoryInfo, pynvml.nvmlMemory_v2) or ask(pynvml.nvmlDeviceGetMemoryInfo)


def _scaled(value: int | None, per_unit: int) -> float | None:
    return None if value is None else value / per_unit


def _throttle(ask: Asker) -> tuple[str, ...] | None:
    # The second was its name before driver R535.
    mask = _first(ask, pynvml.nvmlDeviceGetCurrentClocksEventReasons, pynvml.nvmlDeviceGetCurrentClocksThrottleReasons)
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
    foreign = not in_initial_namespace()
    return tuple(GpuProcess(pid=pid, memory_mib=used, foreign=foreign) for pid, used in sorted(found.items()))


def _first(ask: Asker, *questions: Callable[[Any], _T]) -> _T | None:
    return next((answer for answer in map(ask, questions) if answer is not None), None)
