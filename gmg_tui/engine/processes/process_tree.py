"""The processes that belong to a worker, however they have detached themselves: one pass over `/proc`.

psutil would do, at a price: with 400 processes a pass takes 5.5 ms here and 25 ms by `psutil.process_iter`, and the
trees of 8 workers alone take 57 ms by `Process.children`, every two seconds.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Set
from functools import cached_property, lru_cache
from typing import NamedTuple

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_STAT_BYTES = 4096
"""A line has 52 numbers and a name of at most 64 characters."""
_FIELDS = 22
"""Fields to split after the name; the last one used is the 22nd."""
_NO_SLOT = ""
_PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / (1 << 20)


class Proc(NamedTuple):
    """One line of `/proc/PID/stat` (proc(5))."""

    pid: int
    parent: int
    group: int
    session: int
    state: str
    """`R`, `S`, `D`, `T`, `Z` …"""
    cpu_s: float
    """User and system time, without that of its children."""
    rss_mib: float
    started_ticks: int
    """Since boot; identifies a process together with its PID."""


def read(pid: int) -> Proc | None:
    """The process `pid`; None when there is none."""
    # No file object, and no more fields than are used: hundreds of processes are read every two seconds.
    try:
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(file, _STAT_BYTES)
    except OSError:
        return None
    finally:
        os.close(file)
    # The command's name, in parentheses, may contain blanks and parentheses itself.
    fields = text[text.rfind(b")") + 2 :].split(None, _FIELDS)
    return Proc(
        pid=pid,
        state=fields[0].decode("ascii", "replace"),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        cpu_s=(int(fields[11]) + int(fields[12])) / _TICKS_PER_S,
        started_ticks=int(fields[19]),
        rss_mib=int(fields[21]) * _PAGE_MIB,
    )


def handles(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal; yes where the kernel does not say (`SigCgt` in proc(5))."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:  # noqa: PTH123 - as in read()
            caught = next((line for line in file if line.startswith(b"SigCgt:")), None)
    except OSError:
        return False
    return caught is None or bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def holds(pid: int, pipes: Set[int]) -> bool:
    """Whether a process has one of the pipes open, which are named by their inodes; no if that cannot be read."""
    names = {f"pipe:[{inode}]" for inode in pipes}
    try:
        with os.scandir(f"/proc/{pid}/fd") as entries:
            return any(os.readlink(entry.path) in names for entry in entries)  # noqa: PTH115 - as in read()
    except OSError:
        return False


def send(proc: Proc, number: int) -> bool:
    """Send a signal to exactly that process, never to one that has its PID now; whether it was there to take it.

    Raises `PermissionError` for another user's.
    """
    try:
        handle = os.pidfd_open(proc.pid)
    except ProcessLookupError:
        return False
    try:
        found = read(proc.pid)
        if found is None or found.started_ticks != proc.started_ticks:
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def owner(pid: int) -> int:
    """The user that the process runs as. Raises `FileNotFoundError` if there is no such process."""
    return os.stat(f"/proc/{pid}").st_uid  # noqa: PTH116 - as in read()


class Table:
    """All processes at one moment, by PID, by parent, and by group or session."""

    def __init__(self, procs: Iterable[Proc]) -> None:
        self.by_pid = {proc.pid: proc for proc in procs}
        self._children: dict[int, list[Proc]] = {}
        self._together: dict[int, list[Proc]] = {}
        for proc in self.by_pid.values():
            self._children.setdefault(proc.parent, []).append(proc)
            for leader in {proc.group, proc.session}:
                self._together.setdefault(leader, []).append(proc)

    @cached_property
    def _own(self) -> dict[str | None, list[Proc]]:
        """The engine's own children, by the slot in their environment."""
        by_slot: dict[str | None, list[Proc]] = {}
        for proc in self.children(os.getpid()):
            by_slot.setdefault(_slot_of(proc.pid, proc.started_ticks), []).append(proc)
        return by_slot

    @property
    def unmarked(self) -> list[Proc]:
        """The engine's own children whose environment names no slot."""
        return self._own.get(_NO_SLOT, [])

    def holds(self, pid: int, started_ticks: int) -> bool:
        """Whether exactly that process is there."""
        proc = self.by_pid.get(pid)
        return proc is not None and proc.started_ticks == started_ticks

    def children(self, pid: int) -> list[Proc]:
        """The processes whose parent is `pid`."""
        return self._children.get(pid, [])

    def _is_ours(self, proc: Proc | None) -> bool:
        """Whether the process descends from this one, which adopts its descendants' orphans."""
        while proc is not None and proc.pid != os.getpid():
            proc = self.by_pid.get(proc.parent)
        return proc is not None

    def members(self, leader: int | None, slot: str, known: Iterable[int] = ()) -> list[Proc]:
        """The live processes of the worker whose first process is or was `leader`.

        These are its descendants, those in its session and group, the `known` ones, and, since the engine adopts
        orphans (`PR_SET_CHILD_SUBREAPER`), those children of the engine whose environment has this `GMG_SLOT`. `leader`
        is None when another process has that PID now.
        """
        todo = set(known)
        if leader is not None:
            todo.add(leader)
            group = self._together.get(leader, [])
            # A leader that has been waited for may have had a namesake since, whose group is another one.
            todo.update(proc.pid for proc in group if leader in self.by_pid or self._is_ours(proc))
        todo.update(proc.pid for proc in self._own.get(slot, ()))
        taken: dict[int, Proc] = {}
        while todo:
            proc = self.by_pid.get(todo.pop())
            if proc is not None and proc.pid not in taken:
                taken[proc.pid] = proc
                todo.update(child.pid for child in self.children(proc.pid))
        return [proc for proc in taken.values() if proc.state not in "ZX"]


def scan() -> Table:
    """All processes now."""
    found = (read(int(name)) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 - as in read()
    return Table(proc for proc in found if proc is not None)


@lru_cache(maxsize=4096)
def _slot_of(pid: int, started_ticks: int) -> str | None:
    """`GMG_SLOT` in the environment that the process was started with; None if it is no worker's, or cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - as in read()
            variables = file.read().split(b"\0")
    except OSError:
        return None
    if any(text.startswith(b"GMG_EVENT=") for text in variables):
        return None  # a command of --notify, which gets the slot that it is told of
    return next((text[9:].decode("utf-8", "replace") for text in variables if text.startswith(b"GMG_SLOT=")), _NO_SLOT)
