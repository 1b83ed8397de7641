"""What is said when a sweep is stopped, or an engine is killed: in plain words, and how to go on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys

from gmg_tui import session as sessions
from gmg_tui.model import WorkerState
from tests.cli.scripted import ROOT, ScriptedEngine, environ

_COMMAND = (sys.executable, "-m", "gmg_tui")
_JOB = str(ROOT / "tests" / "job.py")
_SWEEP = ("sweep", "--script", _JOB, "--set", "x=1,2,3", "--args=--s 600 --value {x}", "--cpu", "1", "--name", "torn")


def _gmg(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*_COMMAND, *words], capture_output=True, text=True, env=environ())


def _engine_at_work() -> int:
    """The PID of the engine of the only session, once its worker has a process."""
    while True:
        rows = json.loads(_gmg("ls", "--json").stdout)
        if rows and any(worker["pid"] for worker in rows[0]["workers"]):
            return int(rows[0]["engine_pid"])


def test_stop_of_a_sweep_says_how_to_go_on_with_it() -> None:
    assert _gmg(*_SWEEP, "--detach").returncode == 0
    _engine_at_work()
    stopped = _gmg("stop", "torn")
    assert stopped.returncode == 0
    assert stopped.stderr.splitlines()[-2:] == [
        "torn has ended",
        "3 jobs left; continue with: gmg-tui sweep --resume torn",
    ]


def test_a_tuning_that_is_cut_off_says_how_to_go_on_with_it() -> None:
    script = str(ROOT / "tests" / "tuned_worker.py")
    tune = ("tune", script, "-B", "{n_envs}", "--cpu", "1", "--settle", "60")
    assert _gmg(*tune, "--name", "one", "--detach").returncode == 0
    engine = _engine_at_work()
    stopped = _gmg("stop", "one")
    assert stopped.stderr.splitlines()[-2:] == ["one has ended", "`gmg-tui tune --resume one` goes on with it"]
    assert _gmg("tune", "--resume", "one", "--detach").returncode == 0
    while (again := _engine_at_work()) == engine:
        pass
    os.kill(again, signal.SIGKILL)
    assert "continue with: gmg-tui tune --resume one" in _gmg("ls").stdout


def test_a_sweep_whose_engine_is_killed_says_so_in_plain_words_and_how_to_go_on() -> None:
    command = [*_COMMAND, *_SWEEP]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ()) as client:
        assert client.stdout is not None
        while " starts" not in client.stdout.readline():
            assert client.poll() is None
        os.kill(_engine_at_work(), signal.SIGKILL)
        _, said = client.communicate()
    log = sessions.sessions_folder() / "torn" / "engine.log"
    assert client.returncode == 1
    assert said == (
        "gmg-tui: the engine of session torn was lost: it ended without a word, as when it is killed; "
        f"its watchdog ends its workers; see {log}; continue with: gmg-tui sweep --resume torn\n"
    )
    assert "continue with: gmg-tui sweep --resume torn" in _gmg("ls").stdout


async def test_stop_says_that_the_engine_was_killed_meanwhile() -> None:
    async with ScriptedEngine() as engine:
        command = [*_COMMAND, "stop"]
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE, env=environ())
        await engine.ends.get()
        await engine.leave(ended=False)
        _, said = await process.communicate()
    assert process.returncode == 1
    assert said.decode().splitlines()[-1].startswith("gmg-tui: sim-1 was lost: its engine died")


async def test_stop_does_not_wait_for_an_engine_that_is_frozen_meanwhile() -> None:
    async with ScriptedEngine() as engine:
        command = [*_COMMAND, "stop"]
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE, env=environ())
        await engine.ends.get()  # and then nothing more
        _, said = await process.communicate()
    assert process.returncode == 1
    assert said.decode().splitlines()[-1] == (
        "gmg-tui: the engine of sim-1 has not answered for 10 s; if it is stopped (SIGSTOP), "
        f"kill -CONT {os.getpid()} lets it go on; kill -KILL {os.getpid()} ends it and its workers"
    )


async def test_stop_does_not_wait_for_an_engine_that_is_frozen_at_its_end() -> None:
    async with ScriptedEngine() as engine:
        command = [*_COMMAND, "stop"]
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE, env=environ())
        await engine.ends.get()
        engine.end_all(WorkerState.STOPPED)
        _, said = await process.communicate()
    assert process.returncode == 1
    assert (
        said.decode().splitlines()[-1].startswith("gmg-tui: all workers have ended, but not the engine of sim-1; if ")
    )
