"""The control groups of a process (cgroups(7), versions 1 and 2), and their limits on CPU time and memory."""

import math
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from gmg_tui.model import units

_SELF = Path("/proc/self")
_MIB = 1 << 20
_UNLIMITED_MIB = 1 << 40
"""Version 1 reports nearly 2^63 bytes if there is no limit."""


def usable_cpus(proc: Path = _SELF) -> int:
    """Returns the number of CPUs that this process may keep busy, by affinity mask and cgroup quota; at least one."""
    affinity = len(os.sched_getaffinity(0))
    quota = cpu_quota(proc)
    return affinity if quota is None else max(1, min(affinity, int(quota)))


def cpu_quota(proc: Path = _SELF) -> float | None:
    """Returns the lowest CPU quota at any level, in CPUs; None if unlimited."""
    quotas = [quota for folder in folders("cpu", proc) if (quota := _quota(folder)) is not None]
    return min(quotas, default=None)


def folders(controller: str, proc: Path = _SELF) -> Iterator[Path]:
    """Yields the folders of a process's cgroup and its ancestors, for a controller such as `cpu` or `memory`."""
    try:
        lines = (proc / "cgroup").read_text(errors="surrogateescape").split("\n")
        memberships = [line.split(":", 2) for line in lines if line]
        # Reads this process's mounts: a worker could have its own, with pipes in place of files.
        mountinfo = (proc.parent / "self" / "mountinfo").read_text(errors="surrogateescape")
    except OSError:
        return
    # Split at single spaces: other whitespace may be part of a mount point's name, and sources may be empty.
    for fields in (line.split(" ") for line in mountinfo.split("\n") if line):
        root, point, (kind, _, options) = fields[3], fields[4], fields[fields.index("-") + 1 :][:3]
        for number, controllers, path in memberships:
            version2 = kind == "cgroup2" and number == "0"
            version1 = kind == "cgroup" and controller in controllers.split(",") and controller in options.split(",")
            if version2 or version1:
                yield from _levels(Path(point.replace("\\040", " ")), root, path)


def _levels(point: Path, root: str, path: str) -> Iterator[Path]:
    """Yields the folders of the cgroup `path`, innermost first, if `root` is mounted at `point`.

    In a container without a cgroup namespace, the path is the machine's, and only the container's own cgroup is mounted.
    """
    group = PurePosixPath(path)
    is_mounted = group.is_relative_to(root) and ".." not in group.parts
    relative = group.relative_to(root) if is_mounted else PurePosixPath()
    yield from (point / level for level in (relative, *relative.parents))


def _quota(folder: Path) -> float | None:
    with suppress(OSError, ValueError, ZeroDivisionError):
        if os.path.exists(folder / "cpu.max"):
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota, period = (folder / "cpu.cfs_quota_us").read_text(), (folder / "cpu.cfs_period_us").read_text()
        return int(quota) / int(period) if quota != "max" and int(quota) > 0 else None
    return None


def quota_periods(proc: Path = _SELF) -> list[tuple[int, int]]:
    """Returns the number of CPU quota periods of each cgroup, and of those that were throttled."""
    periods = []
    for folder in folders("cpu", proc):
        with suppress(OSError, KeyError, ValueError):
            periods.append((_field(folder / "cpu.stat", "nr_periods"), _field(folder / "cpu.stat", "nr_throttled")))
    return periods


class MemoryLimit(NamedTuple):
    """A RAM limit, and the usage of all processes that share it."""

    limit_mib: float
    used_mib: float
    """Without droppable file caches."""
    owner: str
    """`cgroup` or `machine`."""


class Memory:
    """The memory limits of the cgroups at `folders`, and of the machine; readable even after a process has ended.

    Attributes:
        tightest: The limit with the least free memory at the last `read`; None if unknown.
        oom_kills: The number of OOM kills by then, in the innermost cgroup if any has a limit, else on the machine.
    """

    def __init__(self, folders: Iterable[Path], proc: Path = _SELF.parent) -> None:
        self._proc, self._folders = proc, list(folders)
        self._read_at = -math.inf
        self.tightest: MemoryLimit | None = None
        self.oom_kills = 0
        self.is_limited = any(_memory_limit(folder) is not None for folder in self._folders)
        """True if a cgroup has a limit: OOM kills there concern this session."""
        events = (folder / name for folder in self._folders for name in ("memory.events", "memory.oom_control"))
        innermost = next((file for file in events if _oom_kills(file) is not None), None)
        self._events = innermost if innermost is not None and self.is_limited else proc / "vmstat"

    def read(self, now: float) -> None:
        """Reads the limits at `now` (monotonic seconds), unless that has been done for another process."""
        if now <= self._read_at:
            return
        self._read_at = now
        limits = [limit for folder in self._folders if (limit := _memory_limit(folder)) is not None]
        with suppress(OSError, KeyError, ValueError):
            total, available = (_field(self._proc / "meminfo", name) / 1024 for name in ("MemTotal", "MemAvailable"))
            limits.append(MemoryLimit(total, total - available, "machine"))
        self.tightest = min(limits, key=lambda limit: limit.limit_mib - limit.used_mib, default=self.tightest)
        self.oom_kills = _oom_kills(self._events) or 0

    def describe_kills(self, before: int) -> str | None:
        """Returns a description of the OOM kills after the first `before`; None if there were none."""
        if self.oom_kills <= before:
            return None
        limit = f" ({self.tightest.owner}, {units.mib(self.tightest.limit_mib)})" if self.tightest is not None else ""
        return f"the kernel killed a process for lack of RAM{limit}"


def _oom_kills(file: Path) -> int | None:
    with suppress(OSError, KeyError, ValueError):
        return _field(file, "oom_kill")
    return None


def _memory_limit(folder: Path) -> MemoryLimit | None:
    for limit, usage, cache in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        with suppress(OSError, KeyError, ValueError):  # "max" is not a number
            limit_mib = int((folder / limit).read_text()) / _MIB
            used = int((folder / usage).read_text()) - _field(folder / "memory.stat", cache)
            return MemoryLimit(limit_mib, max(0, used) / _MIB, "cgroup") if limit_mib < _UNLIMITED_MIB else None
    return None


def _field(file: Path, name: str) -> int:
    """Returns the number after `name` on a line of a file. Raises `OSError`, `KeyError` or `ValueError`."""
    return int(fields(file)[name].split()[0])


def fields(file: Path) -> dict[str, str]:
    """Parses a file with a name and a value on each line. Raises `OSError`."""
    lines = (line.replace(":", " ", 1).split(maxsplit=1) for line in file.read_text(errors="replace").splitlines())
    return {line[0]: line[1] for line in lines if len(line) == 2}
