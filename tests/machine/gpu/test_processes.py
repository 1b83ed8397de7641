"""Descriptions of the processes on a card."""

import os
import subprocess
import sys
import threading

import psutil
import pytest

from gmg_tui.machine.gpu import processes
from gmg_tui.machine.gpu.processes import describe
from gmg_tui.model import GpuProcess
from gmg_tui.model.text import clean
from tests.nvml_sim import Process, Sim

LOOK = """
import sys
from gmg_tui.machine.gpu.nvml import Nvml
from gmg_tui.machine.gpu.processes import describe
nvml = Nvml.open()
for process in describe(nvml.read(nvml.gpus()[0], slow=True).processes):
    print(process.pid, process.own_pid, process.user, process.command)
"""


def ended_pid() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        return process.pid


def test_a_process_of_this_machine_has_a_name_a_user_a_command_and_an_age() -> None:
    (process,) = describe((GpuProcess(pid=os.getpid(), memory_mib=12.0, slot="gpu0"),))
    here = psutil.Process()
    assert (process.pid, process.memory_mib, process.slot) == (os.getpid(), 12.0, "gpu0")
    assert (process.name, process.user) == (here.name(), here.username())
    assert process.command == clean(" ".join(here.cmdline()).encode())
    assert process.age_s is not None
    assert process.age_s >= 0


def test_an_invisible_process_keeps_its_pid_and_memory() -> None:
    foreign = (GpuProcess(pid=ended_pid(), memory_mib=5.0), GpuProcess(pid=2**31 - 1), GpuProcess(pid=2**32 - 1))
    assert describe(foreign) == foreign


def test_a_process_that_hangs_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    released, reading = threading.Event(), processes._describe
    monkeypatch.setattr(processes, "_DESCRIBE_TIMEOUT_S", 0.1)
    monkeypatch.setattr(
        processes, "_describe", lambda each: reading(each) if each.pid != 1 else released.wait() or each
    )
    both = (GpuProcess(pid=1), GpuProcess(pid=os.getpid()))
    assert describe(both)[0] == both[0]
    try:
        assert [each.name for each in describe(both)] == [None, psutil.Process().name()]
    finally:
        released.set()


def test_any_number_of_processes_that_hang_take_few_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    released, reads = threading.Event(), list[int]()
    monkeypatch.setattr(processes, "_read_since", {})
    monkeypatch.setattr(processes, "_DESCRIBE_TIMEOUT_S", 0.1)

    def read(process: GpuProcess) -> GpuProcess:
        reads.append(process.pid)
        released.wait()
        return process

    monkeypatch.setattr(processes, "_describe", read)
    try:
        for pid in range(1, 100):
            describe((GpuProcess(pid=pid),))
        assert 0 < len(reads) <= processes._MAX_PENDING_READS
    finally:
        released.set()


def test_a_host_pid_is_not_mistaken_for_a_container_process(sim: Sim) -> None:
    sim.gpus[0].processes = [Process(pid=1, memory_mib=100)]
    sim.write()
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", LOOK]
    looked = subprocess.run(command, env={**os.environ, **sim.env()}, capture_output=True, text=True)
    if "Operation not permitted" in looked.stderr or "unshare failed" in looked.stderr:
        pytest.skip(f"no PID namespace can be made here: {looked.stderr.strip()}")
    assert looked.stdout == "1 None None None\n", looked.stderr
