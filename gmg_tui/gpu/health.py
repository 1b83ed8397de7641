"""A GPU's health: its counters of errors and the state of its links, and what is wrong by them.

All of it changes rarely; a driver may take milliseconds for each counter.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pynvml
from msgspec import structs

from gmg_tui import units
from gmg_tui.gpu import mps, xids
from gmg_tui.gpu.metrics import Asker
from gmg_tui.model import GpuHealth, GpuTrouble, Severity, Xid

_ERRORS = (
    (pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_VOLATILE_ECC),
    (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC),
    (pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_AGGREGATE_ECC),
    (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_AGGREGATE_ECC),
)
_FIELDS = (
    pynvml.NVML_FI_DEV_MEMORY_TEMP,
    pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
    pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
    pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL,
)
_BUSY_PSTATE = 2
"""Up to this performance state the link is at full speed; above it, an idle GPU saves power."""
_ORDER = {Severity.FATAL: 0, Severity.DEGRADED: 1}


def read(ask: Asker) -> GpuHealth:
    """What a GPU reports of its health, and what is wrong by that. Raises what an `Asker` raises."""
    errors = [ask(pynvml.nvmlDeviceGetTotalEccErrors, *kind) for kind in _ERRORS]
    rows = ask(pynvml.nvmlDeviceGetRemappedRows) or (None,) * 4
    temperature, *links = _fields(ask)
    known = [count for count in links if count is not None]
    return judged(
        GpuHealth(
            ecc_corrected=errors[0],
            ecc_uncorrected=errors[1],
            ecc_corrected_ever=errors[2],
            ecc_uncorrected_ever=errors[3],
            remapped_corrected=rows[0],
            remapped_uncorrected=rows[1],
            remap_pending=None if rows[2] is None else bool(rows[2]),
            remap_failed=None if rows[3] is None else bool(rows[3]),
            memory_temperature_c=temperature,
            memory_temperature_max_c=ask(
                pynvml.nvmlDeviceGetTemperatureThreshold, pynvml.NVML_TEMPERATURE_THRESHOLD_MEM_MAX
            ),
            pcie_gen=ask(pynvml.nvmlDeviceGetCurrPcieLinkGeneration),
            pcie_gen_max=ask(pynvml.nvmlDeviceGetMaxPcieLinkGeneration),
            pcie_width=ask(pynvml.nvmlDeviceGetCurrPcieLinkWidth),
            pcie_width_max=ask(pynvml.nvmlDeviceGetMaxPcieLinkWidth),
            nvlink_errors=sum(known) if known else None,
            nvlink_recoveries=links[-1],
            pstate=ask(pynvml.nvmlDeviceGetPerformanceState),
            mps=mps.pipes(os.environ),
        )
    )


def _fields(ask: Asker) -> list[int | None]:
    values = ask(pynvml.nvmlDeviceGetFieldValues, _FIELDS)
    if values is None:
        return [None] * len(_FIELDS)
    # NVML fills the type that a field has; the first is an unsigned int, the others are counters.
    found = [value.value.uiVal if not place else value.value.ullVal for place, value in enumerate(values)]
    return [
        number if value.nvmlReturn == pynvml.NVML_SUCCESS else None for number, value in zip(found, values, strict=True)
    ]


def judged(health: GpuHealth) -> GpuHealth:
    """`health` with what is wrong by it."""
    return structs.replace(health, troubles=tuple(sorted(_troubles(health), key=lambda one: _ORDER[one.severity])))


def _troubles(health: GpuHealth) -> Iterator[GpuTrouble]:
    if health.ecc_uncorrected:
        yield GpuTrouble(
            Severity.FATAL,
            f"{units.count(health.ecc_uncorrected, 'ECC error')}, uncorrected",
            "what was computed may be wrong: end what runs there and reset it (`nvidia-smi --gpu-reset`); "
            "have it replaced if that comes again",
        )
    if health.remap_failed:
        yield GpuTrouble(Severity.FATAL, "a memory row cannot be replaced", "have the GPU replaced")
    yield from (trouble for trouble in map(xids.trouble, reversed(health.xids)) if trouble is not None)
    if health.remap_pending:
        yield GpuTrouble(
            Severity.DEGRADED,
            "a memory row waits to be replaced",
            "when nothing runs there, reset it: `nvidia-smi --gpu-reset`",
        )
    if health.nvlink_recoveries:
        yield GpuTrouble(
            Severity.DEGRADED,
            f"NVLink has failed {units.count(health.nvlink_recoveries, 'time')}",
            "`nvidia-smi nvlink -e` names the link; check its bridge or the fabric manager",
        )
    hot, limit = health.memory_temperature_c, health.memory_temperature_max_c
    if hot is not None and limit and hot >= limit:
        yield GpuTrouble(Severity.DEGRADED, f"memory at {hot:.0f} °C, limit {limit:.0f} °C", "check the cooling")
    yield from _links(health)


def _links(health: GpuHealth) -> Iterator[GpuTrouble]:
    width, widest = health.pcie_width, health.pcie_width_max
    if width and widest and width < widest:
        yield GpuTrouble(
            Severity.DEGRADED, f"PCIe has {width} of {widest} lanes", "check the GPU's seat, riser cable and slot"
        )
    gen, best = health.pcie_gen, health.pcie_gen_max
    busy = health.pstate is not None and health.pstate <= _BUSY_PSTATE
    if busy and gen and best and gen < best:
        yield GpuTrouble(Severity.DEGRADED, f"PCIe generation {gen} of {best}", "check the slot's setting in the BIOS")


class Healths:
    """The health of GPUs by UUID: read from time to time in one thread, Xids added in another."""

    def __init__(self) -> None:
        self._known: dict[str, GpuHealth] = {}
        self._lock = threading.Lock()

    def of(self, uuid: str) -> GpuHealth | None:
        """What was read last; None before that, and where a GPU says nothing."""
        return self._known.get(uuid)

    def look(self, uuid: str, ask: Asker) -> GpuHealth | None:
        """Read a GPU's health; the Xids stay. Returns what `of` does. Raises what an `Asker` raises."""
        found = read(ask)
        with self._lock:
            before = self._known.get(uuid)
            if before is not None and before.xids:
                found = judged(structs.replace(found, xids=before.xids))
            if found != GpuHealth():
                self._known[uuid] = found
        return self.of(uuid)

    def hear(self, uuid: str, code: int) -> None:
        """Take note of an Xid."""
        with self._lock:
            health = self._known.get(uuid) or GpuHealth()
            before = next((one for one in health.xids if one.code == code), None)
            xid = structs.replace(before, count=before.count + 1) if before else Xid(code, time.time())
            others = (one for one in health.xids if one.code != code)
            self._known[uuid] = judged(structs.replace(health, xids=(*others, xid)))
