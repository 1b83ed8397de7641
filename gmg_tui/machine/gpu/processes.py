"""Describes the processes on a GPU."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from msgspec import structs

from gmg_tui.model import GpuProcess
from gmg_tui.model.text import clean

_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of Linux's include/linux/proc_ns.h."""


def describe(processes: tuple[GpuProcess, ...]) -> tuple[GpuProcess, ...]:
    """`processes` with name, user, command and age where readable, none of them for foreign ones; never raises."""
    return tuple(process if process.foreign else _describe(process) for process in processes)


def in_initial_namespace() -> bool:
    """Whether PIDs here are the host's, which NVML reports.

    The driver ignores PID namespaces: in a container the same number is another process (NVIDIA/nvidia-docker#1483).
    """
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid") == _INITIAL_PID_NAMESPACE  # noqa: PTH115 - a name, no path
    return False


def _describe(process: GpuProcess) -> GpuProcess:
    import psutil  # late: the engine needs it only here

    try:
        # Another user's command line may be hidden where the name is not: it is None then.
        info = psutil.Process(process.pid).as_dict(["name", "create_time", "cmdline", "username"])
    except (psutil.Error, OSError, ValueError):  # it has ended, or cannot be a PID here
        return process
    return structs.replace(
        process,
        name=_clean(info["name"]),
        age_s=time.time() - info["create_time"] if info["create_time"] is not None else None,
        command=_clean(" ".join(info["cmdline"] or ())),
        user=info["username"],
    )


def _clean(text: str | None) -> str | None:
    """`text` without control characters, if there is any; a process chooses its own name and command line."""
    return clean(text.encode("utf-8", "replace")) if text else None
