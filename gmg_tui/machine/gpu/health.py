"""A GPU's health: its counters of errors and the state of its links, and what is wrong by them.

All of it changes rarely; a driver may take milliseconds for each counter.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial

import pynvml
from msgspec import structs

from gmg_tui.machine.gpu import xids
from gmg_tui.machine.gpu.driver import Asker, plausible
from gmg_tui.machine.gpu.nvml_metrics import MAX_TEMPERATURE_C
from gmg_tui.model import GpuHealth, GpuTrouble, Xid, units

_TYPES = (pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED)
_FIELDS = (pynvml.NVML_FI_DEV_MEMORY_TEMP, pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL)
_MAX_COUNT = 10**9
"""Of errors: more are a counter that is not there."""
_MAX_PCIE_GEN, _MAX_PCIE_LANES = 16, 64
_MAX_PSTATE = 15
"""32 is NVML's "unknown"."""
_BUSY_PSTATE = 2
"""Up to this performance state the link is at full speed; above it, an idle GPU saves power."""


def read(ask: Asker) -> GpuHealth:
    """Reads a GPU's health, and judges it. Raises the errors of `Asker`."""
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
    # NVML fills the type that a field has; the first is an unsigned int, the others are counters.
    numbers = [value.value.ullVal if index else value.value.uiVal for index, value in enumerate(values)]
    valid = [value.nvmlReturn == pynvml.NVML_SUCCESS for value in values]
    return [number if good else None for number, good in zip(numbers, valid, strict=True)] or [None] * len(_FIELDS)


def judged(health: GpuHealth) -> GpuHealth:
    """Returns `health` with its faults, the fatal first."""
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
    """The health of GPUs by UUID: read from time to time in one thread, Xids added in another."""

    def __init__(self) -> None:
        self._newest: dict[str, GpuHealth] = {}
        self._lock = threading.Lock()

    def of(self, uuid: str) -> GpuHealth | None:
        """Returns the last reading; None before the first, and for a GPU that reports nothing."""
        return self._newest.get(uuid)

    def update(self, uuid: str, ask: Asker) -> GpuHealth | None:
        """Reads a GPU's health; the Xids stay. Returns what `of` does. Raises the errors of `Asker`."""
        health = read(ask)
        with self._lock:
            if before := self._newest.get(uuid):
                health = judged(structs.replace(health, xids=before.xids))
            if health != GpuHealth():
                self._newest[uuid] = health
        return self.of(uuid)

    def add_xid(self, uuid: str, code: int) -> None:
        """Counts an Xid of a GPU, and judges its health again."""
        with self._lock:
            health = self._newest.get(uuid) or GpuHealth()
            before = next((xid for xid in health.xids if xid.code == code), None)
            xid = structs.replace(before, count=before.count + 1) if before else Xid(code, time.time())
            others = (other for other in health.xids if other.code != code)
            self._newest[uuid] = judged(structs.replace(health, xids=(*others, xid)))
