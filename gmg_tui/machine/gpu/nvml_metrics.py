"""The metrics of one GPU, read through its NVML handle; None if unsupported."""

import contextlib
import time
from typing import Any

import pynvml
from msgspec import structs

from gmg_tui.machine.gpu.driver import FATAL, UNSUPPORTED, Query, if_plausible
from gmg_tui.machine.gpu.processes import in_initial_namespace
from gmg_tui.model import GpuProcess, GpuSample

MIB = 1 << 20
_MAX_PCT = 100
MAX_TEMPERATURE_C = 150
_MAX_POWER_W = 5_000
_MAX_ENERGY_J = 1e13
"""60 years at the maximum power."""
_MAX_CLOCK_MHZ = 10_000
_MAX_FAN_PCT = 200
"""Fans may exceed their nominal speed (nvml.h, nvmlDeviceGetFanSpeed)."""
_MAX_PCIE_MIB_S = 1 << 20
_MAX_MEMORY_MIB = 16 << 20
_MIN_CHANGE_MIB = 64.0
"""Change of the memory in use after which the processes are listed again."""
MIN_SAMPLE_GAP_S = 0.9
"""Minimum seconds between GPM's samples: NVML recommends about a second (nvml.h, nvmlGpmMetricsGet)."""
_MAX_GPM_PCT = 150.0
"""GPM may report a little over 100 % (github.com/NVIDIA/DCGM/issues/152)."""
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
"""Bits of nvmlClocksEventReason* (nvml.h), except 0x1 (the GPU is idle) and 0x2 (application clocks are set)."""
THROTTLE_REASONS = frozenset(_THROTTLE.values())
"""All names of reasons."""


def read_fast(query: Query, sample: GpuSample) -> GpuSample:
    """Returns `sample`, from `read_slow`, with the fast-changing metrics added. Raises like `Query`."""
    utilisation = query(pynvml.nvmlDeviceGetUtilizationRates)
    memory = _memory(query)
    return structs.replace(
        sample,
        gpu_util_pct=if_plausible(utilisation.gpu, _MAX_PCT) if utilisation else None,
        memory_util_pct=if_plausible(utilisation.memory, _MAX_PCT) if utilisation else None,
        memory_used_mib=if_plausible(memory.used / MIB, memory.total / MIB) if memory else None,
        memory_total_mib=memory.total / MIB if memory else None,
        memory_free_mib=if_plausible(memory.free / MIB, memory.total / MIB) if memory else None,
        temperature_c=query.number(MAX_TEMPERATURE_C, pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
        power_w=query.number(_MAX_POWER_W, pynvml.nvmlDeviceGetPowerUsage, per_unit=1000),
        sm_clock_mhz=query.number(_MAX_CLOCK_MHZ, pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM),
        throttle=_throttle(query),
        energy_j=query.number(_MAX_ENERGY_J, pynvml.nvmlDeviceGetTotalEnergyConsumption, per_unit=1000),
    )


def read_slow(query: Query, uuid: str) -> GpuSample:
    """Returns a sample of the metrics that change rarely or are expensive. Raises like `Query`.

    PCIe throughput takes the driver 20 ms in each direction (nvml.h, nvmlDeviceGetPcieThroughput). The memory in use is that
    of the listed processes.
    """
    throughput, memory = pynvml.nvmlDeviceGetPcieThroughput, _memory(query)
    return GpuSample(
        uuid=uuid,
        power_limit_w=power_limit_w(query),
        sm_clock_max_mhz=query.number(_MAX_CLOCK_MHZ, pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_SM),
        fan_pct=query.number(_MAX_FAN_PCT, pynvml.nvmlDeviceGetFanSpeed),
        pcie_rx_mib_s=query.number(_MAX_PCIE_MIB_S, throughput, pynvml.NVML_PCIE_UTIL_RX_BYTES, per_unit=1024),
        pcie_tx_mib_s=query.number(_MAX_PCIE_MIB_S, throughput, pynvml.NVML_PCIE_UTIL_TX_BYTES, per_unit=1024),
        memory_used_mib=if_plausible(memory.used / MIB, memory.total / MIB) if memory else None,
        processes=_processes(query, memory.total / MIB if memory else _MAX_MEMORY_MIB),
    )


def list_again(query: Query, sample: GpuSample, listed: GpuSample) -> GpuSample:
    """Returns `listed`, from `read_slow`, with new processes if the memory in use differs from that in `sample`."""
    used_mib, listed_mib = sample.memory_used_mib, listed.memory_used_mib
    has_changed = (used_mib is None) is not (listed_mib is None)
    if used_mib is not None and listed_mib is not None:
        has_changed = abs(used_mib - listed_mib) >= _MIN_CHANGE_MIB
    if not has_changed:
        return listed
    processes = _processes(query, sample.memory_total_mib or _MAX_MEMORY_MIB)
    return structs.replace(listed, memory_used_mib=used_mib, processes=processes)


def power_limit_w(query: Query) -> float | None:
    """Returns the enforced power limit (the lowest of the GPU's, the driver's and the user's); None if unknown."""
    return query.number(_MAX_POWER_W, pynvml.nvmlDeviceGetEnforcedPowerLimit, per_unit=1000) or None


def memory_total_mib(query: Query) -> int | None:
    """Returns the memory of the GPU or instance; None if unknown."""
    memory = _memory(query)
    return memory.total // MIB if memory else None


def _memory(query: Query) -> Any:
    """Returns NVML's memory figures, in bytes; None if the total is unknown or impossible."""
    # Version 2 excludes the driver's reserve from `used`, as nvidia-smi does since R510.
    memory = query(pynvml.nvmlDeviceGetMemoryInfo, pynvml.nvmlMemory_v2)
    return memory if memory and if_plausible(memory.total, _MAX_MEMORY_MIB * MIB) else None


def _throttle(query: Query) -> tuple[str, ...] | None:
    mask = query(pynvml.nvmlDeviceGetCurrentClocksEventReasons)
    return None if mask is None or mask in _ALL_ONES else throttle_reasons(mask)


def throttle_reasons(mask: int) -> tuple[str, ...]:
    """Names the reasons in a mask of `nvmlDeviceGetCurrentClocksEventReasons`.

    Omits "hw slowdown" if its cause, which the driver sets with it, is among them.
    """
    if mask & _HW_CAUSES:
        mask &= ~_HW_SLOWDOWN
    return tuple(reason for bit, reason in _THROTTLE.items() if mask & bit)


def _processes(query: Query, max_mib: float) -> tuple[GpuProcess, ...] | None:
    """Returns the compute and graphics processes, each once, by PID; memory beyond `max_mib` is unknown."""
    graphics = query(pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3)
    lists = (query(pynvml.nvmlDeviceGetComputeRunningProcesses_v3), graphics)
    if lists == (None, None):
        return None
    # A process may be in both lists, with the same memory.
    used_bytes = {process.pid: process.usedGpuMemory for processes in lists for process in processes or ()}
    computing, foreign = {process.pid for process in lists[0] or ()}, not in_initial_namespace()
    return tuple(
        GpuProcess(
            pid=pid,
            memory_mib=None if used is None else if_plausible(used / MIB, max_mib),
            foreign=foreign,
            graphics=pid not in computing,
        )
        for pid, used in sorted(used_bytes.items())
    )


class Gpm:
    """SM activity from a GPU's own counters (GPM, from Hopper on), which is DCGM's `SM_ACTIVE` (nvml.h, nvmlGpm*).

    `nvmlDeviceGetUtilizationRates` is the share of time with at least one running kernel: one thread can make it 100 %.
    Use from one thread only; free before `nvmlShutdown`.

    Args:
        handle: The handle of the GPU, or of an instance's GPU.
        instance: The ID of the GPU instance; None for a whole GPU.
    """

    def __init__(self, handle: Any, instance: int | None = None) -> None:
        self._handle, self._instance = handle, instance
        self._samples: list[Any] = []
        """The buffers of the last two samples; empty if unsupported."""
        self._taken_at: float | None = None
        self._newest: float | None = None
        try:
            if pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
                self._samples = [pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()]
        except pynvml.NVMLError as error:
            if error.value in FATAL:
                raise
        self._get = pynvml.c_nvmlGpmMetricsGet_t() if self._samples else None  # 19 KB

    def read(self) -> float | None:
        """Returns the percentage of busy SMs between the last two samples; None before the second, or if unsupported.

        Raises `pynvml.NVMLError` if the GPU or NVML is gone (`FATAL`).
        """
        now = time.monotonic()
        if self._samples and (self._taken_at is None or now - self._taken_at >= MIN_SAMPLE_GAP_S):
            try:
                self._measure()
                self._taken_at = now
            except pynvml.NVMLError as error:
                if error.value in FATAL:
                    raise
                self._taken_at = self._newest = None
                if error.value in UNSUPPORTED or error.value == pynvml.NVML_ERROR_NO_PERMISSION:
                    self.free()
        return self._newest

    def free(self) -> None:
        """Frees the buffers; later reads return the last value."""
        for sample in self._samples:
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlGpmSampleFree(sample)
        self._samples = []

    def _measure(self) -> None:
        older, newer = self._samples
        if self._instance is None:
            pynvml.nvmlGpmSampleGet(self._handle, older)
        else:
            pynvml.nvmlGpmMigSampleGet(self._handle, self._instance, older)
        self._samples.reverse()
        if self._taken_at is not None:
            get: Any = self._get
            get.version, get.numMetrics = pynvml.NVML_GPM_METRICS_GET_VERSION, 1
            get.metrics[0].metricId = pynvml.NVML_GPM_METRIC_SM_UTIL
            get.sample1, get.sample2 = newer, older
            pynvml.nvmlGpmMetricsGet(get)
            valid = get.metrics[0].nvmlReturn == pynvml.NVML_SUCCESS
            value = if_plausible(get.metrics[0].value, _MAX_GPM_PCT) if valid else None
            self._newest = None if value is None else min(value, _MAX_PCT)
