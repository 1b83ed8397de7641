"""What the processes of one program take: CPU time and memory, the workers left out."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import psutil

MARK = "GMG_BENCHMARK"
"""The variable by which a program's processes are known: all that it starts inherit it."""
MIB = 1 << 20


class Part(NamedTuple):
    """One process of a program."""

    name: str
    """`ui`, `engine`, `watchdog`; the executable's name for other programs."""
    cpu_s: float
    pss_mib: float
    """Its share of memory: pages that several processes use are divided among them."""
    rss_mib: float


class Usage(NamedTuple):
    """A whole program at one moment."""

    at: float
    """Monotonic seconds."""
    parts: Mapping[int, Part]
    """By PID."""

    @property
    def pss_mib(self) -> float:
        """Memory of all processes, shared pages counted once."""
        return sum(part.pss_mib for part in self.parts.values())

    @property
    def rss_mib(self) -> float:
        """Resident memory of all processes; pages that they share count for each."""
        return sum(part.rss_mib for part in self.parts.values())

    def cpu_pct(self, before: Usage) -> float:
        """CPU since `before`, per cent of one core; a process that has begun since counts from its start."""
        return sum(self.cpu_pct_by_part(before).values())

    def cpu_pct_by_part(self, before: Usage) -> dict[str, float]:
        """The same for each part."""
        by_part: dict[str, float] = {}
        for pid, part in self.parts.items():
            used_s = part.cpu_s - (before.parts[pid].cpu_s if pid in before.parts else 0.0)
            by_part[part.name] = by_part.get(part.name, 0.0) + 100 * used_s / (self.at - before.at)
        return by_part


def processes(mark: str) -> Iterator[psutil.Process]:
    """The processes of the program started with `mark` in its environment, workers among them."""
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark:
                yield process
        except (psutil.Error, OSError):
            continue  # another user's, or gone


def usage(mark: str, is_worker: Callable[[list[str]], bool]) -> Usage:
    """What the program has taken so far; processes whose command line `is_worker` are left out."""
    parts = {}
    for process in processes(mark):
        try:
            command = process.cmdline()
            if not command or is_worker(command):
                continue
            times, memory = process.cpu_times(), process.memory_full_info()
        except psutil.NoSuchProcess:
            continue
        cpu_s = times.user + times.system
        parts[process.pid] = Part(_name(command), cpu_s, memory.pss / MIB, memory.rss / MIB)
    return Usage(time.monotonic(), parts)


def _name(command: list[str]) -> str:
    line = " ".join(command)
    if "gmg_tui" not in line:
        return os.path.basename(command[0])  # noqa: PTH119 (a name, no path)
    return "watchdog" if "watchdog" in line else "engine" if "gmg_tui.engine" in line else "ui"


def end(mark: str) -> None:
    """Kill all processes of the program, and wait until they are gone."""
    while remaining := list(processes(mark)):
        for process in remaining:
            try:
                process.send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(remaining, timeout=2)
