"""The control groups that this process is in (cgroups(7), version 1 and 2), and the CPU time that they allow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

_SELF = Path("/proc/self")


def usable_cpus(proc: Path = _SELF) -> int:
    """Returns how many CPUs this process may keep busy, by its affinity mask and its cgroups' quotas; at least one.

    A container with a quota of one and a half CPUs sees all of the machine's; two busy threads would be paused there.
    """
    affinity = len(os.sched_getaffinity(0))
    quota = cpu_quota(proc)
    return affinity if quota is None else max(1, min(affinity, int(quota)))


def cpu_quota(proc: Path = _SELF) -> float | None:
    """Returns the CPUs' worth of time that the cgroups allow, the lowest of all levels; None for no limit."""
    quotas = [quota for folder in folders("cpu", proc) if (quota := _quota(folder)) is not None]
    return min(quotas, default=None)


def folders(controller: str, proc: Path = _SELF) -> Iterator[Path]:
    """Yields the folders of this process's cgroup and of those above it, for a controller such as `cpu` or `memory`."""
    try:
        memberships = [
            line.split(":", 2) for line in (proc / "cgroup").read_text(errors="surrogateescape").splitlines()
        ]
        mounts = [line.split() for line in (proc / "mountinfo").read_text(errors="surrogateescape").splitlines()]
    except OSError:
        return
    for fields in mounts:
        root, point, (kind, _, options) = fields[3], fields[4], fields[fields.index("-") + 1 :][:3]
        for number, controllers, path in memberships:
            version2 = kind == "cgroup2" and number == "0"
            version1 = kind == "cgroup" and controller in controllers.split(",") and controller in options.split(",")
            if version2 or version1:
                yield from _upwards(Path(point.replace("\\040", " ")), root, path)


def _upwards(point: Path, root: str, path: str) -> Iterator[Path]:
    """Yields the folders of the cgroup `path` below a mount point, where `root` is mounted, the innermost first.

    A container without a cgroup namespace sees a path of the machine's, and only its own cgroup is mounted.
    """
    within = PurePosixPath(path)
    inside = within.is_relative_to(root) and ".." not in within.parts
    relative = within.relative_to(root) if inside else PurePosixPath()
    yield from (point / each for each in (relative, *relative.parents))


def _quota(folder: Path) -> float | None:
    """Returns the quota of one cgroup, in CPUs; None for no limit."""
    with suppress(OSError, ValueError, ZeroDivisionError):
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota, period = (folder / "cpu.cfs_quota_us").read_text(), (folder / "cpu.cfs_period_us").read_text()
        return int(quota) / int(period) if quota != "max" and int(quota) > 0 else None
    return None
