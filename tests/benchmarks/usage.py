"""CPU time and memory of the processes of one program, without its workers."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

import psutil

MARK = "GMG_BENCHMARK"
"""The variable that identifies a program's processes: all that it starts inherit it."""


class Usage(NamedTuple):
    at: float
    """Monotonic seconds."""
    cpu_s: dict[str, float]
    """CPU time by process: `ui`, `engine`, `watchdog`; the executable's name for other programs."""
    rss_mib: float
    """Resident memory of all processes; pages that they share count for each."""

    def cpu_pct(self, before: Usage) -> dict[str, float]:
        """CPU since `before`, per cent of one core; a process that has begun since counts from its start."""
        elapsed_s = self.at - before.at
        return {name: 100 * (cpu_s - before.cpu_s.get(name, 0.0)) / elapsed_s for name, cpu_s in self.cpu_s.items()}


def _processes(mark: str) -> Iterator[psutil.Process]:
    """The processes of the program started with `mark` in its environment, workers among them."""
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark:
                yield process
        except (psutil.Error, OSError):
            continue  # another user's, or gone


def usage(mark: str, is_worker: Callable[[list[str]], bool]) -> Usage:
    """What the program has taken so far; processes whose command line `is_worker` are left out."""
    cpu_s: dict[str, float] = defaultdict(float)
    rss = 0
    for process in _processes(mark):
        try:
            command = process.cmdline()
            if not command or is_worker(command):
                continue
            times, memory = process.cpu_times(), process.memory_info()
        except psutil.NoSuchProcess:
            continue
        cpu_s[_name(command)] += times.user + times.system
        rss += memory.rss
    return Usage(time.monotonic(), cpu_s, rss / (1 << 20))


def _name(command: list[str]) -> str:
    line = " ".join(command)
    if "gmg_tui" not in line:
        return os.path.basename(command[0])  # noqa: PTH119 (a name, no path)
    return "watchdog" if "watchdog" in line else "engine" if "gmg_tui.engine" in line else "ui"


def end(mark: str) -> None:
    """Kill all processes of the program, and wait until they are gone."""
    while remaining := list(_processes(mark)):
        for process in remaining:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(remaining, timeout=2)
