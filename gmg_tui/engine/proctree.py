"""The processes that belong to a worker, whatever they did to get away: `/proc` read in one pass."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import NamedTuple

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_STAT_BYTES = 4096
"""A line has 52 numbers and a name of at most 64 characters."""
_FIELDS = 22
"""Fields after the name that are parted; the last one used is the 22nd."""
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
    """User and system time of its own; that of children goes with them."""
    rss_mib: float
    started_ticks: int
    """Since boot; with the PID it names a process for ever."""


def read(pid: int) -> Proc | None:
    """The process `pid`; None when there is none."""
    # Not by a file object, and no more fields than are used: there are hundreds of processes, looked at again and again.
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
    # The command's name, in brackets, may hold blanks and brackets itself.
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


def owner(pid: int) -> int:
    """The user that the process runs as. Raises `FileNotFoundError` when there is no such process."""
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
    def _own(self) -> dict[str | None, list[int]]:
        """The PIDs of the engine's own children, by the slot in their environment."""
        by_slot: dict[str | None, list[int]] = {}
        for proc in self.children(os.getpid()):
            by_slot.setdefault(_slot_of(proc.pid, proc.started_ticks), []).append(proc.pid)
        return by_slot

    def holds(self, pid: int, started_ticks: int) -> bool:
        """Whether that very process is there."""
        proc = self.by_pid.get(pid)
        return proc is not None and proc.started_ticks == started_ticks

    def children(self, pid: int) -> list[Proc]:
        """The processes whose parent is `pid`."""
        return self._children.get(pid, [])

    def members(self, leader: int | None, slot: str, known: Iterable[int] = ()) -> list[Proc]:
        """The live processes of the worker whose first process is or was `leader`.

        These are its descendants, those in its session and group, those seen among them before, and, since the engine
        adopts orphans (`PR_SET_CHILD_SUBREAPER`), those of the engine's own children whose environment has this slot.

        Args:
            leader: The PID of the worker's first process, which may have ended; None when a stranger has that PID now.
            slot: The worker's slot, as in `GMG_SLOT`.
            known: PIDs that are known to be this worker's.
        """
        todo = set(known)
        if leader is not None:
            todo.add(leader)
            todo.update(proc.pid for proc in self._together.get(leader, []))
        todo.update(self._own.get(slot, ()))
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
    """`GMG_SLOT` in the environment that the process was started with; None when there is none, or it is not ours."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - as in read()
            variables = file.read().split(b"\0")
    except OSError:
        return None
    return next((text[9:].decode("utf-8", "replace") for text in variables if text.startswith(b"GMG_SLOT=")), None)
