"""Describes the processes on a GPU."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from msgspec import structs

from gmg_tui.machine.blocking_calls import begin
from gmg_tui.model import GpuProcess
from gmg_tui.model.text import clean

_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of Linux's include/linux/proc_ns.h."""
_DESCRIBE_S = 1.0
"""Limit for the processes of a GPU, which take milliseconds."""
_START_FIELD = 19
"""Position of `starttime` (ticks since boot) behind the name in `/proc/PID/stat`."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def in_initial_namespace() -> bool:
    """True if PIDs here are the host's, which NVML reports.

    The driver ignores PID namespaces: in a container the same number is another process (NVIDIA/nvidia-docker#1483).
    """
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid") == _INITIAL_PID_NAMESPACE  # noqa: PTH115 - a name, no path
    return False


class _Descriptions:
    """Describes processes in threads: the command line of a process that hangs in a driver may never be readable."""

    def __init__(self) -> None:
        self._reading: dict[int, float] = {}
        """When the processes being read were begun with, by PID; monotonic seconds."""

    def describe(self, processes: tuple[GpuProcess, ...]) -> tuple[GpuProcess, ...]:
        """Returns `processes` with name, user, command, age and session; without these if unreadable, foreign or hung.

        Never raises, and takes `_DESCRIBE_S` at most. Later calls skip a process that hangs.
        """
        described: dict[int, GpuProcess] = {}
        with suppress(TimeoutError):
            begin(self._read, processes, described).result(_DESCRIBE_S)
        return tuple(described.get(process.pid, process) for process in processes)

    def _read(self, processes: tuple[GpuProcess, ...], described: dict[int, GpuProcess]) -> None:
        for process in processes:
            now = time.monotonic()
            if process.foreign or now - self._reading.get(process.pid, now) > _DESCRIBE_S:
                continue
            self._reading[process.pid] = now
            described[process.pid] = _describe(process)
            self._reading.pop(process.pid, None)


describe = _Descriptions().describe


def _describe(process: GpuProcess) -> GpuProcess:
    import psutil  # late: the engine needs it only here

    try:
        # Another user's command line may be hidden where the name is not: it is None then.
        info = psutil.Process(process.pid).as_dict(["name", "cmdline", "username"])
        fields = Path(f"/proc/{process.pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (psutil.Error, OSError, ValueError):  # it has ended, or cannot be a PID here
        return process
    return structs.replace(
        process,
        name=_clean(info["name"]),
        age_s=time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[_START_FIELD]) / _TICKS_PER_S,
        command=_clean(" ".join(info["cmdline"] or ())),
        user=info["username"],
        session=_session(process.pid),
    )


def _session(pid: int) -> str | None:
    """Returns the session in a process's environment, which only its user may read."""
    with suppress(OSError):
        for variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if variable.startswith(b"GMG_SESSION="):
                return clean(variable.partition(b"=")[2]) or None
    return None


def _clean(text: str | None) -> str | None:
    """Returns `text` without control characters, if there is any; a process chooses its own name and command line."""
    return clean(text.encode("utf-8", "replace")) if text else None
