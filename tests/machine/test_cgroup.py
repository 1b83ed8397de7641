"""The CPUs and memory of a container, by the files of both versions of cgroups."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from gmg_tui.machine import cgroup


def _proc(tmp_path: Path, memberships: str, mounts: Mapping[str, str], files: Mapping[str, str]) -> Path:
    """A worker's folder in `/proc` with these lines, and cgroup file systems as the engine sees them.

    `mounts` maps a mount point to `root type options`; `files`, paths to their content.
    """
    worker, own = tmp_path / "12", tmp_path / "self"
    worker.mkdir()
    own.mkdir()
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    lines = []
    for point, described in mounts.items():
        root, kind, options = described.split()
        escaped = str(tmp_path / point).replace(" ", "\\040")
        lines.append(f"30 20 0:26 {root} {escaped} rw,nosuid - {kind} cgroup {options}\n")
    (worker / "cgroup").write_text(memberships)
    (worker / "mountinfo").write_text(f"30 20 0:26 / {tmp_path}/worker's rw,nosuid - cgroup2 cgroup rw\n")
    # Another user's mounts: an empty source, and a mount point that would be a line of its own.
    lines.append("31 20 0:27 / /mnt rw - tmpfs  rw\n")
    forged = "1 2 0:1 / /forged rw - cgroup2 c rw".replace(" ", "\x1f")
    lines.append(f"32 20 0:28 / /home/x\x1f-\x1fa\x1fb\x1fc\x0c{forged} rw - fuse source rw\n")
    (own / "mountinfo").write_text("".join(lines), newline="\n")
    return worker


_V1 = "4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n1:name=systemd:/docker/x\n"
_QUOTA, _PERIOD = "cpu.cfs_quota_us", "cpu.cfs_period_us"


@pytest.mark.parametrize(
    ("memberships", "mounts", "files", "quota"),
    [
        ("0::/\n", {"fs": "/ cgroup2 rw"}, {"fs/cpu.max": "100000 100000\n"}, 1.0),
        ("0::/\n", {"fs": "/ cgroup2 rw"}, {"fs/cpu.max": "max 100000\n"}, None),
        ("0::/\n", {"fs": "/ cgroup2 rw"}, {"fs/cpu.max": "rubbish"}, None),
        ("0::/\n", {"fs": "/ cgroup2 rw"}, {}, None),
        (
            "0::/job/step\n",
            {"fs": "/ cgroup2 rw"},
            {"fs/job/step/cpu.max": "max 100000", "fs/job/cpu.max": "150000 100000", "fs/cpu.max": "800000 100000"},
            1.5,
        ),
        ("0::/host/pod\n", {"my fs": "/host/pod cgroup2 rw"}, {"my fs/cpu.max": "50000 100000"}, 0.5),
        ("0::/../other\n", {"fs": "/ cgroup2 rw"}, {"fs/cpu.max": "200000 100000"}, 2.0),
        (_V1, {"cpu": "/docker/x cgroup rw,cpu,cpuacct"}, {f"cpu/{_QUOTA}": "100000", f"cpu/{_PERIOD}": "50000"}, 2.0),
        (_V1, {"cpu": "/ cgroup rw,cpu"}, {f"cpu/docker/x/{_QUOTA}": "-1", f"cpu/docker/x/{_PERIOD}": "50000"}, None),
        (_V1, {"cpu": "/ cgroup rw,cpu"}, {f"cpu/docker/x/{_QUOTA}": "10000", f"cpu/docker/x/{_PERIOD}": "0"}, None),
        (_V1, {"memory": "/ cgroup rw,memory"}, {f"memory/{_QUOTA}": "100000", f"memory/{_PERIOD}": "100000"}, None),
    ],
)
def test_the_lowest_quota_of_all_levels_is_read(
    memberships: str, mounts: dict[str, str], files: dict[str, str], quota: float | None, tmp_path: Path
) -> None:
    assert cgroup.cpu_quota(_proc(tmp_path, memberships, mounts, files)) == quota


@pytest.mark.parametrize(
    ("quota", "cpus", "usable"),
    [("100000", 2, 1), ("150000", 8, 1), ("10000", 8, 1), ("400000", 2, 2), ("max", 3, 3), ("350000", 64, 3)],
)
def test_threads_come_from_quota_and_affinity(
    quota: str, cpus: int, usable: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cpus)))
    files = {"fs/cpu.max": f"{quota} 100000"}
    assert cgroup.usable_cpus(_proc(tmp_path, "0::/\n", {"fs": "/ cgroup2 rw"}, files)) == usable
    assert cgroup.usable_cpus(tmp_path / "absent") == cpus


@pytest.mark.parametrize(
    ("memberships", "mounts", "events", "limit"),
    [
        ("0::/job/task\n", {"fs": "/ cgroup2 rw"}, "fs/job/task/memory.events", "fs/job/memory.max"),
        (_V1, {"m": "/ cgroup rw,memory"}, "m/docker/x/memory.oom_control", "m/docker/x/memory.limit_in_bytes"),
    ],
)
def test_only_kills_in_its_own_cgroup_count_if_that_has_a_limit(
    memberships: str, mounts: dict[str, str], events: str, limit: str, tmp_path: Path
) -> None:
    folder = Path(limit).parent
    used = {f"{folder}/{name}": "1\n" for name in ("memory.current", "memory.usage_in_bytes")}
    used |= {f"{folder}/memory.stat": "inactive_file 0\ntotal_inactive_file 0\n", limit: f"{512 << 20}\n"}
    elsewhere = {"fs/memory.events": "oom 9\noom_kill 9\n", "vmstat": "oom_kill 9\n", events: "oom_kill 0\n"}
    folders = list(cgroup.folders("memory", _proc(tmp_path, memberships, mounts, used | elsewhere)))
    memory = cgroup.Memory(folders, tmp_path)
    memory.read(1.0)
    assert (memory.is_limited, memory.oom_kills) == (True, 0)
    (tmp_path / "vmstat").write_text("oom_kill 10\n")
    memory.read(2.0)
    assert memory.oom_kills == 0
    (tmp_path / events).write_text("low 0\noom 1\noom_kill 1\n")
    memory.read(2.0)
    assert memory.oom_kills == 0, "it is read once at each moment, whichever worker asks"
    memory.read(3.0)
    assert memory.oom_kills == 1
    (tmp_path / limit).unlink()
    machine = cgroup.Memory(folders, tmp_path)
    machine.read(4.0)
    assert (machine.is_limited, machine.oom_kills) == (False, 10)


def test_no_user_forges_a_line_by_the_name_of_a_mount_point(tmp_path: Path) -> None:
    folders = list(cgroup.folders("cpu", _proc(tmp_path, "0::/\n", {"fs": "/ cgroup2 rw"}, {})))
    assert folders == [tmp_path / "fs"]
