"""Which GPUs and MIG instances there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pynvml

from gmg_tui.gpu import metrics
from gmg_tui.gpu.failure import LIBRARY_GONE, gpu_trouble
from gmg_tui.gpu.metrics import Asker
from gmg_tui.model import Gpu


def discover() -> tuple[tuple[Gpu, ...], tuple[tuple[int, str], ...]]:
    """All GPUs by index, each followed by its MIG instances, and the indices that do not answer, each with the reason.

    Raises `pynvml.NVMLError` when NVML as a whole does not answer.
    """
    found: list[Gpu] = []
    silent: list[tuple[int, str]] = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            found += _gpu_and_instances(index)
        except pynvml.NVMLError as error:
            if error.value in LIBRARY_GONE:
                raise
            silent.append((index, gpu_trouble(error)))
    return tuple(found), tuple(silent)


def driver_version() -> str | None:
    """The driver's version as nvidia-smi shows it; None if unknown."""
    try:
        return str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return None


def cuda_version() -> str | None:
    """The newest CUDA that the driver runs, such as 12.8; None if unknown."""
    try:
        version = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
    except pynvml.NVMLError:
        return None
    return f"{version // 1000}.{version % 1000 // 10}"


def _gpu_and_instances(index: int) -> list[Gpu]:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    ask = Asker(handle)
    pci = ask(pynvml.nvmlDeviceGetPciInfo)
    persistence = ask(pynvml.nvmlDeviceGetPersistenceMode)
    mig_mode = ask(pynvml.nvmlDeviceGetMigMode)
    gpu = Gpu(
        index=index,
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        name=ask(pynvml.nvmlDeviceGetName) or "unknown GPU",
        pci_bus_id=_text(pci.busId) if pci else None,
        memory_total_mib=metrics.memory_total_mib(ask),
        power_limit_w=metrics.power_limit_w(ask),
        persistence=None if persistence is None else bool(persistence),
        driver=driver_version(),
        cuda=cuda_version(),
        mig=bool(mig_mode and mig_mode[0]),
    )
    return [gpu, *(_instances(gpu, handle) if gpu.mig else ())]


def _instances(gpu: Gpu, handle: Any) -> Iterator[Gpu]:
    for mig_index in range(Asker(handle)(pynvml.nvmlDeviceGetMaxMigDeviceCount) or 0):
        instance = Asker(handle)(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, mig_index)
        if instance is None:  # indices may have gaps
            continue
        ask = Asker(instance)
        yield Gpu(
            index=gpu.index,
            uuid=pynvml.nvmlDeviceGetUUID(instance),
            name=ask(pynvml.nvmlDeviceGetName) or "unknown MIG instance",
            pci_bus_id=gpu.pci_bus_id,
            memory_total_mib=metrics.memory_total_mib(ask),
            persistence=gpu.persistence,
            mig_index=mig_index,
            parent_uuid=gpu.uuid,
            driver=gpu.driver,
            cuda=gpu.cuda,
            mig_ids=(ask(pynvml.nvmlDeviceGetGpuInstanceId), ask(pynvml.nvmlDeviceGetComputeInstanceId)),
        )


def _text(value: bytes | str) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else value
