"""A GPU's health: error counters, links and Xids, and the faults that they show.

All of these change rarely; a driver may take milliseconds for each counter.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pynvml
from msgspec import structs

from gmg_tui.machine.gpu import xids
from gmg_tui.machine.gpu.driver import UNSUPPORTED, Asker, plausible
from gmg_tui.machine.gpu.nvml_metrics import MAX_TEMPERATURE_C
from gmg_tui.model import GpuHealth, GpuTrouble, Xid, units

_TYPES = (pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED)
_FIELDS = (pynvml.NVML_FI_DEV_MEMORY_TEMP, pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL)
_MAX_COUNT = 10**9
"""A counter of more errors does not exist."""
_MAX_PCIE_GEN, _MAX_PCIE_LANES = 16, 64
_MAX_PSTATE = 15
"""32 is NVML's "unknown"."""
_BUSY_PSTATE = 2
"""The last performance state with the link at full speed; idle GPUs save power."""
_MAX_EVENTS = 64
"""Xids to read at once; a GPU may report thousands."""


def read(ask: Asker) -> GpuHealth:
    """Reads a GPU's health with its faults. Raises as `Asker`."""
    errors = [
        plausible(ask(pynvml.nvmlDeviceGetTotalEccErrors, kind, pynvml.NVML_VOLATILE_ECC), _MAX_COUNT)
        for kind in _TYPES
    ]
    hottest = ask(pynvml.nvmlDeviceGetTemperatureThreshold, pynvml.NVML_TEMPERATURE_THRESHOLD_MEM_MAX)
    rows = ask(pynvml.nvmlDeviceGetRemappedRows) or (None,) * 4
    temperature, recoveries = _fields(ask)
    return judged(
        GpuHealth(
            ecc_corrected=errors[0],
            ecc_uncorrected=errors[1],
            remap_pending=None if rows[2] is None else bool(rows[2]),
            remap_failed=None if rows[3] is None else bool(rows[3]),
            memory_temperature_c=plausible(temperature, MAX_TEMPERATURE_C),
            memory_temperature_max_c=plausible(hottest, MAX_TEMPERATURE_C),
            pcie_gen=plausible(ask(pynvml.nvmlDeviceGetCurrPcieLinkGeneration), _MAX_PCIE_GEN),
            pcie_gen_max=plausible(ask(pynvml.nvmlDeviceGetMaxPcieLinkGeneration), _MAX_PCIE_GEN),
            pcie_width=plausible(ask(pynvml.nvmlDeviceGetCurrPcieLinkWidth), _MAX_PCIE_LANES),
            pcie_width_max=plausible(ask(pynvml.nvmlDeviceGetMaxPcieLinkWidth), _MAX_PCIE_LANES),
            nvlink_recoveries=plausible(recoveries, _MAX_COUNT),
            pstate=plausible(ask(pynvml.nvmlDeviceGetPerformanceState), _MAX_PSTATE),
        )
    )


def _fields(ask: Asker) -> list[int | None]:
    values = ask(pynvml.nvmlDeviceGetFieldValues, _FIELDS) or ()
    # The union's member depends on the field: an unsigned int, then a counter.
    numbers = [value.value.ullVal if index else value.value.uiVal for index, value in enumerate(values)]
    valid = [value.nvmlReturn == pynvml.NVML_SUCCESS for value in values]
    return [number if good else None for number, good in zip(numbers, valid, strict=True)] or [None] * len(_FIELDS)


def judged(health: GpuHealth) -> GpuHealth:
    """Returns `health` with its faults, fatal ones first."""
    troubles = sorted(_troubles(health), key=lambda trouble: not trouble.fatal)
    return structs.replace(health, troubles=tuple(troubles))


def _troubles(health: GpuHealth) -> Iterator[GpuTrouble]:
    fatal, degraded = partial(GpuTrouble, True), partial(GpuTrouble, False)
    hot, limit = health.memory_temperature_c, health.memory_temperature_max_c
    width, widest = health.pcie_width, health.pcie_width_max
    gen, best = health.pcie_gen, health.pcie_gen_max
    if errors := health.ecc_uncorrected:
        yield fatal(f"{units.count(errors, 'ECC error')}, uncorrected", f"what was computed may be wrong: {xids.RMA}")
    if health.remap_failed:
        yield fatal("a memory row cannot be replaced", "have the GPU replaced")
    yield from filter(None, map(xids.trouble, reversed(health.xids)))
    if health.remap_pending:
        yield degraded("a memory row waits to be replaced", f"{xids.IDLE_RESET}: `nvidia-smi --gpu-reset`")
    if times := health.nvlink_recoveries:
        advice = "`nvidia-smi nvlink -e` names the link; check its bridge or the fabric manager"
        yield degraded(f"NVLink has failed {units.count(times, 'time')}", advice)
    if hot is not None and limit and hot >= limit:
        yield degraded(f"memory at {hot:.0f} °C, limit {limit:.0f} °C", "check the cooling")
    if width and widest and width < widest:
        yield degraded(f"PCIe has {width} of {widest} lanes", "check the GPU's seat, riser cable and slot")
    busy = health.pstate is not None and health.pstate <= _BUSY_PSTATE
    if busy and gen and best and gen < best:
        yield degraded(f"PCIe generation {gen} of {best}", "check the slot's setting in the BIOS")


class Healths:
    """The health of GPUs by UUID. One thread reads it, another adds Xids."""

    def __init__(self) -> None:
        self._newest: dict[str, GpuHealth] = {}
        self._lock = threading.Lock()

    def of(self, uuid: str) -> GpuHealth | None:
        """Returns the last reading; None before the first, or if the GPU reports nothing."""
        return self._newest.get(uuid)

    def update(self, uuid: str, ask: Asker) -> GpuHealth | None:
        """Reads a GPU's health, keeping its Xids. Returns the result of `of`. Raises as `Asker`."""
        health = read(ask)
        with self._lock:
            if before := self._newest.get(uuid):
                health = judged(structs.replace(health, xids=before.xids))
            if health != GpuHealth():
                self._newest[uuid] = health
        return self.of(uuid)

    def add_xid(self, uuid: str, code: int) -> None:
        """Adds an Xid to a GPU's health."""
        with self._lock:
            health = self._newest.get(uuid) or GpuHealth()
            before = next((xid for xid in health.xids if xid.code == code), None)
            xid = structs.replace(before, count=before.count + 1) if before else Xid(code, time.time())
            others = (other for other in health.xids if other.code != code)
            self._newest[uuid] = judged(structs.replace(health, xids=(*others, xid)))


class XidEvents:
    """The Xids of one GPU from now on: a shared event set of NVML fails as a whole when one GPU is lost.

    Used by one thread; free it before `nvmlShutdown`.
    """

    def __init__(self, handle: Any) -> None:
        """Raises `pynvml.NVMLError` if the GPU does not answer."""
        self._set = pynvml.nvmlEventSetCreate()
        self._is_supported = True
        try:
            pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, self._set)
        except pynvml.NVMLError as error:
            if error.value not in UNSUPPORTED:
                self.free()
                raise
            self._is_supported = False

    def new(self) -> Iterator[int]:
        """Yields the new Xids without waiting. Raises `pynvml.NVMLError` if the GPU or NVML is gone."""
        for _ in range(_MAX_EVENTS if self._is_supported else 0):
            try:
                event = pynvml.nvmlEventSetWait_v2(self._set, 0)
            except pynvml.NVMLError as error:
                if error.value == pynvml.NVML_ERROR_TIMEOUT:
                    return
                raise
            yield int(event.eventData)

    def free(self) -> None:
        """Stops listening."""
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlEventSetFree(self._set)
