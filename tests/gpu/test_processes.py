"""Who the processes on a card are."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gmg_tui.gpu import processes
from gmg_tui.gpu.processes import describe
from gmg_tui.model import GpuProcess

MAPPER = "import mmap, sys; f = open(sys.argv[1]); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); print(flush=True); input()"


@pytest.fixture
def cuda_process(tmp_path: Path) -> Iterator[int]:
    """The PID of a process that has a file called `libcuda.so.1` mapped."""
    library = tmp_path / "libcuda.so.1"
    library.write_bytes(b"mapped")
    command = [sys.executable, "-c", MAPPER, str(library)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def ended_pid() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        return process.pid


def test_a_process_of_this_machine_has_a_name_a_user_a_command_and_an_age(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_in_initial_namespace", lambda: True)
    (found,) = describe((GpuProcess(pid=os.getpid(), memory_mib=12.0, slot="gpu0"),))
    here = psutil.Process()
    assert (found.pid, found.memory_mib, found.slot) == (os.getpid(), 12.0, "gpu0")
    assert (found.name, found.user) == (here.name(), here.username())
    assert "pytest" in (found.command or "")
    assert found.age_s is not None
    assert found.age_s >= 0


def test_a_process_that_is_not_here_keeps_its_pid_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_in_initial_namespace", lambda: True)
    foreign = (GpuProcess(pid=ended_pid(), memory_mib=5.0), GpuProcess(pid=2**31 - 1), GpuProcess(pid=2**32 - 1))
    assert describe(foreign) == foreign


def test_in_a_container_a_pid_is_joined_only_to_a_process_that_has_the_driver(
    monkeypatch: pytest.MonkeyPatch, cuda_process: int
) -> None:
    monkeypatch.setattr(processes, "_in_initial_namespace", lambda: False)
    ours, foreign = describe((GpuProcess(pid=cuda_process), GpuProcess(pid=os.getpid())))
    assert "libcuda.so.1" in (ours.command or "")
    assert foreign == GpuProcess(pid=os.getpid())
