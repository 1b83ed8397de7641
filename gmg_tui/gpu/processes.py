"""Who the processes on a card are."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from gmg_tui.model import GpuProcess
from gmg_tui.text import clean

if TYPE_CHECKING:
    import psutil

_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of Linux's include/linux/proc_ns.h."""


def describe(processes: tuple[GpuProcess, ...]) -> tuple[GpuProcess, ...]:
    """`processes` with name, user, command and age where they can be known; never raises.

    NVML gives PIDs of the host. In a container the same number may be another process, so there a PID is joined only to
    a process that has the NVIDIA driver mapped.
    """
    ours = _in_initial_namespace()
    return tuple(_describe(process) if ours or _uses_nvidia(process.pid) else process for process in processes)


def _in_initial_namespace() -> bool:
    try:
        return str(Path("/proc/self/ns/pid").readlink()) == _INITIAL_PID_NAMESPACE
    except OSError:
        return False


def _uses_nvidia(pid: int) -> bool:
    """Whether the process maps the driver's library or device; False when that cannot be seen."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return False
    return "/libcuda.so" in maps or "/dev/nvidia" in maps


def _describe(process: GpuProcess) -> GpuProcess:
    import psutil  # not with the engine, which needs it only here

    try:
        system = psutil.Process(process.pid)
        with system.oneshot():
            found = structs.replace(process, name=_clean(system.name()), age_s=time.time() - system.create_time())
            # Another user's command line may be hidden where the name is not.
            command = _ask(system, "cmdline")
            user = _ask(system, "username")
    except (psutil.Error, OSError, ValueError):  # ended meanwhile, or a PID that cannot be one here
        return process
    return structs.replace(
        found,
        command=_clean(" ".join(command)) if isinstance(command, list) and command else None,
        user=user if isinstance(user, str) else None,
    )


def _ask(system: psutil.Process, question: str) -> object:
    import psutil

    try:
        return getattr(system, question)()
    except (psutil.Error, OSError, KeyError):
        return None


def _clean(text: str) -> str:
    """`text` without what could move a terminal's cursor; a process chooses its own name and command line."""
    return clean(text.encode("utf-8", "replace"))
