"""Processes on the session's GPUs that are not its own, and how they are ended."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Mapping

from msgspec import structs

from gmg_tui.engine.processes import process_tree
from gmg_tui.errors import GmgError
from gmg_tui.gpu.processes import describe
from gmg_tui.model import GpuProcess

_log = logging.getLogger(__name__)


def described(processes: tuple[GpuProcess, ...]) -> tuple[GpuProcess, ...]:
    """`processes` with their details, and the start time by which each is identified again; never raises."""
    return tuple(structs.replace(process, started_ticks=_started(process)) for process in describe(processes))


def _started(process: GpuProcess) -> int | None:
    info = process_tree.read(process.own_pid) if process.own_pid is not None else None
    return info.started_ticks if info is not None else None


def end(seen: GpuProcess, number: signal.Signals) -> None:
    """Send a signal to the process that was `seen`.

    Raises:
        GmgError: It has ended, its PID is another process's, it is not visible here, or is another user's.
    """
    pid = seen.pid
    if seen.own_pid is None:
        raise GmgError(f"{pid} is a PID of the host; in this container it is another process, or none", 1)
    if seen.started_ticks is None:
        raise GmgError(f"process {pid} is not visible here, or has ended", 1)
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError as error:
        raise GmgError(f"process {pid} has ended", 1) from error
    try:
        # The handle stays with one process. If that has ended meanwhile, what is read here is another one's, but then
        # the signal reaches nobody.
        (now,) = described((GpuProcess(pid),))
        if now.started_ticks != seen.started_ticks:
            raise GmgError(f"process {pid} has ended; its PID is another process's now", 1)
        if (now.name, now.command) != (seen.name, seen.command):
            raise GmgError(f"process {pid} is {now.command or now.name} now; select it again", 1)
        if process_tree.owner(pid) != os.getuid():
            raise GmgError(f"process {pid} belongs to {now.user}", 1)
        signal.pidfd_send_signal(handle, number)
    except (FileNotFoundError, ProcessLookupError) as error:
        raise GmgError(f"process {pid} has ended", 1) from error
    finally:
        os.close(handle)
    _log.info("sent %s to process %d (%s)", number.name, pid, seen.command or seen.name)


def owned(processes: tuple[GpuProcess, ...], owners: Mapping[int, str]) -> tuple[GpuProcess, ...]:
    """The processes, each with the slot of the worker that it belongs to; `owners` has these by PID."""
    return tuple(structs.replace(process, slot=owners.get(process.own_pid or 0)) for process in processes)
