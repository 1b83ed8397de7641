"""Reads a process's files in `/proc` (proc(5)). The watchdog uses it too, so it imports as little as possible.

Once the first thread of a process has ended, `/proc/PID/stat` has the state `Z` and no memory, and other files are empty or
cannot be read, even while other threads run. The functions here then read the files of a running thread.
"""

import os
from contextlib import suppress

DEAD_STATES = ("Z", "X")
"""States of a process that has ended; its parent or a debugger has not yet waited for it."""
START = 19
"""Index of `starttime` among the fields after the name."""
_STATE, _THREADS, _RSS, _MAX_FIELDS = 0, 17, 21, 22
"""Indices of fields after the name, and the number of fields to split off."""
_MAX_STAT_BYTES = 4096
"""A line of `/proc/PID/stat` has 52 numbers and a name of at most 64 characters."""


def defect() -> str | None:
    """Returns why the PIDs in `/proc` are not those of this PID namespace, so that signals would reach other processes.

    Returns None if they are.
    """
    with suppress(OSError):
        if os.readlink("/proc/self") == str(os.getpid()):  # noqa: PTH115 - not a path
            return None
    return (
        "/proc is missing, or shows another PID namespace: mount it anew, as `unshare --pid --fork --mount-proc` does"
    )


def read_stat(pid: int) -> list[str]:
    """Returns the first `_MAX_FIELDS` fields of `/proc/PID/stat` after the command's name, and the rest as one.

    Raises `FileNotFoundError` or `ProcessLookupError` if there is no such process, another `OSError` if `/proc` cannot be
    read, for example if too many files are open.
    """
    fields = _read_fields(f"/proc/{pid}")
    if fields[_STATE] in DEAD_STATES and int(fields[_THREADS]) > 1 and (thread := _running_thread(pid)) is not None:
        _, of_thread = thread
        fields[_STATE], fields[_RSS] = of_thread[_STATE], of_thread[_RSS]
    return fields


def is_alive(pid: int) -> bool:
    """Returns True if there is such a process, and its first thread has not ended; a zombie's has."""
    try:
        return _read_fields(f"/proc/{pid}")[_STATE] not in DEAD_STATES
    except (FileNotFoundError, ProcessLookupError):
        return False
    except OSError:
        return True


def read_file(pid: int, name: str, max_bytes: int = -1) -> bytes:
    """Returns the beginning of a file in `/proc/PID`. Raises `OSError` if the process is gone, or another user's."""
    with suppress(ProcessLookupError):  # the first thread has ended
        if content := _read(f"/proc/{pid}/{name}", max_bytes):
            return content
    thread = _running_thread(pid)
    return _read(f"{thread[0]}/{name}", max_bytes) if thread is not None else b""


def _running_thread(pid: int) -> tuple[str, list[str]] | None:
    """Returns the folder and the fields of a thread that has not ended; None if all have, as while a debugger holds them."""
    folder = f"/proc/{pid}/task"
    for name in os.listdir(folder):  # noqa: PTH208 - only names are needed
        with suppress(OSError):  # it is gone
            if (fields := _read_fields(f"{folder}/{name}"))[_STATE] not in DEAD_STATES:
                return f"{folder}/{name}", fields
    return None


def _read_fields(folder: str) -> list[str]:
    # No file object, and no more fields than needed: hundreds of processes are read every two seconds.
    file = os.open(f"{folder}/stat", os.O_RDONLY)
    try:
        text = os.read(file, _MAX_STAT_BYTES)
    finally:
        os.close(file)
    # The command's name, in parentheses, may contain blanks and parentheses itself.
    return text[text.rfind(b")") + 2 :].decode("ascii").split(None, _MAX_FIELDS)


def _read(path: str, max_bytes: int) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib is slower
        return file.read(max_bytes)
