"""A signal reaches one process and no other, with pidfds and without."""

import errno
import os
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gmg_tui.machine import processes
from gmg_tui.machine.gpu.processes import describe
from gmg_tui.machine.process_load import Activity
from gmg_tui.machine.processes import Proc, Table
from gmg_tui.model import GpuProcess
from tests import leaderless
from tests.patience import LONG_S, wait_until

_DECLARE = """
import ctypes, mmap, struct, sys, time
libc, stat = ctypes.CDLL(None), open("/proc/self/stat").read().rpartition(")")[2].split()
libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_ulong] * 6
libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
size = 1 << 28
start = libc.mmap(0, size, mmap.PROT_READ, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, 2**64 - 1, 0)
libc.sbrk.restype = ctypes.c_void_p
code, data, brk, stack = map(int, stat[23:25]), map(int, stat[42:44]), (int(stat[44]), libc.sbrk(0)), int(stat[25])
memory = struct.pack("12Q2I", *code, *data, *brk, stack, *(start, start + size - 1) * 2, 0, 0, 2**32 - 1)
buffer = ctypes.create_string_buffer(memory)
print(libc.prctl(35, 14, ctypes.addressof(buffer), len(memory), 0), flush=True)  # PR_SET_MM_MAP
sys.stdin.read()
"""
"""Declares 256 MiB of zeros as the process's arguments and environment."""


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def _refuse(code: int | None, *_: object) -> int:
    raise AttributeError if code is None else OSError(code, os.strerror(code))


@pytest.fixture(params=["works", "open ENOSYS", "open EPERM", "send ENOSYS", "send EPERM", "not in this Python"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The kernel's behaviour with pidfds."""
    call, _, error = request.param.partition(" ")
    if call in {"open", "send"}:
        module, name = (os, "pidfd_open") if call == "open" else (signal, "pidfd_send_signal")
        code = getattr(errno, error)
        monkeypatch.setattr(module, name, lambda *_: _refuse(code))
    elif call == "not":
        monkeypatch.delattr(os, "pidfd_open")
        monkeypatch.delattr(signal, "pidfd_send_signal")
    return str(request.param)


@pytest.mark.usefixtures("kernel")
def test_a_signal_reaches_the_process_that_started_then_and_no_other(child: subprocess.Popen[bytes]) -> None:
    proc = processes.read(child.pid)
    assert proc is not None
    assert not processes.send_signal(proc._replace(started_ticks=proc.started_ticks + 1), signal.SIGKILL)
    assert child.poll() is None
    assert processes.send_signal(proc, signal.SIGTERM)
    assert child.wait() == -signal.SIGTERM
    assert processes.read(child.pid) is None
    assert not processes.send_signal(proc, signal.SIGTERM)


def test_the_reason_for_missing_pidfds_is_reported(kernel: str) -> None:
    trouble = processes.pidfd_trouble()
    assert (trouble is None) == (kernel == "works")
    if "EPERM" in kernel:
        assert "Operation not permitted" in (trouble or "")


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become another user")
def test_another_users_process_is_refused(kernel: str, child: subprocess.Popen[bytes]) -> None:
    proc = processes.read(child.pid)
    assert proc is not None
    os.setresuid(4242, 4242, 0)
    try:
        with pytest.raises(PermissionError):
            processes.send_signal(proc, signal.SIGTERM)
    finally:
        os.setresuid(0, 0, 0)


@pytest.mark.process
def test_a_process_that_declares_all_memory_as_its_arguments_exhausts_no_reader() -> None:
    with subprocess.Popen([sys.executable, "-c", _DECLARE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        if process.stdout.readline() != b"0\n":
            pytest.skip("this kernel lets no process change its arguments")
        before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert processes.read_variable(process.pid, "HOME") == ""
        assert processes.command_line(process.pid) == ""
        (described,) = describe((GpuProcess(pid=process.pid),))
        assert (described.command, described.name) == (None, processes.command_name(process.pid))
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 100 << 10


@pytest.mark.process
def test_a_process_whose_first_thread_has_ended_is_alive_until_the_others_have() -> None:
    with leaderless.started() as process:
        proc = processes.read(process.pid)
        assert proc is not None
        assert proc.is_alive
        assert proc.rss_mib > 1.0
        assert processes.read_variable(process.pid, "PATH") == os.environ["PATH"]
        assert "leaderless.py" in processes.command_line(process.pid)
        assert processes.send_signal(proc, signal.SIGKILL)
        assert os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT) is not None
        zombie = processes.read(process.pid)
        assert zombie is not None
        assert (zombie.is_alive, zombie.state) == (False, "Z")


@pytest.mark.process
def test_a_group_of_a_reaped_leader_is_killed_unless_its_number_is_another_processs() -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as other:
        processes.kill_group(other.pid, reaped=True)
        assert other.poll() is None
        processes.kill_group(other.pid, reaped=False)
        assert other.wait() == -signal.SIGKILL
    shell = subprocess.Popen(["sh", "-c", "sleep 600 & echo $!"], stdout=subprocess.PIPE, start_new_session=True)
    assert shell.stdout is not None
    left = os.pidfd_open(int(shell.stdout.readline()))
    shell.wait()
    processes.kill_group(shell.pid, reaped=True)
    assert select.select([left], [], [], LONG_S)[0], "which is readable once the process has ended"
    os.close(left)


@pytest.mark.process
def test_a_session_whose_ended_leader_had_a_reused_pid_is_anothers_unless_it_descends_from_this_process() -> None:
    def proc(pid: int, parent: int, session: int) -> Proc:
        return Proc(pid, parent, session, session, "S", 0.0, 1.0, pid)

    leader, orphan, theirs, inner = 100_001, 100_002, 100_003, 100_004
    procs = [proc(orphan, os.getpid(), leader), proc(theirs, 1, leader), proc(inner, orphan, orphan)]
    gone = Table([proc(os.getpid(), 1, 1), *procs])
    assert {each.pid for each in gone.members(leader, "m")} == {orphan, inner}
    alive = Table([*procs, proc(leader, 1, leader)])
    assert {each.pid for each in alive.members(leader, "m")} == {leader, orphan, theirs, inner}


def test_the_open_files_of_many_processes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script with 1,500 processes, each with 200 files, took the engine more than its whole time."""
    code = "import sys; files = [open(f'{sys.argv[1]}/{n}', 'w') for n in range(20)]; print(flush=True); input()"
    started = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        command = [sys.executable, "-c", code, str(tmp_path / name)]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    assert all(each.stdout is not None and each.stdout.readline() for each in started)
    monkeypatch.setattr(processes, "MAX_FILES", 30)
    assert 20 <= len(processes.files_open_for_writing([each.pid for each in started])) <= 30
    monkeypatch.setattr(processes, "MAX_PROCESS_FILES", 4)
    assert len([*processes._descriptors([started[0].pid])]) == 4
    for each in started:
        each.communicate()


def test_a_process_that_writes_files_is_not_idle(tmp_path: Path) -> None:
    """As in a final save to a slow disk."""
    (own,) = (proc for proc in (processes.read(os.getpid()),) if proc is not None)
    activity, seen = Activity(), []
    for now in range(0, 40, 4):
        if now in (20, 24):
            (tmp_path / "final.pt").write_bytes(bytes(1 << 20))
        activity.update([own], 1, float(now))
        seen.append((activity.is_writing, activity.updated_idle_s))
    assert [is_writing for is_writing, _ in seen] == [False] * 5 + [True] * 2 + [False] * 3
    assert [idle_s for _, idle_s in seen] == [0, 4, 8, 12, 16, 0, 0, 4, 8, 12]


@pytest.mark.parametrize(("code", "is_starved"), [("while True: pass", True), ("import time; time.sleep(600)", False)])
def test_a_process_that_gets_little_of_a_cpu_is_starved(code: str, is_starved: bool) -> None:
    """Its share says nothing where others compute on the same core."""
    activity, now = Activity(), 0.0

    def seen() -> bool:
        nonlocal now
        now += 4.0
        activity.update([proc] if (proc := processes.read(process.pid)) is not None else [], 1, now)
        return now > 100.0 and activity.is_starved is is_starved

    with subprocess.Popen([sys.executable, "-c", code]) as process:
        try:
            wait_until(seen)
        finally:
            process.kill()


def test_the_time_while_a_job_is_suspended_is_no_idleness() -> None:
    """As by `docker pause`, or `scontrol suspend`: the engine and its workers continue at the same moment."""
    (own,) = (proc for proc in (processes.read(os.getpid()),) if proc is not None)
    for gap_s, idle_s in ((4.0, 60.0), (600.0, 0.0)):
        activity, now = Activity(), 0.0
        while now < 60.0:
            activity.update([own], 1, now)
            now += 4.0
        activity.update([own], 1, now - 4.0 + gap_s)
        assert activity.updated_idle_s == idle_s
