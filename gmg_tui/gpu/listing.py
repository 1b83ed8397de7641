"""What `gmg-tui gpus` prints."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import wait
from typing import Any

from msgspec import structs

from gmg_tui.gpu import silence
from gmg_tui.gpu.nvml import Nvml
from gmg_tui.gpu.processes import describe
from gmg_tui.model import Gpu, GpuSample


def read(nvml: Nvml, gpus: tuple[Gpu, ...]) -> list[tuple[Gpu, GpuSample]]:
    """A sample of each of `gpus`, read in parallel, and of those that do not even identify themselves, by index.

    A GPU that has not answered within `silence.SILENT_S` has no metrics.
    """

    def ask(gpu: Gpu) -> Callable[[], tuple[float, GpuSample]]:
        return lambda: (time.monotonic(), nvml.read(gpu, slow=True))

    first = {gpu.uuid: silence.begin(ask(gpu)) for gpu in gpus}
    answered, silent = wait(first.values(), silence.SILENT_S)
    # What was read before some were waited for is old; a GPU that has answered is asked once more.
    again = {gpu.uuid: silence.begin(ask(gpu)) for gpu in gpus if silent and first[gpu.uuid] in answered}
    answered |= wait(again.values(), silence.LATE_S).done
    found = []
    for gpu in gpus:
        newest = next((one for one in (again.get(gpu.uuid), first[gpu.uuid]) if one in answered), None)
        unknown = GpuSample(uuid=gpu.uuid, error=silence.NO_ANSWER)
        found.append((gpu, _aged(*newest.result()) if newest is not None else unknown))
    found += [(Gpu(index=index, uuid="", name=""), GpuSample(uuid="", error=error)) for index, error in nvml.silent]
    return sorted(found, key=lambda one: one[0].index)


def row(gpu: Gpu, sample: GpuSample) -> dict[str, Any]:
    """The row of a GPU, or of a MIG instance with its GPU's index; a metric that is not known is None."""
    found: dict[str, Any] = {field: getattr(gpu, field) or None for field in ("uuid", "name", "pci_bus_id")}
    found = {"index": gpu.index} | found
    found["gpu_util_pct"] = sample.gpu_util_pct
    found["memory_used_mib"] = _rounded(sample.memory_used_mib)
    found["memory_total_mib"] = _rounded(sample.memory_total_mib) or gpu.memory_total_mib
    found |= {field: getattr(sample, field) for field in ("temperature_c", "power_w", "power_limit_w", "sm_clock_mhz")}
    found["throttle"] = sample.throttle
    found["processes"] = (
        None
        if sample.processes is None
        else [
            {"pid": one.pid, "name": one.name, "memory_mib": _rounded(one.memory_mib)}
            for one in describe(sample.processes)
        ]
    )
    return found


def _aged(asked_at: float, sample: GpuSample) -> GpuSample:
    age_s = time.monotonic() - asked_at
    return structs.replace(sample, age_s=age_s) if age_s >= silence.LATE_S else sample


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)
