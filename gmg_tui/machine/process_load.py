"""The load of a worker's processes: CPU time, memory and idleness continuously; waits and swap on request (proc(5))."""

import os
import time
from collections import Counter, deque
from collections.abc import Collection, Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from gmg_tui.machine import cgroup
from gmg_tui.machine.processes import PAGE_MIB, TICKS_PER_S, Proc
from gmg_tui.model import Load
from gmg_tui.model.states import SUSPENDED_S

_IDLE_PCT = 1.0
"""Percent of a core above which a process is busy: one that polls uses less, one that compiles uses a whole core."""
_SILENCE_S, _MAX_SILENCE_S, _MIN_WRITTEN_BYTES = 5.0, 900.0, 64 << 10
"""Seconds without output in which written files show that a process is alive, and bytes between two updates: logs are less."""
_STATES, _MAX_STATES = 8, 64
"""Updates of which most must show a process that wants a CPU, and threads of a process to look at."""
_SPAN_S, _SAMPLES = 0.8, 16  # samples of the main thread during the measurement
_MAX_THREADS = 2048
_WAIT_CALLS = {
    "file": (
        "0 1 5 17 18 19 20 40 74 75 77 78 217 277 285 295 296 306 326",
        "46 47 61 63 64 65 66 67 68 69 70 71 80 82 83 84 267 285",
    ),
    "path": ("2 4 6 21 76 82 83 87 162 257 262 263 264 269 316 332 437 439", "34 35 38 45 48 56 79 81 276 291 437 439"),
    "sleep": ("34 35 230", "101 115"),
    "select": ("23 270", "72"),
    "poll": ("7 271", "73"),
    "lock": ("202", "98"),
    "message": ("42 43 44 45 46 47 232 281 288 299", "22 202 203 206 207 211 212 242 243"),
    "child": ("61 247", "95 260"),
    "driver": ("16", "29"),
}
"""System calls that wait, on x86-64 and 64-bit ARM, by the resource: `file` for an open file, `path` for a path."""
_MACHINES = ("x86_64", "aarch64")
_RESOURCES = {
    int(number): resource
    for resource, numbers in _WAIT_CALLS.items()
    for machine, calls in zip(_MACHINES, numbers, strict=True)
    for number in calls.split()
    if machine == os.uname().machine
}


class Activity:
    """The process tree of one worker, updated every few seconds.

    Attributes:
        cpu_pct: CPU time between the last two updates, in percent of one core; None before the second.
        memory_rss_mib: Resident memory, shared pages counted for each process; None if unknown.
        memory_rss_peak_mib: The peak of `memory_rss_mib` at updates.
        pids: The PIDs of the tree.
        stopped: The reason why a process is stopped, with any remedy; None if none is.
        is_writing: True if the processes wrote to files between the last two updates, although none printed for a while.
        is_starved: True if they wanted a CPU or waited for a disk at most of the last updates, although none printed.
    """

    def __init__(self) -> None:
        self.is_writing = self.is_starved = False
        self._written_bytes: dict[tuple[int, int], int] = {}
        self._wants_cpu: deque[bool] = deque(maxlen=_STATES)
        self.cpu_pct: float | None = None
        self.memory_rss_mib: float | None = None
        self.memory_rss_peak_mib: float | None = None
        self.pids: frozenset[int] = frozenset()
        self.stopped: str | None = None
        self._cpu_s: dict[tuple[int, int], float] = {}
        self._updated_at: float | None = None
        self._output = -1
        self._output_at = 0.0
        self._busy_at = 0.0
        self._silent_cpu_s = 0.0

    def update(self, members: Iterable[Proc], output: int, now: float) -> None:
        """Applies a scan of the worker's live processes at `now`, monotonic seconds.

        `output` grows with each byte that the worker writes.
        """
        members = list(members)
        cpu_s = {proc.key: proc.cpu_s for proc in members}
        # CPU time between the last update and a process's end is lost; a new process counts from its start.
        used_s = sum(max(0.0, seconds - self._cpu_s.get(key, 0.0)) for key, seconds in cpu_s.items())
        if self._updated_at is None or now <= self._updated_at:
            self._busy_at = now
        else:
            self.cpu_pct = 100 * used_s / (now - self._updated_at)
            self._silent_cpu_s += used_s
            self._look_closer(members if _SILENCE_S <= now - self._output_at <= _MAX_SILENCE_S else [])
            if self.cpu_pct > _IDLE_PCT or self.is_writing or now - self._updated_at > SUSPENDED_S:
                self._busy_at = now
        if output != self._output:
            self._output, self._output_at, self._silent_cpu_s = output, now, 0.0
        self.stopped = next((proc.stopped for proc in members if proc.stopped is not None), None)
        self._cpu_s, self._updated_at = cpu_s, now
        self.memory_rss_mib = sum(proc.rss_mib for proc in members) or None
        self.memory_rss_peak_mib = max(self.memory_rss_peak_mib or 0.0, self.memory_rss_mib or 0.0) or None
        self.pids = frozenset(proc.pid for proc in members)

    def _look_closer(self, members: list[Proc]) -> None:
        """Reads the written bytes and the states of silent processes; for none, of those that print, forgets the bytes."""
        self._wants_cpu.append(any(_is_ready(Path(f"/proc/{proc.pid}/task")) for proc in members))
        self.is_starved = bool(members) and 2 * sum(self._wants_cpu) > len(self._wants_cpu)
        before, self._written_bytes = self._written_bytes, {}
        for proc in members:
            with suppress(OSError, KeyError, ValueError):  # it has ended, or is another user's
                self._written_bytes[proc.key] = int(cgroup.fields(Path(f"/proc/{proc.pid}/io"))["wchar"])
        written = (count - before.get(key, count) for key, count in self._written_bytes.items())
        self.is_writing = sum(written) >= _MIN_WRITTEN_BYTES

    def idle_for_s(self, now: float) -> float:
        """Returns the seconds without output, noticeable CPU time or files written; `now` is monotonic seconds."""
        return now - max(self._output_at, self._busy_at) if self._updated_at is not None else 0.0

    @property
    def updated_idle_s(self) -> float:
        """Seconds without activity at the last update."""
        return self.idle_for_s(self._updated_at or 0.0)

    @property
    def updated_silence_s(self) -> float:
        """Seconds without output at the last update."""
        return (self._updated_at or 0.0) - self._output_at

    def describe_idleness(self, now: float) -> str:
        """Describes the idleness, such as `no output for 74 s, 0.0 s CPU`, or why a process is stopped."""
        return self.stopped or f"no output for {now - self._output_at:.0f} s, {self._silent_cpu_s:.1f} s CPU"


def _is_ready(tasks: Path) -> bool:
    """True if a thread of a process is running, or waiting for a CPU or a disk."""
    with suppress(OSError):
        for folder in islice(tasks.iterdir(), _MAX_STATES):
            with suppress(OSError, IndexError):
                if _stat(folder, 0)[0] in "RD":
                    return True
    return False


class _Counters(NamedTuple):
    time_s: float
    """Monotonic seconds."""
    threads: dict[str, tuple[float, float]]
    """Seconds on a core, and seconds waiting for one, by the thread's folder."""
    periods: list[tuple[int, int]]
    """The number of quota periods of each cgroup, and of throttled ones."""
    major_faults: int
    swapped_pages: int
    read_bytes: int


def measure(pids: Collection[int], main: int, proc: Path = Path("/proc")) -> Load | None:
    """Measures the load of processes, which takes `_SPAN_S`. Returns None if the process `main` is gone."""
    states, cpus, waits, files = Counter[str](), Counter[int](), Counter[str](), Counter[str]()
    try:
        before = _counters({main, *pids}, main, proc)
        for _ in range(_SAMPLES):
            time.sleep(_SPAN_S / _SAMPLES)
            state, cpu = _stat(proc / str(main), 0, 36)
            states[state] += 1
            cpus[int(cpu)] += 1
            resource, file = _wait_resource(proc / str(main), state)
            waits[resource] += 1
            files[file] += 1
        after = _counters({main, *pids}, main, proc)
        status = cgroup.fields(proc / str(main) / "status")
    except (OSError, ValueError, IndexError):  # `main` is gone
        return None
    del waits[""], files[""]
    quota = cgroup.cpu_quota(proc / str(main))
    return structs.replace(
        _usage(before, after, str(proc / str(main) / "task" / str(main))),
        cores=_usable_cores(main, quota),
        quota=quota,
        waits_pct={resource: 100 * count / _SAMPLES for resource, count in waits.most_common()},
        file=next((file for file, _ in files.most_common(1)), ""),
        ready_pct=100 * states["R"] / _SAMPLES,
        stopped=states["T"] + states["t"] > _SAMPLES // 2,
        cpus=tuple(sorted(cpus)),
        swap_mib=int(status["VmSwap"].split()[0]) / 1024 if "VmSwap" in status else None,
    )


def _usage(before: _Counters, after: _Counters, main: str) -> Load:
    span_s = after.time_s - before.time_s
    used = {
        key: [max(0.0, end - begin) for begin, end in zip(before.threads.get(key, (0.0, 0.0)), seconds, strict=True)]
        for key, seconds in after.threads.items()
    }
    on_core_s, waiting_s = (sum(seconds) for seconds in zip(*used.values(), strict=True))
    main_s, delay_s = used.get(main, (0.0, 0.0))
    pairs = zip(before.periods, after.periods, strict=False)
    throttled = [100 * (hit - old_hit) / (count - old) for (old, old_hit), (count, hit) in pairs if count > old]
    return Load(
        main_cpu_pct=100 * main_s / span_s,
        main_delay_pct=100 * delay_s / span_s,
        cpu_pct=100 * on_core_s / span_s,
        ready=(on_core_s + waiting_s) / span_s,
        threads=len(after.threads),
        throttled_pct=max(throttled, default=None),
        major_faults_per_s=(after.major_faults - before.major_faults) / span_s,
        swapped_mib_per_s=PAGE_MIB * (after.swapped_pages - before.swapped_pages) / span_s,
        read_mib_per_s=(after.read_bytes - before.read_bytes) / (1 << 20) / span_s,
    )


def _counters(pids: Collection[int], main: int, proc: Path) -> _Counters:
    threads: dict[str, tuple[float, float]] = {}
    for pid in pids:
        with suppress(OSError):
            for folder in (proc / str(pid) / "task").iterdir():
                if len(threads) < _MAX_THREADS:
                    with suppress(OSError, ValueError):
                        threads[str(folder)] = _schedule_times(folder)
    vmstat, io = cgroup.fields(proc / "vmstat"), dict[str, str]()
    with suppress(OSError):  # another user's process
        io = cgroup.fields(proc / str(main) / "io")
    return _Counters(
        time.monotonic(),
        threads,
        cgroup.quota_periods(proc / str(main)),
        int(_stat(proc / str(main), 9)[0]),
        int(vmstat.get("pswpin", 0)) + int(vmstat.get("pswpout", 0)),
        int(io.get("read_bytes", 0)),
    )


def _schedule_times(folder: Path) -> tuple[float, float]:
    """Returns a thread's seconds on a core, and seconds waiting for one (0 on kernels without `schedstat`)."""
    try:
        on_core, waiting, _ = map(int, (folder / "schedstat").read_bytes().split())
    except FileNotFoundError:
        user, system = _stat(folder, 11, 12)
        return (int(user) + int(system)) / TICKS_PER_S, 0.0
    return on_core / 1e9, waiting / 1e9


def _stat(folder: Path, *positions: int) -> list[str]:
    """Returns fields of `stat` by their positions after the name. Raises `OSError` if the thread is gone."""
    fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
    return [fields[position] for position in positions]


def _wait_resource(folder: Path, state: str) -> tuple[str, str]:
    """Returns the resource and the file that the main thread is waiting for; empty if none or unknown."""
    if state not in "SD":
        return "", ""
    resource, file = "", ""
    with suppress(OSError, ValueError, IndexError):
        call, *args = (folder / "syscall").read_text().split()
        resource = _RESOURCES.get(int(call), "") if call != "running" else ""
        if resource == "file":
            file = str((folder / "fd" / str(int(args[0], 16))).readlink())
        if resource in ("select", "poll"):
            resource = "message" if int(args[resource == "poll"], 16) else "sleep"  # without files they only sleep
    if file.startswith(("pipe:", "socket:", "anon_inode:")):
        return "message", ""
    if file.startswith("/dev/") and file.split("/")[2] != "shm":
        return "terminal" if file.startswith(("/dev/pts", "/dev/tty")) else "driver", ""
    return "file" if resource == "path" else resource or ("disk" if state == "D" else ""), file


def _usable_cores(pid: int, quota: float | None) -> float | None:
    with suppress(OSError):
        mask = len(os.sched_getaffinity(pid))
        return mask if quota is None else min(mask, quota)
    return None
