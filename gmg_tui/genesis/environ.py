"""A worker's environment: one card for each worker, and its share of the host's cores.

Quadrants always opens CUDA ordinal 0 (quadrants/rhi/cuda/cuda_context.cpp), so `CUDA_VISIBLE_DEVICES`, set before the
process starts, is the only thing that chooses its card; `torch.cuda.set_device` in the script comes too late.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gmg_tui.model import Slot, SlotKind

_VISIBLE_DEVICE = ("TI_VISIBLE_DEVICE", "QD_VISIBLE_DEVICE")
"""Read by the Vulkan loader alone: of Taichi, and of Quadrants after it."""
_THREADS = ("OMP_NUM_THREADS", "QD_NUM_THREADS")
"""Of torch's and NumPy's loops, and of Quadrants' compiler and CPU kernels."""
_OWN = "GMG_"
"""The prefix of the variables that are gmg-tui's word and that nobody overrides."""


@dataclass(frozen=True)
class Environment:
    """What a worker's process gets."""

    set: dict[str, str]
    """What gmg-tui sets, `--env` included."""
    unset: tuple[str, ...]
    """What gmg-tui takes out of its own environment for this worker."""
    full: dict[str, str]
    """The whole environment: gmg-tui's own, less `unset`, plus `set`."""


class JobVariables(NamedTuple):
    """What a job of a sweep is told of itself: `GMG_JOB`, `GMG_JOB_NAME`, `GMG_OUT_DIR`."""

    number: int
    """From 1."""
    name: str
    out_dir: str
    """Its own folder, absolute."""


def worker_environment(
    base: Mapping[str, str],
    *,
    session: str,
    slot: Slot,
    index: int,
    count: int,
    attempt: int,
    gpu_index: int | None,
    egl_index: int | None,
    threads: int,
    extra: Mapping[str, str],
    job: JobVariables | None = None,
) -> Environment:
    """The environment of one attempt on `slot`.

    Args:
        base: The environment that gmg-tui itself was started in.
        session: Name of the session.
        slot: Where the worker runs.
        index: The worker's number, from 0.
        count: How many workers the session has.
        attempt: Number of the attempt, from 1.
        gpu_index: NVML index of the slot's card at this moment; None on a CPU slot.
        egl_index: Index of that card among the EGL devices; None where it could not be mapped. Then `EGL_DEVICE_ID` is
            unset, so that Genesis tries all devices (0.3.0 and later) rather than one that may be wrong.
        threads: The worker's share of the host's cores; set only where `base` says nothing.
        extra: The `--env` of this worker, placeholders filled in. It wins over everything but `GMG_…`.
        job: In a sweep, which job it is.

    Raises:
        ValueError: The slot is a card and `gpu_index` is None: without an index the worker would take card 0.
    """
    settings, unset = _device(slot, gpu_index, egl_index)
    settings |= {"PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1", "PYTHONUTF8": "1"}
    settings |= {name: str(threads) for name in _THREADS if name not in base}
    settings |= {name: value for name, value in extra.items() if not name.startswith(_OWN)}
    settings |= {
        "GMG_SESSION": session,
        "GMG_SLOT": slot.name,
        "GMG_WORKER_INDEX": str(index),
        "GMG_NUM_WORKERS": str(count),
        "GMG_ATTEMPT": str(attempt),
    }
    if job is not None:
        settings |= {"GMG_JOB": str(job.number), "GMG_JOB_NAME": job.name, "GMG_OUT_DIR": job.out_dir}
    removed = tuple(name for name in unset if name not in settings)
    full = {name: value for name, value in base.items() if name not in removed}
    return Environment(settings, removed, full | settings)


def _device(slot: Slot, gpu_index: int | None, egl_index: int | None) -> tuple[dict[str, str], tuple[str, ...]]:
    """What chooses the device: variables to set, and variables to take out."""
    if slot.kind is SlotKind.CPU:
        return {"CUDA_VISIBLE_DEVICES": ""}, ()
    settings = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    unset: tuple[str, ...] = ()
    if slot.kind is SlotKind.MIG and slot.gpu is not None:
        settings["CUDA_VISIBLE_DEVICES"] = slot.gpu.uuid
        unset += _VISIBLE_DEVICE
    elif gpu_index is not None:
        settings |= dict.fromkeys(("CUDA_VISIBLE_DEVICES", *_VISIBLE_DEVICE), str(gpu_index))
    else:
        raise ValueError(f"{slot.name} is a card without an index")
    if egl_index is None:
        unset += ("EGL_DEVICE_ID",)
    else:
        settings["EGL_DEVICE_ID"] = str(egl_index)
    return settings, unset


def threads_each(cores: int, workers: int) -> int:
    """The cores of each of `workers` that share `cores`; never less than one."""
    return max(1, cores // max(1, workers))
