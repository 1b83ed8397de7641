"""The metrics of one GPU, read through its NVML handle; unsupported ones are None."""

from __future__ import annotations

from typing import Any

import pynvml
from msgspec import structs

from gmg_tui.machine.gpu.driver import Asker
from gmg_tui.machine.gpu.processes import in_initial_namespace
from gmg_tui.model import GpuProcess, GpuSample

MIB = 1 << 20


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
    mask = ask(pynvml.nvmlDeviceGetCurrentClocksEventReasons)
    if mask is None:  # its name before driver R535
        mask = ask(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons)
    return None if mask is None else throttle_reasons(mask)


def throttle_reasons(mask: int) -> tuple[str, ...]:
    """The reasons in `mask`, the answer of `nvmlDeviceGetCurrentClocksEventReasons`, in short words.

    The driver sets "hw slowdown" together with its cause; only the cause is kept then.
    """
    if mask & _HW_CAUSES:
        mask &= ~_HW_SLOWDOWN
    return tuple(word for bit, word in _THROTTLE.items() if mask & bit)


def _processes(ask: Asker) -> tuple[GpuProcess, ...] | None:
    """Compute and graphics processes, each PID once, by PID."""
    lists = (
        ask(pynvml.nvmlDeviceGetComputeRunningProcesses_v3),
        ask(pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3),
    )
    if lists == (None, None):
        return None
    # A process that computes and draws is in both lists with the same memory.
    used_bytes = {process.pid: process.usedGpuMemory for processes in lists for process in processes or ()}
    foreign = not in_initial_namespace()
    return tuple(
        GpuProcess(pid=pid, memory_mib=_scaled(used, MIB), foreign=foreign) for pid, used in sorted(used_bytes.items())
    )
