"""Real processes: scanned, read to the last byte, and ended with all that they started."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gmg_tui.engine.attempts.process import Process, adopt_orphans
from gmg_tui.engine.output.pipes import Pipes
from gmg_tui.machine import processes
from gmg_tui.machine.processes import Scans
from tests import leaderless

from .harness import lives

ENV = {"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1"}
STEPS = ((signal.SIGINT, 0.3), (signal.SIGTERM, 0.3), (signal.SIGKILL, 5.0))


class Run:
    """A Python one-liner as an attempt, with all its output."""

    def __init__(self) -> None:
        self.pipes = Pipes()
        self.output = {False: b"", True: b""}
        self.received = asyncio.Event()
        self.sent: list[str] = []
        self.process = Process(self.pipes, Scans(), "a7", self._take, self._changed)

    def _changed(self) -> None:
        self.sent.append((self.process.sent or "").partition(" ")[0])

    def _take(self, is_error: bool, chunk: bytes) -> None:
        self.output[is_error] += chunk
        self.received.set()

    async def start(self, code: str, *args: str) -> Run:
        await self.process.start((sys.executable, "-c", code, *args), cwd="/", env=ENV)
        return self

    async def stop(self) -> None:
        self.process.end(STEPS)
        await self.process.wait_for_end()
        self.process.close_pipes()
        assert self.process.survivors is None


async def _printed(run: Run, word: bytes) -> None:
    while word not in run.output[False]:
        run.received.clear()
        await run.received.wait()


@pytest.mark.process
async def test_both_streams_are_read_to_the_last_byte() -> None:
    code = "import os,sys\nfor fd in 1, 2:\n os.write(fd, b'%d' % fd * 3_000_000)"
    run = await Run().start(code)
    assert await run.process.wait() == 0
    run.process.close_pipes()
    assert run.output == {False: b"1" * 3_000_000, True: b"2" * 3_000_000}


@pytest.mark.process
async def test_sigint_ends_a_script_that_handles_it() -> None:
    run = await Run().start("import time\ntry: print('up'); time.sleep(60)\nexcept KeyboardInterrupt: print('saved')")
    await _printed(run, b"up")
    await run.stop()
    assert run.sent == ["SIGINT"]
    assert b"saved" in run.output[False]
    assert run.process.exit_code == 0


@pytest.mark.process
async def test_a_process_that_ignores_sigint_and_sigterm_is_killed() -> None:
    code = "import signal,time\nfor s in 2, 15: signal.signal(s, signal.SIG_IGN)\nprint('up')\ntime.sleep(60)"
    run = await Run().start(code)
    await _printed(run, b"up")
    await run.stop()
    assert run.sent == ["SIGINT", "SIGTERM", "SIGKILL"]
    assert run.process.exit_code == -signal.SIGKILL


@pytest.mark.process
async def test_a_process_whose_first_thread_has_ended_is_killed() -> None:
    run = Run()
    await run.process.start((sys.executable, leaderless.__file__, "1", "deaf"), cwd="/", env=ENV)
    await _printed(run, b"up")
    assert not run.process.has_ended
    await run.stop()
    assert run.sent == ["SIGINT", "SIGTERM", "SIGKILL"]
    assert run.process.exit_code == -signal.SIGKILL


ESCAPE = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
open(sys.argv[1], "w").write(str(child.pid))
print("up")
if len(sys.argv) > 2: time.sleep(60)
"""


@pytest.fixture
def adopting() -> Iterator[None]:
    """Pytest adopts orphans as the engine does, for one test."""
    adopt_orphans()
    yield
    ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)


@pytest.mark.process
@pytest.mark.usefixtures("adopting")
@pytest.mark.parametrize("waits", [(), ("wait",)], ids=["after it has left it behind", "together with it"])
async def test_a_child_in_another_session_is_ended(tmp_path: Path, waits: tuple[str, ...]) -> None:
    run = await Run().start(ESCAPE, str(tmp_path / "pid"), *waits)
    await _printed(run, b"up")
    if not waits:
        await run.process.wait()
    child = int((tmp_path / "pid").read_text())
    assert psutil.pid_exists(child)
    await run.stop()
    assert not psutil.pid_exists(child)  # it was reaped, too


CLEARED = """
import pathlib, subprocess, sys, time
code = "import time; time.sleep(60)"
child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, env={})
pathlib.Path(sys.argv[1]).write_text(str(child.pid))
print("up")
while pathlib.Path(sys.argv[1]).exists(): time.sleep(0.01)
"""


@pytest.mark.process
@pytest.mark.usefixtures("adopting")
async def test_a_child_that_has_cleared_its_environment_is_known_by_its_parents(tmp_path: Path) -> None:
    run = await Run().start(CLEARED, str(tmp_path / "pid"))
    await _printed(run, b"up")
    child = int((tmp_path / "pid").read_text())
    for leader_lives in (True, False):
        left = await run.process.remaining()
        assert left is not None
        assert child in [proc.pid for proc in left]
        if leader_lives:
            (tmp_path / "pid").unlink()
            await run.process.wait()
    await run.stop()
    assert not psutil.pid_exists(child)


def _spawn_as(pid: int) -> subprocess.Popen[bytes]:
    """A process with this unused PID that leads its own group.

    It starts in a later clock tick than whatever had the PID: ticks are what start times are counted in.
    """
    time.sleep(2 / os.sysconf("SC_CLK_TCK"))
    for _ in range(200):
        try:
            Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
        except OSError as error:
            pytest.skip(f"PIDs cannot be chosen here: {error.strerror}")
        process = subprocess.Popen(["sleep", "60"], start_new_session=True)
        if process.pid == pid:
            return process
        process.kill()
        process.wait()
    pytest.skip("others were always quicker to take the PID")


@pytest.mark.usefixtures("adopting")
async def test_a_process_group_with_a_recycled_pid_is_not_killed(tmp_path: Path) -> None:
    run = await Run().start(ESCAPE, str(tmp_path / "pid"))
    await run.process.wait()
    stranger = _spawn_as(run.process.pid)
    try:
        await run.stop()
        assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


async def test_a_child_with_an_unreadable_environment_does_not_block_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Like a process stuck in a driver, with its memory map locked."""
    answer, mark_of = threading.Event(), processes.mark_of

    def stuck(pid: int) -> str | None:
        answer.wait()
        return mark_of(pid)

    monkeypatch.setattr(processes, "mark_of", stuck)
    child = await asyncio.create_subprocess_exec(
        "sleep", "60", env={"GMG_ATTEMPT_ID": "cpu7", "PATH": os.environ["PATH"]}
    )
    scans = Scans()
    try:
        assert (await scans.table()).members(None, "cpu7") == []
        answer.set()
        while [proc.pid for proc in (await scans.table()).members(None, "cpu7")] != [child.pid]:
            pass
    finally:
        answer.set()
        child.kill()
        await child.wait()


@pytest.mark.process
async def test_a_child_that_is_executing_another_program_is_asked_for_its_mark_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers, mark_of = iter([None, None]), processes.mark_of
    monkeypatch.setattr(processes, "mark_of", lambda pid: next(answers, mark_of(pid)))
    child = await asyncio.create_subprocess_exec("sleep", "60", env={**ENV, "GMG_ATTEMPT_ID": "m"})
    try:
        table = await Scans().table()
        assert [proc.pid for proc in table.members(None, "m")] == [child.pid]
    finally:
        child.kill()
        await child.wait()


@pytest.mark.process
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="asyncio waits on pidfds")
async def test_a_process_that_nothing_can_wait_for_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a kernel without pidfds when no thread can be started: asyncio has forked by then."""
    pids = []

    def refuse(_: object, pid: int, *__: object) -> None:
        pids.append(pid)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(asyncio.ThreadedChildWatcher, "add_child_handler", refuse)
    run = Run()
    with pytest.raises(RuntimeError):
        await run.start("import time; time.sleep(600)")
    (pid,) = pids
    assert not lives(pid)
    assert not run.process.started


@pytest.mark.process
@pytest.mark.usefixtures("adopting")
async def test_a_process_that_has_become_another_users_keeps_nothing_from_being_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with sudo, or a program that sets its user ID; root may signal any process, so the system calls refuse here."""
    code = "import subprocess, sys; print(subprocess.Popen(['sleep', '60']).pid, flush=True); sys.stdin.read()"
    run = await Run().start(code)
    await _printed(run, b"\n")
    left = psutil.Process(int(run.output[False]))
    kill, send = os.kill, processes.send_signal

    def refuse(pid: int, number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    def refuse_one(proc: processes.Proc, number: int) -> bool:
        if proc.pid == left.pid:
            refuse(proc.pid, number)
        return send(proc, number)

    await run.process.wait()
    monkeypatch.setattr(processes, "send_signal", refuse_one)
    monkeypatch.setattr(os, "killpg", refuse)
    await run.stop()
    assert left.is_running()
    assert [pid for pid, _ in run.process.anothers] == [left.pid], "reported as not ended"
    kill(left.pid, signal.SIGKILL)

    run = await Run().start("print('ready', flush=True); import time; time.sleep(60)")
    await _printed(run, b"ready")
    monkeypatch.setattr(os, "kill", refuse)
    monkeypatch.setattr(processes, "handles_signal", lambda *_: True)
    assert not run.process.has_ended
    assert not run.process.forward_signal(signal.SIGUSR1)
    run.process.end(((signal.SIGKILL, 0.1),))
    await run.process.wait_for_end()
    assert "another user's" in (run.process.survivors or "")
    kill(run.process.pid, signal.SIGKILL)
    await run.process.wait()
    run.process.close_pipes()
