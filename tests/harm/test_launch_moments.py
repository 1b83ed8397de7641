"""A run that is ended while it starts leaves nothing behind, and one whose launcher is killed runs whole or not at all."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import psutil
import pytest

from gmg_tui import session as sessions
from gmg_tui.machine.folders import OpenFolder
from gmg_tui.model import RunSpec, WorkerState
from gmg_tui.model.errors import GmgError
from tests.cli.scripted import COMMAND
from tests.engine.harness import FAKE, read_out, spec_for
from tests.engine.test_groups import RANK
from tests.patience import LONG_S, eventually, processes_of_test, wait_until

from .sessions import STEPS, snapshot_of

WORKERS = (FAKE, *STEPS)
GROUP = ("--ddp", RANK, "--steps", "1000000")
MOMENTS = {
    "subprocess.Popen:1": 0,  # nothing of the session exists yet
    "os.mkdir:3": 0,  # the session's folder
    "socket.__new__:1": 1,  # the engine is being started
    "socket.connect:1": 1,  # the engine runs
}
"""Audit events of a launcher, in their order, and how many sessions SIGTERM leaves there, all of them ended."""


def launch(number: signal.Signals, moment: str, *words: str) -> subprocess.Popen[bytes]:
    """A launcher of `words` on two slots that gets a signal at a moment of its start."""
    path = os.pathsep.join(filter(None, [str(Path(__file__).with_name("moment")), os.environ.get("PYTHONPATH")]))
    env = os.environ | {"PYTHONPATH": path, "GMG_TEST_MOMENT": f"{number.value}:{moment}"}
    command = [*COMMAND, "--headless", "--cpu", "2", *words]
    return subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _running() -> list[sessions.SessionEntry]:
    return [entry for entry in sessions.list_sessions() if entry.state == "running"]


def _scripts() -> set[int]:
    pids = set()
    for process in processes_of_test():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if words[1:2] in ([FAKE], [RANK]):
                pids.add(process.pid)
    return pids


def _settled() -> bool:
    """Whether nothing of the start is left, or both workers run in their first attempt, and no third."""
    running = _running()
    if not running:
        return not processes_of_test()
    try:
        workers = snapshot_of(running[0]).workers
    except GmgError:
        return False
    states = [(worker.state, worker.attempt) for worker in workers]
    return states == [(WorkerState.RUNNING, 1)] * 2 and {worker.pid for worker in workers} == _scripts()


def _end() -> None:
    for entry in _running():
        with contextlib.suppress(ProcessLookupError):
            os.kill(entry.record.session.engine_pid, signal.SIGTERM)
    _all_ended()


def _all_ended() -> None:
    wait_until(lambda: not processes_of_test())
    # A process that ends loses its environment before its locks.
    wait_until(lambda: {entry.state for entry in sessions.list_sessions()} <= {"ended"})


@pytest.mark.parametrize("moment", MOMENTS)
def test_sigterm_while_it_starts_leaves_nothing_running(moment: str) -> None:
    client = launch(signal.SIGTERM, moment, *WORKERS)
    _, errors = client.communicate(timeout=LONG_S)
    assert client.returncode in {130, -signal.SIGTERM}
    _all_ended()
    folders = sessions.sessions_folder()
    assert len(list(folders.iterdir()) if folders.exists() else []) == MOMENTS[moment]
    logs = [log.read_text() for log in folders.glob("*/engine.log")]
    assert "Traceback" not in "\n".join([errors.decode(), *logs])


# What runs makes a difference only once there is an engine.
@pytest.mark.parametrize(
    ("moment", "words"),
    [*((moment, WORKERS) for moment in MOMENTS), *((moment, GROUP) for moment in list(MOMENTS)[-2:])],
)
def test_a_launcher_that_is_killed_leaves_all_workers_or_none(moment: str, words: tuple[str, ...]) -> None:
    client = launch(signal.SIGKILL, moment, *words)
    client.communicate()
    assert client.returncode == -signal.SIGKILL
    wait_until(_settled)
    _end()


def _new(spec: RunSpec) -> bytes:
    """The flags for an engine whose launcher has made the folder."""
    return f"confirm new:{OpenFolder.open(Path(spec.folder)).id}".encode()


async def _unconfirmed(spec_text: bytes, words: bytes) -> asyncio.subprocess.Process:
    """An engine that has reported that it listens, and is not confirmed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gmg_tui.engine"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    process.stdin.write(spec_text + b"\n" + words + b"\n")
    assert json.loads(await process.stdout.readline())["ok"]
    return process


@pytest.mark.parametrize("fresh", [True, False])
async def test_an_engine_without_its_launcher_exits_before_it_starts_workers(fresh: bool) -> None:
    spec = spec_for(*STEPS)
    process = await _unconfirmed(msgspec.json.encode(spec), _new(spec) if fresh else b"confirm")
    process.stdin.close()
    await read_out(process)
    assert process.returncode == 0
    assert not Path(spec.socket).exists()
    assert Path(spec.folder).exists() != fresh
    assert [entry.state for entry in sessions.list_sessions()] == ([] if fresh else ["ended"])
    assert not list(Path(spec.folder).glob("logs/*.log"))  # no worker was started


async def test_an_engine_ended_before_its_confirmation_starts_nothing() -> None:
    spec = spec_for(*STEPS)
    process = await _unconfirmed(msgspec.json.encode(spec), _new(spec))
    process.terminate()
    await read_out(process)
    assert process.returncode == 0
    await eventually(lambda: not Path(spec.folder).exists())


def test_sigterm_before_the_reporter_is_ready_stops_the_session() -> None:
    program = (
        "import os, signal, sys; from gmg_tui import headless; from gmg_tui.cli import app as cli\n"
        "def terminated(*_, on_ready, **__): os.kill(os.getpid(), signal.SIGTERM); on_ready()\n"
        "headless.run = terminated\n"
        "cli.main(sys.argv[1:])\n"
    )
    done = subprocess.run([sys.executable, "-c", program, "--cpu", "1", *WORKERS], capture_output=True, text=True)
    assert (done.stderr.strip(), done.returncode) == ("stopping the workers (ctrl+c again kills them)", 130)
    _all_ended()


@pytest.mark.parametrize("sweep", [False, True])
def test_sigterm_ends_a_client_with_blocked_output(sweep: bool, tmp_path: Path) -> None:
    stamps = tmp_path / "stamps"
    args = ["--plain", "--phase-s", "0", "--flood", "--lines", "0", "--stamp", str(stamps)]
    words = ["sweep", "--set", "x=1", "--cpu", "1", "--headless", "--script", FAKE, *args]
    command = [*COMMAND, *(words if sweep else ["--headless", "--cpu", "1", FAKE, *args])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as client:
        wait_until(lambda: stamps.exists() and stamps.read_bytes().count(b"\n") > 400)
        client.terminate()
        try:
            assert client.wait(LONG_S) == 130
        finally:
            client.kill()
    assert [entry.state for entry in sessions.list_sessions()] == ["ended"]
