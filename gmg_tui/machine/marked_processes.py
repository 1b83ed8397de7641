"""Finds this user's processes by a variable in their environment, which a process stuck in a driver may keep from being read."""

import os
from collections.abc import Collection
from concurrent.futures import Future, wait

from gmg_tui.machine.blocking_calls import begin
from gmg_tui.machine.processes import Proc, is_own, read_variable, scan

_TIMEOUT_S = 1.0
"""Timeout for reading all environments."""
_blocking = set[tuple[int, int]]()
"""Keys of the processes that were not read in time, and are not read again."""


def find_marked(name: str, value: str, known: Collection[Proc] = ()) -> list[Proc]:
    """Returns the processes with the variable `name` set to `value`, and those `known` to have it that are alive.

    Leaves out this process and its ancestors, and processes whose environment cannot be read in time.
    """
    running, found = scan().by_pid, {process.key for process in known}
    spared, pid = set[int](), os.getpid()
    while pid in running:
        spared.add(pid)
        pid = running[pid].parent
    reads = dict[tuple[int, int], Future[bool]]()
    for process in running.values():
        if process.pid in spared or process.key in found | _blocking or not is_own(process.pid):
            continue
        try:
            reads[process.key] = begin(_has, process.pid, name, value)
        except RuntimeError:  # no thread can be started: read it here unless that may block
            if process.state != "D" and _has(process.pid, name, value):
                found.add(process.key)
    done, _ = wait(reads.values(), _TIMEOUT_S)
    found.update(key for key, read in reads.items() if read in done and read.result())
    _blocking.update(key for key, read in reads.items() if read not in done)
    return [process for process in running.values() if process.key in found and process.is_alive]


def _has(pid: int, name: str, value: str) -> bool:
    """True if a process has the variable set to `value`. May block."""
    try:
        return read_variable(pid, name) == value
    except OSError:  # it has ended, or is protected
        return False
