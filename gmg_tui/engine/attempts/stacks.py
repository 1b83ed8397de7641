"""Requests the Python stacks of a worker's process, by a signal that the probe handles."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from msgspec import structs

from gmg_tui.machine import processes
from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.machine.files import open_for_reading
from gmg_tui.machine.processes import Proc
from gmg_tui.model import Stacks
from gmg_tui.scripts.probe.site import gmg_probe

_ANSWER_TIMEOUT_S = 5.0
"""Time limit for a process to write its stacks."""
_COMPLETE_AFTER_S = 0.2
"""Seconds without growth after which the file is complete."""
_POLL_S = 0.05
_MAX_BYTES = 256 << 10
"""Maximum size of one answer."""
SAMPLES, _GAP_S = 20, 0.1
"""Number of stacks to sample for a hot spot, and the seconds between two."""


async def stacks_of(pid: int, folder: Path | None, stacks: Stacks, count: int = 1) -> Stacks:
    """Returns `stacks` with the stacks of a process whose probe writes to `folder`, or the reason that there are none.

    Takes `count` samples, `_GAP_S` apart.
    """
    proc = processes.read(pid)
    if proc is None:
        return structs.replace(stacks, error="its process has just ended")
    if folder is None or not processes.handles_signal(proc.pid, gmg_probe.STACK_SIGNAL):
        error = "only a Python process with the probe can write stacks, and only once it has started"
        return structs.replace(stacks, error=error)
    try:
        text = await in_daemon_thread(_request, proc, folder / gmg_probe.STACKS, count) if proc.stopped is None else ""
    except OSError as failure:
        return structs.replace(stacks, error=f"its stacks cannot be read: {failure.strerror}")
    if text is None:
        error = "the script has closed the file for its stacks, perhaps along with all inherited files"
        return structs.replace(stacks, error=error)
    if text:
        return structs.replace(stacks, text=text)
    later = processes.read(proc.pid)
    timed_out = f"it has not answered for {_ANSWER_TIMEOUT_S:.0f} s"
    return structs.replace(stacks, error=f"it cannot answer: {later.stopped}" if later and later.stopped else timed_out)


def _request(proc: Proc, file: Path, count: int) -> str | None:
    """Requests `count` stacks. Returns them; empty if none came, None if the script closed `file`. Raises `OSError`.

    The handler writes to a descriptor, whose number may refer to another file once the script has closed it.
    """
    with open_for_reading(file) as stream:
        return _read_answer(proc, stream, count) if _has_open(proc.pid, stream, file.name) else None


def _read_answer(proc: Proc, stream: BinaryIO, count: int) -> str:
    start = os.fstat(stream.fileno()).st_size
    sent = 0
    while sent < count:
        # At its end, and if it executes another program, Python restores the default: to kill the process.
        is_handled = processes.handles_signal(proc.pid, gmg_probe.STACK_SIGNAL)
        if not is_handled or not processes.send_signal(proc, gmg_probe.STACK_SIGNAL):
            break
        sent += 1
        time.sleep(_GAP_S if sent < count else 0.0)
    if not sent:
        return ""
    deadline = time.monotonic() + _ANSWER_TIMEOUT_S
    size, grown_at = start, time.monotonic()
    while time.monotonic() < deadline:
        time.sleep(_POLL_S)
        new_size = os.fstat(stream.fileno()).st_size
        if new_size != size:
            size, grown_at = new_size, time.monotonic()
        elif size > start and time.monotonic() - grown_at >= _COMPLETE_AFTER_S:
            break
    stream.seek(start)
    return stream.read(count * _MAX_BYTES).decode("utf-8", "replace").strip()


def _has_open(pid: int, stream: BinaryIO, name: str) -> bool:
    """Returns True if a process has `stream`'s file open, as `name`. Raises `OSError`."""
    status = os.fstat(stream.fileno())
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # just closed
            # Do not follow a link to a disk that may hang.
            if link.readlink().name == name and os.path.samestat(link.stat(), status):
                return True
    return False
