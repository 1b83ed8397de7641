"""What is printed when an engine is killed or frozen: what happened, and how to continue."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys

import pytest

from gmg_tui import session as sessions
from gmg_tui.model import WorkerState
from tests.cli.scripted import COMMAND, ROOT, ScriptedEngine, environ, gmg

_IMPATIENT = (
    "import sys; from gmg_tui import cli; from gmg_tui.commands import stop; "
    "stop.ANSWER_S, stop._END_S = {answer_s}, 1.0; cli.main(sys.argv[1:])"
)
_JOB = str(ROOT / "tests" / "job.py")
_SWEEP = ("sweep", "--set", "x=1,2,3", "--cpu", "1", "--name", "torn", "--script", _JOB, "--s", "600", "--value", "{x}")


def _engine_at_work() -> int:
    """The PID of the engine of the only session, once its worker has a process."""
    while True:
        rows = json.loads(gmg("ls", "--json").stdout)
        if rows and any(worker["pid"] for worker in rows[0]["workers"]):
            return int(rows[0]["engine_pid"])


def test_a_sweep_whose_engine_is_killed_reports_how_to_continue() -> None:
    command = [*COMMAND, *_SWEEP]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ()) as client:
        assert client.stdout is not None
        while " starts" not in client.stdout.readline():
            assert client.poll() is None
        os.kill(_engine_at_work(), signal.SIGKILL)
        _, printed = client.communicate()
    log = sessions.sessions_folder() / "torn" / "engine.log"
    assert client.returncode == 1
    assert printed == (
        "gmg-tui: the engine of session torn was lost: it closed the connection, as when it is killed; "
        f"its watchdog ends its workers; see {log}; continue with: gmg-tui sweep --resume torn\n"
    )
    assert "continue with: gmg-tui sweep --resume torn" in gmg("ls").stdout


async def test_stop_reports_that_the_engine_was_killed_meanwhile() -> None:
    async with ScriptedEngine() as engine:
        command = [*COMMAND, "stop"]
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE, env=environ())
        await engine.ends.get()
        await engine.leave(ended=False)
        _, printed = await process.communicate()
    assert process.returncode == 1
    assert printed.decode().splitlines()[-1].startswith("gmg-tui: sim-1 was lost: its engine died")


@pytest.mark.parametrize(
    ("at_its_end", "answer_s", "trouble"),
    [
        (False, 1.0, "the engine of sim-1 has not answered for 1 s"),
        (True, 90.0, "all workers have ended, but not the engine of sim-1"),
    ],
)
async def test_stop_does_not_wait_for_an_engine_that_is_frozen(at_its_end: bool, answer_s: float, trouble: str) -> None:
    async with ScriptedEngine() as engine:
        command = [sys.executable, "-c", _IMPATIENT.format(answer_s=answer_s), "stop"]
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE, env=environ())
        await engine.ends.get()  # and then nothing more
        if at_its_end:
            engine.end_all(WorkerState.STOPPED)
        _, printed = await process.communicate()
    assert process.returncode == 1
    pid = os.getpid()
    assert printed.decode().splitlines()[-1] == (
        f"gmg-tui: {trouble}; if it is stopped (SIGSTOP): kill -CONT {pid}; to end it and its workers: kill -KILL {pid}"
    )
