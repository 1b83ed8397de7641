"""A worker's environment: one GPU, a share of the CPUs, and no trace of the Slurm or MPI task that gmg-tui runs in.

Quadrants always opens CUDA ordinal 0 (quadrants/rhi/cuda/cuda_context.cpp), so `CUDA_VISIBLE_DEVICES`, set before the
process starts, is the only way to choose its GPU; `torch.cuda.set_device` in the script comes too late.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # the command that starts an engine reads `WORKER_VARIABLES` first
    from gmg_tui.model import Slot

_VULKAN_DEVICE = ("TI_VISIBLE_DEVICE", "QD_VISIBLE_DEVICE")
"""Read by the Vulkan loaders of Taichi and Quadrants only."""
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "QD_NUM_THREADS")
"""The threads of torch and NumPy, and of Quadrants' compiler and CPU kernels."""
_ENCODING = "PYTHONIOENCODING"
"""Overrides PYTHONUTF8; most other encodings lack characters of Genesis' log."""
_OWN_PREFIX = "GMG_"
"""The prefix of gmg-tui's own variables, which `--env` cannot override."""
WORKER_VARIABLES = (
    *("GMG_SESSION", "GMG_SESSION_ID", "GMG_SLOT", "GMG_WORKER_INDEX", "GMG_NUM_WORKERS", "GMG_ATTEMPT"),
    *("GMG_JOB", "GMG_JOB_NAME", "GMG_PROBE_DIR", "GMG_PROBE_SPARE_DIR"),
    *("GMG_EVENT", "GMG_FOLDER", "GMG_REASON", "GMG_TEXT"),
)
"""The variables of workers and `--notify` commands. An engine started from such a process inherits none of them."""
_TASK_VARIABLE = re.compile(r"SLURM_(PROCID|LOCALID|NODEID|NPROCS|NTASKS\w*|STEPID|STEP_\w+)|(PMI|PMIX|OMPI)_\w+")
"""The variables of a task in a Slurm step or an MPI job. `SLURM_JOB_*` describe the allocation, and stay."""


class Environment(NamedTuple):
    """The environment of a worker's process."""

    set: dict[str, str]
    """The variables that gmg-tui and `--env` set."""
    unset: tuple[str, ...]
    """The variables of gmg-tui's own environment that are withheld."""
    full: dict[str, str]
    """The complete environment: gmg-tui's own, without `unset` and with `set`."""


def worker_environment(
    base: Mapping[str, str],
    slot: Slot,
    *,
    own: Mapping[str, str],
    gpu_index: int | None,
    egl_index: int | None,
    threads: int,
    extra: Mapping[str, str],
    robosuite: bool = False,
    rank_variables: Mapping[str, str] = MappingProxyType({}),
    devices: tuple[str, ...] = (),
) -> Environment:
    """Returns the environment of one attempt on `slot`.

    Args:
        base: The environment of gmg-tui itself.
        slot: The worker's slot.
        own: The `GMG_…` variables.
        gpu_index: Current NVML index of the slot's GPU; None on a CPU slot.
        egl_index: Index of that GPU among the EGL devices, which MuJoCo shares. None if unknown: `EGL_DEVICE_ID` is
            unset then, so that Genesis (since 0.3.0) tries all devices.
        threads: The worker's share of the usable CPUs; variables in `base` take precedence.
        extra: The worker's `--env`, placeholders filled in; overrides everything but `own`.
        robosuite: True if the interpreter has robosuite, which asserts that `MUJOCO_EGL_DEVICE_ID` is a number in
            `CUDA_VISIBLE_DEVICES` (1.4.1, utils/binding_utils.py), so that it must be unset.
        rank_variables: The variables of a rank.
        devices: The entries of `CUDA_VISIBLE_DEVICES`; empty for the slot's GPU alone.

    Raises `ValueError` if `gpu_index` is None for a whole GPU: the worker would take GPU 0.
    """
    settings = _device(slot, gpu_index, egl_index)
    if slot.gpu is not None:
        settings["MUJOCO_EGL_DEVICE_ID"] = None if robosuite else settings["EGL_DEVICE_ID"]
    if devices:
        settings["CUDA_VISIBLE_DEVICES"] = ",".join(devices)
    settings |= {"PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1", "PYTHONUTF8": "1"}
    settings |= {_ENCODING: None} if _ENCODING in base else {}
    settings |= {name: str(threads) for name in _THREAD_VARIABLES if name not in base}
    settings |= rank_variables
    settings |= {name: value for name, value in extra.items() if not name.startswith(_OWN_PREFIX)}
    settings |= own
    removed = (name for name in task_variables(base) if name not in settings)
    unset = (*(name for name, value in settings.items() if value is None), *removed)
    variables = {name: value for name, value in settings.items() if value is not None}
    return Environment(variables, unset, {name: value for name, value in base.items() if name not in unset} | variables)


def task_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the variables that mark a process as a task of a Slurm step or an MPI job.

    In a worker, libraries that find them (Lightning, mpi4py, hydra's launchers) would wait for the other tasks.
    """
    return tuple(sorted(name for name in environ if _TASK_VARIABLE.fullmatch(name)))


def _device(slot: Slot, gpu_index: int | None, egl_index: int | None) -> dict[str, str | None]:
    """Returns the variables that select the device; None removes one."""
    if slot.gpu is None:
        return {"CUDA_VISIBLE_DEVICES": ""}
    settings: dict[str, str | None] = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    if slot.is_mig:
        settings |= {"CUDA_VISIBLE_DEVICES": slot.gpu.uuid, **dict.fromkeys(_VULKAN_DEVICE)}
    elif gpu_index is not None:
        settings |= dict.fromkeys(("CUDA_VISIBLE_DEVICES", *_VULKAN_DEVICE), str(gpu_index))
    else:
        raise ValueError(f"{slot.name} is a GPU without an index")
    return settings | {"EGL_DEVICE_ID": None if egl_index is None else str(egl_index)}


def thread_share(cpus: int, workers: int) -> int:
    """Returns each worker's share of `cpus`; at least one."""
    return max(1, cpus // max(1, workers))
