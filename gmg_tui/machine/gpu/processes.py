"""The processes on a GPU: names, users and commands, and its use by others."""

import os
import time
from collections.abc import Hashable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from gmg_tui.machine.blocking_calls import begin
from gmg_tui.machine.ownership import user_name
from gmg_tui.machine.processes import TICKS_PER_S, command_line, command_name, read, read_variable
from gmg_tui.model import GpuProcess, GpuSample, units
from gmg_tui.model.text import clean

_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of Linux's include/linux/proc_ns.h."""
_DESCRIBE_TIMEOUT_S = 1.0
"""Seconds to describe a GPU's processes, which usually takes milliseconds."""
_MAX_SESSION_CHARS = 40
_MAX_NAME_CHARS = 15
"""Characters of a name that the kernel keeps."""
MAX_NAMED_PROCESSES = 3
_MAX_COMMAND_CHARS = 60
_MAX_PENDING_READS = 16
"""Maximum reads that may block at a time, each with a thread: other users can make those of their processes block."""
_read_since: dict[int, float] = {}
"""The start of each pending read by PID, monotonic seconds; reads of a process hung in a driver may block forever."""


def in_initial_namespace() -> bool:
    """True if PIDs here are the host's, as NVML's are even in a container (NVIDIA/nvidia-docker#1483)."""
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid") == _INITIAL_PID_NAMESPACE  # noqa: PTH115 - not a path
    return False


def describe(processes: tuple[GpuProcess, ...]) -> tuple[GpuProcess, ...]:
    """Adds name, user, command, age and session to `processes`, except to foreign, hung and unreadable ones.

    Never raises, and takes at most `_DESCRIBE_TIMEOUT_S`. Later calls skip a process whose read still hangs.
    """
    described: dict[int, GpuProcess] = {}
    with suppress(TimeoutError, RuntimeError):  # no thread can be started
        begin(_describe_all, processes, described).result(_DESCRIBE_TIMEOUT_S)
    return tuple(described.get(process.pid, process) for process in processes)


def _describe_all(processes: tuple[GpuProcess, ...], described: dict[int, GpuProcess]) -> None:
    for process in processes:
        now = time.monotonic()
        is_hung = now - _read_since.get(process.pid, now) > _DESCRIBE_TIMEOUT_S
        if process.foreign or is_hung or len(_read_since) >= _MAX_PENDING_READS:
            continue
        _read_since[process.pid] = now
        described[process.pid] = _describe(process)
        _read_since.pop(process.pid, None)


def _describe(process: GpuProcess) -> GpuProcess:
    pid, command, user, session = process.pid, "", None, None
    if (proc := read(pid)) is None:  # the process has ended, or its PID is unknown here
        return process
    with suppress(OSError):  # another user's may be hidden
        uid = os.stat(f"/proc/{pid}").st_uid  # noqa: PTH116 - as fast as the rest
        user = user_name(uid)
        session = _session(pid) if uid == os.getuid() else None  # root could read another user's
        command = command_line(pid)
    name, program = command_name(pid), os.path.basename(command.partition(" ")[0])  # noqa: PTH119 - not a path here
    return structs.replace(
        process,
        name=_clean(program if len(name) == _MAX_NAME_CHARS and program.startswith(name) else name),
        age_s=time.clock_gettime(time.CLOCK_BOOTTIME) - proc.started_ticks / TICKS_PER_S,
        command=_clean(command),
        user=user,
        session=session,
    )


def _session(pid: int) -> str | None:
    """Returns the session in a process's environment; None if it has none."""
    with suppress(OSError):
        name = _clean(read_variable(pid, "GMG_SESSION"))
        return name and name[:_MAX_SESSION_CHARS]
    return None


def _clean(text: str | None) -> str | None:
    """Cleans a text chosen by a process. Returns None if it is empty."""
    return clean(text.encode("utf-8", "replace")) if text else None


class Use(NamedTuple):
    """The reason why a GPU is not free."""

    key: Hashable
    """Identity of the users."""
    text: str


def use_of(sample: GpuSample, free_mib: float) -> Use | None:
    """Returns the reason why a GPU is not free; None if it is."""
    if sample.error is not None:
        return Use(sample.error, sample.error)
    used_mib = sample.memory_used_mib
    is_full = used_mib is not None and used_mib > free_mib
    if others := [process for process in sample.processes or () if is_full or not process.graphics]:
        named = [process_text(process) for process in describe(tuple(others[:MAX_NAMED_PROCESSES]))]
        more = [f"{len(others) - MAX_NAMED_PROCESSES} more"] if len(others) > MAX_NAMED_PROCESSES else []
        return Use(frozenset(process.pid for process in others), "; ".join([*named, *more]))
    return Use("memory", f"{units.mib(used_mib)} in use by no known process") if is_full else None


def process_text(process: GpuProcess) -> str:
    """Describes a process: user, command, memory and start; omits unknown ones."""
    pid_text = f"PID {process.pid}{' of the host' if process.foreign else ''}"
    command = process.command or process.name or ""
    first, _, rest = command.partition(" ")
    command = f"{Path(first).name} {rest}".strip()
    if len(command) > _MAX_COMMAND_CHARS:
        command = f"{command[: _MAX_COMMAND_CHARS - 1]}…"
    texts = [process.user or pid_text, command]
    texts += [units.mib(process.memory_mib)] if process.memory_mib is not None else []
    texts += [f"since {units.since(time.time() - process.age_s)}"] if process.age_s is not None else []
    return ", ".join(filter(None, texts))
