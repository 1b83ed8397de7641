"""A GPU's health: error counters, links, Xids, and the faults that they indicate.

All of these change rarely, and a driver may take milliseconds for each counter.
"""

import contextlib
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pynvml
from msgspec import structs

from gmg_tui.machine.gpu import xids
from gmg_tui.machine.gpu.driver import UNSUPPORTED, Query, if_plausible
from gmg_tui.machine.gpu.nvml_metrics import MAX_TEMPERATURE_C
from gmg_tui.model import GpuHealth, GpuTrouble, Xid, units

_ECC = (pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED)
_FIELDS = (pynvml.NVML_FI_DEV_MEMORY_TEMP, pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL)
_MAX_COUNT = 10**9
_MAX_PCIE_GEN, _MAX_PCIE_LANES = 16, 64
_MAX_PSTATE = 15
"""Highest valid value; 32 is NVML's "unknown"."""
_BUSY_PSTATE = 2
"""The slowest performance state with the link at full speed; idle GPUs save power."""
_MAX_XIDS = 64
"""Xids to read at once; a GPU may report thousands."""


def read(query: Query) -> GpuHealth:
    """Reads a GPU's health, without its faults. Raises like `Query`."""
    corrected, uncorrected = (
        query.number(_MAX_COUNT, pynvml.nvmlDeviceGetTotalEccErrors, kind, pynvml.NVML_VOLATILE_ECC) for kind in _ECC
    )
    threshold = pynvml.NVML_TEMPERATURE_THRESHOLD_MEM_MAX
    rows = query(pynvml.nvmlDeviceGetRemappedRows) or (None,) * 4
    # The union's member depends on the field.
    fields = zip(query(pynvml.nvmlDeviceGetFieldValues, _FIELDS) or (), ("uiVal", "ullVal"), strict=False)
    values = [getattr(field.value, kind) if field.nvmlReturn == pynvml.NVML_SUCCESS else None for field, kind in fields]
    temperature, recoveries = values or (None, None)
    return GpuHealth(
        ecc_corrected=corrected,
        ecc_uncorrected=uncorrected,
        remap_pending=None if rows[2] is None else bool(rows[2]),
        remap_failed=None if rows[3] is None else bool(rows[3]),
        memory_temperature_c=if_plausible(temperature, MAX_TEMPERATURE_C),
        memory_temperature_max_c=query.number(MAX_TEMPERATURE_C, pynvml.nvmlDeviceGetTemperatureThreshold, threshold),
        pcie_gen=query.number(_MAX_PCIE_GEN, pynvml.nvmlDeviceGetCurrPcieLinkGeneration),
        pcie_gen_max=query.number(_MAX_PCIE_GEN, pynvml.nvmlDeviceGetMaxPcieLinkGeneration),
        pcie_width=query.number(_MAX_PCIE_LANES, pynvml.nvmlDeviceGetCurrPcieLinkWidth),
        pcie_width_max=query.number(_MAX_PCIE_LANES, pynvml.nvmlDeviceGetMaxPcieLinkWidth),
        nvlink_recoveries=if_plausible(recoveries, _MAX_COUNT),
        pstate=query.number(_MAX_PSTATE, pynvml.nvmlDeviceGetPerformanceState),
    )


def judge(health: GpuHealth) -> GpuHealth:
    """Returns `health` with its faults, fatal ones first."""
    troubles = sorted(_troubles(health), key=lambda trouble: not trouble.fatal)
    return structs.replace(health, troubles=tuple(troubles))


def _troubles(health: GpuHealth) -> Iterator[GpuTrouble]:
    fatal, degraded = partial(GpuTrouble, True), partial(GpuTrouble, False)
    hot, limit = health.memory_temperature_c, health.memory_temperature_max_c
    width, widest = health.pcie_width, health.pcie_width_max
    gen, best_gen = health.pcie_gen, health.pcie_gen_max
    if errors := health.ecc_uncorrected:
        text = f"{units.count(errors, 'ECC error')}, uncorrected"
        yield fatal(text, f"results may be wrong: {xids.advice('replace')}")
    if health.remap_failed:
        yield fatal("a memory row cannot be remapped", "have the GPU replaced")
    yield from filter(None, map(xids.trouble, reversed(health.xids)))
    if health.remap_pending:
        yield degraded("a memory row remapping is pending", f"{xids.advice('idle-reset')}: `nvidia-smi --gpu-reset`")
    if times := health.nvlink_recoveries:
        advice = "`nvidia-smi nvlink -e` names the link; check its bridge or the fabric manager"
        yield degraded(f"NVLink has failed {units.count(times, 'time')}", advice)
    if hot is not None and limit and hot >= limit:
        yield degraded(f"memory at {hot:.0f} °C, limit {limit:.0f} °C", "check the cooling")
    if width and widest and width < widest:
        yield degraded(f"PCIe has {width} of {widest} lanes", "check the GPU's seat, riser cable and slot")
    busy = health.pstate is not None and health.pstate <= _BUSY_PSTATE
    if busy and gen and best_gen and gen < best_gen:
        yield degraded(f"PCIe generation {gen} of {best_gen}", "check the slot's setting in the BIOS")


def with_xid(health: GpuHealth, code: int) -> GpuHealth:
    """Returns `health` with one more Xid, and its faults."""
    known = next((xid for xid in health.xids if xid.code == code), Xid(code, time.time(), 0))
    others = (other for other in health.xids if other.code != code)
    return judge(structs.replace(health, xids=(*others, structs.replace(known, count=known.count + 1))))


class XidEvents:
    """Listens for the Xids of one GPU: an event set shared by several would fail as a whole if one GPU were lost.

    Use from one thread only; free before `nvmlShutdown`.

    Attributes:
        lost: True once the GPU or NVML is gone.
    """

    def __init__(self, handle: Any) -> None:
        """Raises `pynvml.NVMLError` if the GPU does not answer."""
        self._set: Any = pynvml.nvmlEventSetCreate()
        self._max_events, self.lost = _MAX_XIDS, False
        try:
            pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, self._set)
        except pynvml.NVMLError as error:
            if error.value not in UNSUPPORTED:
                self.free()
                raise
            self._max_events = 0

    def poll(self) -> Iterator[int]:
        """Yields the new Xids without waiting."""
        for _ in range(self._max_events):
            try:
                event = pynvml.nvmlEventSetWait_v2(self._set, 0)
            except pynvml.NVMLError as error:
                if error.value != pynvml.NVML_ERROR_TIMEOUT:
                    self.lost = True
                    self.free()
                return
            yield int(event.eventData)

    def free(self) -> None:
        """Stops listening."""
        freed, self._set, self._max_events = self._set, None, 0
        if freed is not None:
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlEventSetFree(freed)
