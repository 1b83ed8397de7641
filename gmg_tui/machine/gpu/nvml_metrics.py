"""The metrics of one GPU by its NVML handle; unsupported ones are None."""

from __future__ import annotations

from typing import Any

import pynvml
from msgspec import structs

from gmg_tui.machine.gpu.driver import Asker, plausible
from gmg_tui.machine.gpu.processes import in_initial_namespace
from gmg_tui.model import GpuProcess, GpuSample

MIB = 1 << 20
MAX_PCT = 100
MAX_TEMPERATURE_C = 150
_MAX_POWER_W = 5_000
_MAX_ENERGY_J = 1e13
"""60 years at the maximum power."""
_MAX_CLOCK_MHZ = 10_000
_MAX_FAN_PCT = 200
"""Fans may exceed their nominal speed (nvml.h, nvmlDeviceGetFanSpeed)."""
_MAX_PCIE_MIB_S = 1 << 20
_MAX_MEMORY_MIB = 16 << 20
_ALL_ONES = frozenset({(1 << 32) - 1, (1 << 64) - 1})
"""NVML's "not available"."""

_HW_SLOWDOWN = 0x08
_HW_CAUSES = 0x40 | 0x80
_THROTTLE = {
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
"""Bits of nvmlClocksEventReason* (nvml.h), without 0x1 (the GPU is idle) and 0x2 (application clocks are set)."""


def fast(ask: Asker, kept: GpuSample) -> GpuSample:
    """Adds the metrics that change from second to second to `kept`, which has the others. Raises as `Asker`."""
    utilisation = ask(pynvml.nvmlDeviceGetUtilizationRates)
    memory = _memory(ask)
    return structs.replace(
        kept,
        gpu_util_pct=plausible(utilisation.gpu, MAX_PCT) if utilisation else None,
        memory_util_pct=plausible(utilisation.memory, MAX_PCT) if utilisation else None,
        memory_used_mib=_scaled(memory.used, MIB, memory.total / MIB) if memory else None,
        memory_total_mib=memory.total / MIB if memory else None,
        memory_free_mib=_scaled(memory.free, MIB, memory.total / MIB) if memory else None,
        temperature_c=plausible(ask(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU), MAX_TEMPERATURE_C),
        power_w=_scaled(ask(pynvml.nvmlDeviceGetPowerUsage), 1000, _MAX_POWER_W),
        sm_clock_mhz=plausible(ask(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM), _MAX_CLOCK_MHZ),
        throttle=_throttle(ask),
        energy_j=_scaled(ask(pynvml.nvmlDeviceGetTotalEnergyConsumption), 1000, _MAX_ENERGY_J),
    )


def slow(ask: Asker, uuid: str) -> GpuSample:
    """Returns a sample of the metrics that change rarely or are expensive. Raises as `Asker`.

    PCIe throughput takes the driver 20 ms in each direction (nvml.h, nvmlDeviceGetPcieThroughput).
    """
    throughput, memory = pynvml.nvmlDeviceGetPcieThroughput, _memory(ask)
    return GpuSample(
        uuid=uuid,
        power_limit_w=power_limit_w(ask),
        sm_clock_max_mhz=plausible(ask(pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_SM), _MAX_CLOCK_MHZ),
        fan_pct=plausible(ask(pynvml.nvmlDeviceGetFanSpeed), _MAX_FAN_PCT),
        pcie_rx_mib_s=_scaled(ask(throughput, pynvml.NVML_PCIE_UTIL_RX_BYTES), 1024, _MAX_PCIE_MIB_S),
        pcie_tx_mib_s=_scaled(ask(throughput, pynvml.NVML_PCIE_UTIL_TX_BYTES), 1024, _MAX_PCIE_MIB_S),
        processes=_processes(ask, memory.total / MIB if memory else _MAX_MEMORY_MIB),
    )


def power_limit_w(ask: Asker) -> float | None:
    """Returns the enforced power limit: the lowest of the GPU's, the driver's and the user's."""
    return _scaled(ask(pynvml.nvmlDeviceGetEnforcedPowerLimit), 1000, _MAX_POWER_W) or None


def memory_total_mib(ask: Asker) -> int | None:
    """Returns the GPU's memory, or the instance's."""
    memory = _memory(ask)
    return memory.total // MIB if memory else None


def _memory(ask: Asker) -> Any:
    """Returns NVML's figures, in bytes; None if the total is unknown or impossible."""
    # Version 2 excludes the driver's reserve from `used`, as nvidia-smi does since R510.
    memory = ask(pynvml.nvmlDeviceGetMemoryInfo, pynvml.nvmlMemory_v2) or ask(pynvml.nvmlDeviceGetMemoryInfo)
    return memory if memory and plausible(memory.total, _MAX_MEMORY_MIB * MIB) else None


def _scaled(value: int | None, per_unit: int, maximum: float) -> float | None:
    return None if value is None else plausible(value / per_unit, maximum)


def _throttle(ask: Asker) -> tuple[str, ...] | None:
    mask = ask(pynvml.nvmlDeviceGetCurrentClocksEventReasons)
    if mask is None:  # the name before driver R535
        mask = ask(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons)
    return None if mask is None or mask in _ALL_ONES else throttle_reasons(mask)


def throttle_reasons(mask: int) -> tuple[str, ...]:
    """Names the reasons in a mask of `nvmlDeviceGetCurrentClocksEventReasons`.

    Omits "hw slowdown" if its cause, which the driver sets with it, is among them.
    """
    if mask & _HW_CAUSES:
        mask &= ~_HW_SLOWDOWN
    return tuple(word for bit, word in _THROTTLE.items() if mask & bit)


def _processes(ask: Asker, max_mib: float) -> tuple[GpuProcess, ...] | None:
    """Returns the compute and graphics processes by PID, each once, with at most `max_mib` of memory."""
    lists = (
        ask(pynvml.nvmlDeviceGetComputeRunningProcesses_v3),
        ask(pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3),
    )
    if lists == (None, None):
        return None
    # A process may be in both lists, with the same memory.
    used_bytes = {process.pid: process.usedGpuMemory for processes in lists for process in processes or ()}
    computing, foreign = {process.pid for process in lists[0] or ()}, not in_initial_namespace()
    return tuple(
        GpuProcess(pid=pid, memory_mib=_scaled(used, MIB, max_mib), foreign=foreign, graphics=pid not in computing)
        for pid, used in sorted(used_bytes.items())
    )
