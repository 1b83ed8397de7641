"""What is printed when an engine is killed or frozen: what happened, and how to continue."""

import asyncio
import os
import sys

import pytest

from gmg_tui import session as sessions
from gmg_tui.model import SweepSpec, WorkerState
from tests.cli.scripted import COMMAND, ScriptedEngine, environ

_IMPATIENT = (
    "import sys; from gmg_tui.cli import app as cli; from gmg_tui.cli import stop; "
    "stop.ANSWER_TIMEOUT_S, stop._END_TIMEOUT_S = {answer_s}, 1.0; cli.main(sys.argv[1:])"
)


def test_the_command_to_continue_a_lost_sweep_is_reported() -> None:
    session = ScriptedEngine(sweep=SweepSpec()).session
    reported = sessions.engine_lost_text(session, "it was killed")
    assert reported.endswith(f"see {session.spec.folder}/engine.log; continue with: gmg-tui sweep --resume sim-1")


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
        (True, 90.0, "all workers of sim-1 have ended, but not its engine"),
    ],
)
async def test_stop_does_not_wait_for_a_frozen_engine(at_its_end: bool, answer_s: float, trouble: str) -> None:
    async with ScriptedEngine() as engine:
        command = [sys.executable, "-c", _IMPATIENT.format(answer_s=answer_s), "stop"]
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE, env=environ())
        await engine.ends.get()  # and then nothing more
        if at_its_end:
            engine.end_all(WorkerState.STOPPED)
        _, printed = await process.communicate()
    assert process.returncode == 1
    pid, advice = os.getpid(), "to end it and its workers"
    if at_its_end:
        advice = f"it may be writing the results (see {engine.folder}/engine.log); to end it without them"
    assert printed.decode().splitlines()[-1] == (
        f"gmg-tui: {trouble}; if it is stopped (SIGSTOP): kill -CONT {pid}; {advice}: kill -KILL {pid}"
    )
