"""The CPU cores near GPUs, by files like sysfs's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gmg_tui.machine import numa
from gmg_tui.machine.numa import cores_near_any, cores_text, near_cores
from gmg_tui.model import Gpu, Slot

_BUSES = ("1B", "43", "9D", "C3")
SLOTS = (
    *(
        Slot(f"gpu{index}", Gpu(index, f"GPU-{index}", "H100", f"00000000:{bus}:00.0"))
        for index, bus in enumerate(_BUSES)
    ),
    Slot("cpu0"),
    Slot("gpu4", Gpu(4, "GPU-4", "H100")),
)


@pytest.fixture
def sys_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two nodes of eight cores with two threads, two GPUs on each."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*range(32)})
    for bus, node in zip(_BUSES, (0, 0, 1, 1), strict=True):
        (device := tmp_path / f"bus/pci/devices/0000:{bus.lower()}:00.0").mkdir(parents=True)
        (device / "numa_node").write_text(f"{node}\n")
    for node, cores in enumerate(("0-7,16-23", "8-15,24-31")):
        (folder := tmp_path / f"devices/system/node/node{node}").mkdir(parents=True)
        (folder / "cpulist").write_text(f"{cores}\n")
    return tmp_path


def test_a_gpu_has_the_cores_of_its_node(sys_folder: Path) -> None:
    near = near_cores(SLOTS, sys_folder)
    assert {name: cores_text(cores) for name, cores in near.items()} == {
        "gpu0": "0-7,16-23",
        "gpu1": "0-7,16-23",
        "gpu2": "8-15,24-31",
        "gpu3": "8-15,24-31",
    }
    assert cores_text(cores_near_any(["gpu0", "gpu2"], near) or set()) == "0-31"
    assert cores_near_any(["gpu0", "cpu0"], near) is None
    assert cores_near_any([], near) is None


@pytest.mark.parametrize(
    ("usable", "of_gpu0"), [({1, 2, 9}, "1-2"), ({1, 2}, None), ({9}, None), ({1, 3, 5, 8}, "1,3,5")]
)
def test_cores_outside_the_affinity_mask_do_not_count(
    usable: set[int], of_gpu0: str | None, sys_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: usable)
    near = near_cores(SLOTS, sys_folder)
    assert (cores_text(near["gpu0"]) if "gpu0" in near else None) == of_gpu0


@pytest.mark.parametrize("text", ["", "\n", "all", "-1"])
def test_nothing_is_pinned_without_topology(text: str, sys_folder: Path) -> None:
    (sys_folder / "bus/pci/devices/0000:1b:00.0/numa_node").write_text(text)
    (sys_folder / "devices/system/node/node1/cpulist").write_text(text)
    assert {*near_cores(SLOTS, sys_folder)} <= {"gpu1"}
    assert near_cores(SLOTS, sys_folder / "absent") == {}


def test_no_other_file_is_read_at_a_nodes_word(sys_folder: Path) -> None:
    (sys_folder / "numa_node").write_text("0")
    assert numa.node_of("00000000:1B:00.0", sys_folder) == 0
    assert numa.node_of("0000:1b:00.0/../../../..", sys_folder) is None


def test_all_threads_of_a_process_are_pinned() -> None:
    code = "import threading, time; threading.Thread(target=time.sleep, args=(600,)).start(); print(flush=True)"
    first = min(os.sched_getaffinity(0))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        numa.pin(process.pid, {first})
        threads = [int(task.name) for task in Path(f"/proc/{process.pid}/task").iterdir()]
        assert [os.sched_getaffinity(thread) for thread in threads] == [{first}] * 2
        process.kill()
    numa.pin(process.pid, {first})  # it has ended
