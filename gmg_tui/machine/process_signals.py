"""Signals to exactly one process, never to another one that has its PID now.

A pidfd identifies a process while it is open. Kernels before 5.3, some sandboxes (seccomp, gVisor) and some builds of
Python (conda's) have none: there the start time is compared right before the signal, a gap of microseconds.
"""

from __future__ import annotations

import os
import signal

_STAT_BYTES = 4096
"""A line of `/proc/PID/stat` has 52 numbers and a name of at most 64 characters."""
START_FIELD, _MAX_FIELDS = 19, 22
"""The index of `starttime` among the fields after the name, and the fields to split (proc(5))."""


def stat_fields(pid: int) -> list[bytes] | None:
    """Returns the fields of `/proc/PID/stat` after the command's name; None if there is no such process.

    Raises:
        OSError: `/proc` cannot be read, as with too many open files.
    """
    # No file object, and no more fields than needed: hundreds of processes are read every two seconds.
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
    return text[text.rfind(b")") + 2 :].split(None, _MAX_FIELDS)


def start_ticks(pid: int) -> int | None:
    """Returns the start of a process in clock ticks since boot; None if it does not exist. Raises `OSError`."""
    fields = stat_fields(pid)
    return int(fields[START_FIELD]) if fields is not None else None


def send(pid: int, started_ticks: int, number: int) -> bool:
    """Sends a signal to the process `pid` that started then. Returns False if it is gone.

    Raises:
        PermissionError: It belongs to another user.
        OSError: `/proc` cannot be read.
    """
    try:
        handle = os.pidfd_open(pid)
    except (AttributeError, OSError):
        handle = None
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
    """Sends a signal by a pidfd. Returns False if that is refused. Raises `ProcessLookupError`."""
    try:
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):
        return False
    return True


def pidfd_trouble() -> str | None:
    """Returns the reason that pidfds cannot be used here; None if they can."""
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
