"""A worker's environment: one GPU, a share of the CPUs, and nothing of the task that gmg-tui itself is.

Quadrants always opens CUDA ordinal 0 (quadrants/rhi/cuda/cuda_context.cpp), so `CUDA_VISIBLE_DEVICES`, set before the
process starts, is the only way to choose its GPU; `torch.cuda.set_device` in the script comes too late.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from gmg_tui.model import Slot

_VISIBLE_DEVICE = ("TI_VISIBLE_DEVICE", "QD_VISIBLE_DEVICE")
"""Read only by the Vulkan loaders of Taichi and Quadrants."""
_THREADS = ("OMP_NUM_THREADS", "QD_NUM_THREADS")
"""Of torch's and NumPy's loops, and of Quadrants' compiler and CPU kernels."""
_ENCODING = "PYTHONIOENCODING"
"""Takes precedence over PYTHONUTF8; Genesis' log has characters that most encodings lack."""
_OWN = "GMG_"
"""The prefix of gmg-tui's own variables, which nobody overrides."""
WORKER_VARIABLES = (
    *("GMG_SESSION", "GMG_SESSION_ID", "GMG_SLOT", "GMG_WORKER_INDEX", "GMG_NUM_WORKERS", "GMG_ATTEMPT"),
    *("GMG_JOB", "GMG_JOB_NAME", "GMG_PROBE_DIR"),
    *("GMG_EVENT", "GMG_FOLDER", "GMG_REASON", "GMG_TEXT"),
)
"""The variables of workers and of `--notify`'s commands. An engine that one of them starts inherits none."""
_TASK = re.compile(r"SLURM_(PROCID|LOCALID|NODEID|NPROCS|NTASKS\w*|STEPID|STEP_\w+)|(PMI|PMIX|OMPI)_\w+")
"""The variables that give a process its task number and their count, in Slurm's steps and MPI's jobs.

`SLURM_JOB_*` describe the allocation, which is the workers' too. `SLURM_STEPID` is the older name of `SLURM_STEP_ID`
(srun(1), output environment variables).
"""


class Environment(NamedTuple):
    """The environment of a worker's process."""

    set: dict[str, str]
    """The variables that gmg-tui sets, with `--env`."""
    unset: tuple[str, ...]
    """The variables of gmg-tui's own environment that this worker does not get."""
    full: dict[str, str]
    """The whole environment: gmg-tui's own, less `unset`, plus `set`."""


def worker_environment(
    base: Mapping[str, str],
    *,
    session: str,
    session_id: str,
    slot: Slot,
    index: int,
    count: int,
    attempt: int,
    gpu_index: int | None,
    egl_index: int | None,
    threads: int,
    extra: Mapping[str, str],
    robosuite: bool = False,
    more: Mapping[str, str] = MappingProxyType({}),
    devices: tuple[str, ...] = (),
) -> Environment:
    """The environment of one attempt on `slot`.

    Args:
        base: The environment that gmg-tui itself was started in.
        session: Name of the session.
        session_id: Unique among sessions of that name.
        slot: Where the worker runs.
        index: The worker's number, from 0.
        count: How many workers the session has.
        attempt: Number of the attempt, from 1.
        gpu_index: Current NVML index of the slot's GPU; None on a CPU slot.
        egl_index: Index of that GPU among the EGL devices; None if unknown: then `EGL_DEVICE_ID` is unset, so that
            Genesis tries all devices (0.3.0 and later) rather than one that may be wrong. MuJoCo counts them likewise.
        threads: The worker's share of the CPUs that may be used; `base` takes precedence.
        extra: The worker's `--env`, placeholders filled in; overrides everything but `GMG_…`.
        robosuite: True if the interpreter has robosuite, which asserts that `MUJOCO_EGL_DEVICE_ID` is a number in
            `CUDA_VISIBLE_DEVICES` (1.4.1, utils/binding_utils.py): it is unset then.
        more: A rank's variables about its group, and a sweep's job's about itself.
        devices: The GPUs that the worker sees, as `CUDA_VISIBLE_DEVICES` names them; empty for its slot's alone.

    Raises:
        ValueError: `gpu_index` is None on a GPU slot: the worker would take GPU 0.
    """
    settings = _device(slot, gpu_index, egl_index)
    if slot.gpu is not None:
        settings["MUJOCO_EGL_DEVICE_ID"] = None if robosuite else settings["EGL_DEVICE_ID"]
    if devices:
        settings["CUDA_VISIBLE_DEVICES"] = ",".join(devices)
    settings |= {"PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1", "PYTHONUTF8": "1"}
    settings |= {_ENCODING: None} if _ENCODING in base else {}
    settings |= {name: str(threads) for name in _THREADS if name not in base}
    settings |= more
    settings |= {name: value for name, value in extra.items() if not name.startswith(_OWN)}
    settings |= {
        "GMG_SESSION": session,
        "GMG_SESSION_ID": session_id,
        "GMG_SLOT": slot.name,
        "GMG_WORKER_INDEX": str(index),
        "GMG_NUM_WORKERS": str(count),
        "GMG_ATTEMPT": str(attempt),
    }
    removed = (name for name in task_variables(base) if name not in settings)
    unset = (*(name for name, value in settings.items() if value is None), *removed)
    chosen = {name: value for name, value in settings.items() if value is not None}
    return Environment(chosen, unset, {name: value for name, value in base.items() if name not in unset} | chosen)


def task_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The variables that mark a process as a task of a Slurm step or of an MPI job, by name.

    A worker is none: gmg-tui is the task. Libraries that find them (Lightning, mpi4py, hydra's launchers) would wait
    for the other tasks.
    """
    return tuple(sorted(name for name in environ if _TASK.fullmatch(name)))


def _device(slot: Slot, gpu_index: int | None, egl_index: int | None) -> dict[str, str | None]:
    """The variables that select the device; None for those to remove."""
    if slot.gpu is None:
        return {"CUDA_VISIBLE_DEVICES": ""}
    settings: dict[str, str | None] = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    if slot.is_mig:
        settings |= {"CUDA_VISIBLE_DEVICES": slot.gpu.uuid, **dict.fromkeys(_VISIBLE_DEVICE)}
    elif gpu_index is not None:
        settings |= dict.fromkeys(("CUDA_VISIBLE_DEVICES", *_VISIBLE_DEVICE), str(gpu_index))
    else:
        raise ValueError(f"{slot.name} is a GPU without an index")
    return settings | {"EGL_DEVICE_ID": None if egl_index is None else str(egl_index)}


def threads_each(cpus: int, workers: int) -> int:
    """Returns the share of `cpus` of each of `workers`; at least one."""
    return max(1, cpus // max(1, workers))
