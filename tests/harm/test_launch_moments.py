"""A run that is ended while it starts: nothing of it is left, at whatever moment that comes."""

from __future__ import annotations

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
from tests.engine.harness import FAKE, spec_for

from .patience import eventually, wait_until
from .sessions import STEPS

_HEADLESS = (sys.executable, "-m", "gmg_tui", "--headless", "--cpu", "2")


def _carries(process: psutil.Process) -> bool:
    try:
        own = process.environ().get("XDG_STATE_HOME") == os.environ["XDG_STATE_HOME"]
        return bool(own) and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def alive() -> list[psutil.Process]:
    """The processes that carry this test's state folder."""
    return [process for process in psutil.process_iter() if _carries(process)]


def _folders() -> list[str]:
    folder = sessions.sessions_folder()
    return sorted(entry.name for entry in folder.iterdir()) if folder.exists() else []


def _listed(client: subprocess.Popen[bytes]) -> list[str]:
    """The states of all sessions, once nothing of the client's runs any more."""
    try:
        _, said = client.communicate(timeout=90)
    except subprocess.TimeoutExpired:
        client.send_signal(signal.SIGTERM)
        raise AssertionError(f"it goes on; it had said: {client.communicate()[1].decode()}") from None
    assert b"Traceback" not in said
    wait_until(lambda: not alive())
    for log in sessions.sessions_folder().glob("*/engine.log"):
        assert "Traceback" not in log.read_text()
    return [found.state for found in sessions.listing()]


MOMENTS = {
    "subprocess.Popen:1": 0,  # nothing of the session exists yet
    "os.mkdir:3": 0,  # the session's folder
    "os.mkdir:4": 0,  # its logs
    "socket.__new__:1": 1,  # the engine is being started
    "socket.__new__:3": 1,
    "socket.connect:1": 1,  # the engine runs
}
"""Audit events of a launcher, in their order, and how many sessions SIGTERM leaves there, all of them ended."""


def launch(number: signal.Signals, moment: str, *words: str) -> subprocess.Popen[bytes]:
    """A launcher of `words`, after `--headless --cpu 2`, that gets a signal at a moment of its start."""
    path = os.pathsep.join(filter(None, [str(Path(__file__).with_name("moment")), os.environ.get("PYTHONPATH")]))
    env = os.environ | {"PYTHONPATH": path, "GMG_TEST_MOMENT": f"{number.value}:{moment}"}
    return subprocess.Popen([*_HEADLESS, *words], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@pytest.mark.parametrize("moment", MOMENTS)
def test_sigterm_while_it_starts_leaves_nothing_running(moment: str) -> None:
    client = launch(signal.SIGTERM, moment, FAKE, *STEPS)
    assert _listed(client) == ["ended"] * MOMENTS[moment]
    assert client.returncode in {130, -signal.SIGTERM}
    assert len(_folders()) == MOMENTS[moment]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_launcher_that_is_killed_leaves_a_session_or_nothing(moment: str) -> None:
    client = launch(signal.SIGKILL, moment, FAKE, *STEPS)
    client.communicate()
    assert client.returncode == -signal.SIGKILL
    # An engine whose launch was not confirmed ends by itself.
    wait_until(lambda: not alive() or "running" in [each.state for each in sessions.listing()])
    for listed in sessions.listing():
        if listed.state == "running":
            with contextlib.suppress(ProcessLookupError):
                os.kill(listed.record.session.engine_pid, signal.SIGTERM)
    wait_until(lambda: not alive())
    # A process that ends loses its environment before its locks.
    wait_until(lambda: {each.state for each in sessions.listing()} <= {"ended"})


async def _engine(spec_text: bytes, words: bytes) -> asyncio.subprocess.Process:
    """An engine that has said that it listens, and has not been confirmed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gmg_tui.engine"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(spec_text + b"\n" + words + b"\n")
    assert json.loads(await process.stdout.readline())["ok"]
    return process


@pytest.mark.parametrize("fresh", [True, False])
async def test_an_engine_whose_launcher_is_gone_ends_before_it_has_begun(fresh: bool) -> None:
    spec = spec_for(*STEPS)
    process = await _engine(msgspec.json.encode(spec), b"confirm fresh" if fresh else b"confirm")
    assert process.stdin is not None
    await asyncio.sleep(0.3)
    assert not psutil.Process(process.pid).children()
    process.stdin.close()
    assert await process.wait() == 0
    assert not Path(spec.socket).exists()
    assert Path(spec.folder).exists() != fresh
    assert [found.state for found in sessions.listing()] == ([] if fresh else ["ended"])


async def test_an_engine_that_is_told_to_end_before_it_was_confirmed_starts_nothing() -> None:
    spec = spec_for(*STEPS)
    process = await _engine(msgspec.json.encode(spec), b"confirm fresh")
    process.terminate()
    assert await process.wait() == 0
    await eventually(lambda: not Path(spec.folder).exists())


def test_sigterm_before_the_reporter_listens_stops_the_session() -> None:
    program = (
        "import os, signal, sys, time; from gmg_tui import cli, headless\n"
        "def terminated(*_, entered, **__): entered(); os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)\n"
        "headless.run = terminated\n"
        "cli.main(sys.argv[1:])\n"
    )
    words = [sys.executable, "-c", program, "--cpu", "1", FAKE, *STEPS]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.stderr.strip(), done.returncode) == ("stopping the workers (ctrl+c again kills them)", 130)
    assert [found.state for found in sessions.listing()] == ["ended"]
    wait_until(lambda: not alive())


@pytest.mark.parametrize("sweep", [False, True])
def test_sigterm_ends_a_client_whose_output_is_full_and_unread(sweep: bool, tmp_path: Path) -> None:
    stamps = tmp_path / "stamps"
    args = ["--plain", "--phase-s", "0", "--flood", "plain", "--lines", "0", "--stamp", str(stamps)]
    if sweep:
        words = ["sweep", "--set", "x=1", "--cpu", "1", "--headless", "--script", FAKE, *args]
    else:
        words = ["--headless", "--cpu", "1", FAKE, *args]
    with subprocess.Popen(
        [sys.executable, "-m", "gmg_tui", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as client:
        wait_until(lambda: stamps.exists() and stamps.read_bytes().count(b"\n") > 400)
        client.terminate()
        try:
            assert client.wait(60) == 130
        finally:
            client.kill()
    assert [found.state for found in sessions.listing()] == ["ended"]
