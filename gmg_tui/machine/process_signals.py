"""Signals to exactly one process, never to another one that has its PID now.

A pidfd names a process for as long as it is open. Kernels before 5.3, some sandboxes (seccomp, gVisor) and some builds of
Python (conda's) have none: there the start time is compared right before the signal, a gap of microseconds.
"""

from __future__ import annotations

import os
import signal

_STAT_BYTES = 4096
_START_FIELD = 19
"""Index of `starttime` in `/proc/PID/stat` (proc(5)) after the command's name."""


def start_ticks(pid: int) -> int | None:
    """Returns when a process started, in clock ticks since boot; None if there is no such process.

    Raises:
        OSError: `/proc` cannot be read, such as with too many open files.
    """
    try:
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        return None
    try:
        text = os.read(file, _STAT_BYTES)
    except ProcessLookupError:
        return None
    finally:
        os.close(file)
    # The command's name, in parentheses, may contain blanks and parentheses itself.
    return int(text[text.rfind(b")") + 2 :].split()[_START_FIELD])


def open_pidfd(pid: int) -> int | None:
    """Opens a pidfd; None if the system has none, or there is no such process."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def send(pid: int, started_ticks: int, number: int) -> bool:
    """Sends a signal to the process `pid` that started then. Returns False if it is gone.

    Raises:
        PermissionError: It belongs to another user.
        OSError: `/proc` cannot be read.
    """
    handle = open_pidfd(pid)
    try:
        if start_ticks(pid) != started_ticks:
            return False
        if handle is None or not _send_by(handle, number):
            os.kill(pid, number)
    except ProcessLookupError:
        return False
    finally:
        if handle is not None:
            os.close(handle)
    return True


def _send_by(handle: int, number: int) -> bool:
    """Sends a signal by a pidfd. Returns False where that is refused. Raises `ProcessLookupError`."""
    try:
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):
        return False
    return True


def pidfd_trouble() -> str | None:
    """Returns why pidfds cannot be used here; None if they can."""
    if not hasattr(os, "pidfd_open"):
        return "this Python was built without pidfd_open"
    try:
        handle = os.pidfd_open(os.getpid())
        try:
            signal.pidfd_send_signal(handle, 0)
        finally:
            os.close(handle)
    except OSError as error:
        return f"pidfd_open: {error.strerror} (a kernel before 5.3, or a sandbox)"
    return None
