"""The watchdog of a killed engine ends its workers, and nothing else."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from gmg_tui.engine.watchdog import client
from gmg_tui.engine.watchdog import process as watchdog
from tests import leaderless
from tests.patience import LONG_S, eventually

_SLEEP = ("sleep", "600")
_NO_PIDFD = "import os, sys; del os.pidfd_open; "
_NO_PERMISSION = "import os, sys; os.pidfd_open = lambda pid: os.kill(1 << 22, 0); "
_NO_THREAD = "import threading; threading.Thread.start = lambda self: exec('raise RuntimeError'); "
_RUN = f"import runpy; runpy.run_path({watchdog.__file__!r}, run_name='__main__')"


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    """A worker, a process of its session outside its group, and a stranger, in groups of their own."""
    marked = {**os.environ, "GMG_SESSION_ID": "test-watchdog"}
    with (
        subprocess.Popen(_SLEEP, process_group=0) as worker,
        subprocess.Popen(_SLEEP, process_group=0, env=marked) as helper,
        subprocess.Popen(_SLEEP, process_group=0) as stranger,
    ):
        yield [worker, helper, stranger]
        for process in (worker, helper, stranger):
            process.kill()


@pytest.mark.parametrize(
    "boot", ["", _NO_PIDFD, _NO_PERMISSION, _NO_THREAD], ids=["pidfd", "none", "refused", "thread"]
)
def test_workers_are_ended_and_a_group_with_a_reused_number_is_not(
    sleepers: list[subprocess.Popen[bytes]], boot: str
) -> None:
    worker, helper, stranger = sleepers
    lines = (
        f"+{worker.pid} {watchdog.read_start(worker.pid)}\n+{stranger.pid} {watchdog.read_start(stranger.pid) - 5}\n"
    )
    command = (sys.executable, "-I", "-S", "-c", boot + _RUN)
    ended = subprocess.run(
        command, input=f"test-watchdog\n{lines}", capture_output=True, text=True, timeout=LONG_S, check=True
    )
    assert worker.wait(LONG_S) < 0
    assert str(worker.pid) in ended.stderr
    if boot != _NO_THREAD:
        assert helper.wait(LONG_S) < 0
    assert stranger.poll() is None
    assert str(stranger.pid) not in ended.stderr


@pytest.mark.process
def test_a_group_whose_number_is_reused_while_the_watchdog_looks_is_spared(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a process that starts later, or by its group after it has ended."""
    leave = "import subprocess; print(subprocess.Popen(['sleep', '600']).pid, flush=True)"
    with subprocess.Popen((sys.executable, "-c", leave), process_group=0, stdout=subprocess.PIPE) as leader:
        assert leader.stdout is not None
        member = int(leader.stdout.readline())
        try:
            starts = {leader.pid: watchdog.read_start(leader.pid)}
            monkeypatch.setattr(watchdog, "read_start", lambda pid: starts[pid])
            processes = watchdog._Processes({(leader.pid, starts[leader.pid])}, b"no mark")
            assert member in {pid for pid, _ in processes.find_live()}
            leader.wait(LONG_S)
            starts[leader.pid] = 0
            assert {pid for pid, _ in processes.find_live()} == {member}, "its leader has ended"
            for starts[leader.pid] in (1, 0):
                assert not processes.find_live(), "the number was another's"
        finally:
            os.kill(member, signal.SIGKILL)


def test_workers_whose_first_thread_has_ended_are_ended() -> None:
    with (
        leaderless.started(process_group=0) as worker,
        leaderless.started(process_group=0, env={**os.environ, "GMG_SESSION_ID": "test-leaderless"}) as helper,
    ):
        lines = f"test-leaderless\n+{worker.pid} {watchdog.read_start(worker.pid)}\n"
        command = (sys.executable, "-I", "-S", watchdog.__file__)
        subprocess.run(command, input=lines, text=True, timeout=LONG_S, check=True)
        assert (worker.wait(LONG_S), helper.wait(LONG_S)) == (-signal.SIGTERM, -signal.SIGTERM)


@pytest.mark.process
async def test_a_killed_watchdog_is_replaced_as_soon_as_a_process_can_be_started(
    monkeypatch: pytest.MonkeyPatch, sleepers: list[subprocess.Popen[bytes]]
) -> None:
    monkeypatch.setattr(client, "_REPLACE_PAUSE_S", 0.0)
    monkeypatch.setattr(client, "_RETRY_PAUSE_S", 0.0)
    started, refusals, real = list[asyncio.subprocess.Process](), [0, 1, 1, 0], asyncio.create_subprocess_exec

    async def start(*args: str, **more: Any) -> asyncio.subprocess.Process:
        assert "test-watchdog" not in args  # other users would see the id in `ps`
        if refusals.pop(0):
            raise OSError(11, "Resource temporarily unavailable")
        started.append(await real(*args, **more))
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    dog = client.WatchdogClient()
    await dog.start("test-watchdog")
    started[0].kill()
    await eventually(lambda: len(started) == 2)
    await dog.close()
    assert started[1].returncode == 0
    assert sleepers[1].wait(LONG_S) < 0


@pytest.mark.process
async def test_an_engine_that_hangs_for_long_counts_as_ended(sleepers: list[subprocess.Popen[bytes]]) -> None:
    """The jobs of a node's agent that hangs start elsewhere, and no two may write the same files."""
    worker, _, stranger = sleepers
    dog = client.WatchdogClient()
    await dog.start("test-watchdog", 1.0)
    dog.add_group(worker.pid)
    assert dog._process is not None
    dog._process.send_signal(signal.SIGSTOP)  # as if a scheduler suspended both
    dog._tasks[1].cancel()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(2.0):
            await dog._process.wait()
    dog._process.send_signal(signal.SIGCONT)
    dog._tasks[1] = asyncio.create_task(dog._send_signs_of_life(0.1))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(2.0):
            await dog._process.wait()
    assert worker.poll() is None
    dog._tasks[1].cancel()  # as if the engine hung
    await eventually(lambda: worker.poll() is not None)
    assert stranger.poll() is None
    await dog.close()
