"""`ls` and `stop` on scripted engines, as real processes."""

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process

import pexpect
import pytest
from msgspec.structs import replace

from gmg_tui import session as sessions
from gmg_tui.model import Alert, Fps, JobRecord, NodeView, Rank, Severity, SweepSpec, WorkerState
from tests.cli.scripted import COMMAND, Done, ScriptedEngine, environ, in_process
from tests.patience import LONG_S
from tests.rates import rate
from tests.workers import alerts, changed


async def _start(*words: str) -> Process:
    return await asyncio.create_subprocess_exec(*COMMAND, *words, stdout=PIPE, stderr=PIPE, env=environ())


async def _gmg(*words: str) -> Done:
    """Runs a command in a thread, so that the scripted engines can answer it."""
    return await asyncio.to_thread(in_process, *words)


async def test_ls_lists_running_ended_and_lost_sessions() -> None:
    assert await _gmg("ls") == ("no sessions yet; start one with: gmg-tui SCRIPT\n", "", 0)
    async with ScriptedEngine(("cpu0",), "ended.py"):
        pass
    lost = ScriptedEngine(("cpu0",), "lost.py")
    async with lost:
        await lost.leave(ended=False)
    async with ScriptedEngine(("cpu0", "cpu1"), "sim.py") as engine:
        # The record still says that the workers are starting: the output must come from the engine.
        engine.move("cpu0", WorkerState.RUNNING, fps=Fps(1500.0, 1400.0, 1600.0, 3, 1480.0))
        engine.move(
            "cpu1",
            WorkerState.FAILED,
            reason="out of memory",
            alerts=alerts(stuck="silent"),
            fps=Fps(700.0, 700.0, 700.0, 3, settled=700.0),
        )
        out, _, status = await _gmg("ls", "--json")
        table, _, _ = await _gmg("ls")
    assert status == 0
    running, *others = json.loads(out)
    assert {row["name"]: row["state"] for row in others} == {"lost-1": "lost", "ended-1": "ended"}
    assert running.pop("started").endswith("Z")
    worker = {
        "slot": "cpu0",
        "state": "running",
        "stuck": False,
        "pid": 100,
        "attempt": 1,
        "fps": 1480.0,
        "reason": None,
        "alerts": [],
        "checkpoint": None,
    }
    stuck = {"kind": "stuck", "severity": "error", "text": "silent", "since": None, "advice": ""}
    failed = {
        "alerts": [stuck],
        "checkpoint": None,
        "slot": "cpu1",
        "state": "failed",
        "stuck": True,
        "pid": None,
        "attempt": 1,
        "fps": None,
    }
    assert running == {
        "name": "sim-1",
        "state": "running",
        "host": None,
        "engine_pid": engine.session.engine_pid,
        "script": "sim.py",
        "folder": str(engine.folder),
        "workers": [worker, {**failed, "reason": "out of memory", "checkpoint": None}],
    }
    header, first, *_ = table.splitlines()
    assert header.split() == ["name", "state", "script", "started", "workers", "FPS"]
    assert first.split()[:3] == ["sim-1", "running", "sim.py"]
    assert first.endswith("1 failed, 1 running  1,480")


async def test_ls_counts_a_group_rate_once_and_excludes_ended_and_stuck_workers() -> None:
    async with ScriptedEngine(("cpu0", "cpu1", "cpu2", "cpu3", "cpu4")) as engine:
        whole, sparse = Fps(5000.0, 5000.0, 5000.0, 3, 5000.0), Fps(2500.0, 2500.0, 2500.0, 3, 2500.0)
        engine.move("cpu0", WorkerState.RUNNING, fps=whole, fps_of_group=True, group=Rank("g0", 0, 2))
        engine.move("cpu1", WorkerState.RUNNING, fps=sparse, fps_in_rank_0=True, group=Rank("g0", 1, 2))
        engine.move("cpu2", WorkerState.RUNNING, fps=rate(100.0))
        engine.move("cpu3", WorkerState.RUNNING, fps=rate(1234.0), alerts=alerts(stuck="no output for 74 s"))
        engine.move("cpu4", WorkerState.FINISHED, fps=rate(595.0))
        table, _, _ = await _gmg("ls")
        out, _, _ = await _gmg("ls", "--json")
    assert "  5,100\n" in table
    assert [worker["fps"] for worker in json.loads(out)[0]["workers"]] == [5000.0, None, 100.0, None, None]


async def test_stop_reports_workers_that_ignore_sigint_and_waits_for_the_engine() -> None:
    async with ScriptedEngine() as engine:
        process = await _start("stop")
        assert (await engine.ends.get()).kill is False
        engine.move("cpu0", WorkerState.STOPPING, stopping="SIGINT sent, waiting up to 15 s")
        engine.move("cpu1", WorkerState.STOPPED)
        engine.move("cpu0", WorkerState.STOPPING, stopping="SIGTERM sent, waiting up to 10 s")
        engine.move("cpu0", WorkerState.STOPPED)
        await engine.left.wait()
        assert process.returncode is None
        await engine.leave(ended=True)
        _, err = await process.communicate()
    assert process.returncode == 0
    assert err.decode().splitlines() == ["stopping sim-1", "still running: cpu0 (SIGTERM)", "sim-1 has ended"]


async def test_stop_without_a_name_asks_on_a_terminal_before_ending_a_long_session() -> None:
    program = "from gmg_tui.cli import app, stop; stop._MIN_CONFIRM_S = -1; app.main()"

    def stop(answer: str) -> str:
        terminal = pexpect.spawn(sys.executable, ["-c", program, "stop"], env=environ(), timeout=LONG_S)
        terminal.expect("stop sim-1, running for .*\\?")
        terminal.sendline(answer)
        return str(terminal.read())

    async with ScriptedEngine():
        assert "nothing was stopped" in await asyncio.to_thread(stop, "n")
        assert "stopping sim-1" in await asyncio.to_thread(stop, "y")


async def test_a_second_interrupt_during_stop_kills_the_workers() -> None:
    async with ScriptedEngine() as engine:
        process = await _start("stop", "sim-1")
        await engine.ends.get()
        process.send_signal(signal.SIGINT)
        while b"again" not in await process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        assert (await engine.ends.get()).kill is True
        engine.end_all(WorkerState.STOPPED)
        await engine.leave(ended=True)
        await process.communicate()
    assert process.returncode == 0


async def test_stop_waits_for_an_engine_to_recreate_its_deleted_socket() -> None:
    program = "import sys; from gmg_tui.cli import app as cli; from gmg_tui.session import client; client._MISSING_SOCKET_TIMEOUT_S = 90.0; cli.main(sys.argv[1:])"
    async with ScriptedEngine() as engine:
        away = engine.socket.rename(engine.socket.with_suffix(".away"))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, "stop", stderr=PIPE, env=environ()
        )
        assert await process.stderr.readline() == b"stopping sim-1\n"
        away.rename(engine.socket)
        await engine.ends.get()
        engine.end_all(WorkerState.STOPPED)
        await engine.leave(ended=True)
        assert (await process.communicate())[1] == b"sim-1 has ended\n"


@pytest.mark.parametrize("names", [("--all",), ("sim-2", "sim-1")])
async def test_several_sessions_are_stopped_at_once(names: tuple[str, ...]) -> None:
    async with ScriptedEngine() as first, ScriptedEngine() as second:
        refused = "gmg-tui: 2 sessions are running: sim-2, sim-1; give their names, or --all\n"
        assert (await _gmg("stop"))[1:] == (refused, 2)
        process = await _start("stop", *names)
        for engine in (second, first):
            await engine.ends.get()  # both are asked before either ends
        for engine in (first, second):
            engine.end_all(WorkerState.STOPPED)
            await engine.leave(ended=True)
        _, printed = await process.communicate()
    *stopping, first_ended, second_ended = printed.decode().splitlines()
    assert stopping == ["stopping sim-2", "stopping sim-1"]
    assert {first_ended, second_ended} == {"sim-1 has ended", "sim-2 has ended"}


async def test_stop_and_attach_without_a_running_session_fail_with_one_line() -> None:
    async with ScriptedEngine():
        pass
    for words in (("stop",), ("attach",), ("stop", "sim-1"), ("attach", "other")):
        out, err, status = await _gmg(*words)
        assert (out, status) == ("", 1)
        assert err.startswith("gmg-tui: ")
        assert err.count("\n") == 1
    async with ScriptedEngine():
        assert "gmg-tui logs sim-2 -f" in (await _gmg("attach")).stderr


async def test_a_record_without_an_id_that_names_the_socket_of_another_session_is_not_running() -> None:
    async with ScriptedEngine() as engine, ScriptedEngine(script="given.py") as given:
        spec = replace(given.session.spec, socket=str(engine.socket))
        sessions.write_record(sessions.Record(replace(given.session, spec=spec, id=""), given.briefs))
        done = await _gmg("stop", "given-1")
        assert (done.returncode, done.stderr.startswith("gmg-tui: given-1 was lost")) == (1, True)
        assert engine.ends.empty()


async def test_stop_says_that_workers_on_a_lost_node_may_run_on() -> None:
    async with ScriptedEngine() as engine:
        process = await _start("stop", "sim-1")
        await engine.ends.get()
        engine.snapshot = changed(engine.snapshot, nodes=(NodeView("n1"), NodeView("n2", lost_since=1.0)))
        engine.end_all(WorkerState.STOPPED)
        await engine.left.wait()
        await engine.leave(ended=True)
        _, err = await process.communicate()
    assert err.decode().splitlines()[1:] == [
        "sim-1 has ended",
        "n2 is lost: workers there may run on for 1:35; do not continue the session before",
    ]


async def test_ls_counts_the_jobs_of_a_sweep() -> None:
    async with ScriptedEngine(("cpu0",), sweep=SweepSpec()) as engine:
        first, second, third = (JobRecord(number, f"x={number}") for number in (1, 2, 3))
        failed = replace(first, state=WorkerState.FAILED)
        engine.advance("cpu0", failed, replace(second, state=WorkerState.RUNNING, slot="cpu0"), third)
        table, _, _ = await _gmg("ls")
        out, _, _ = await _gmg("ls", "--json")
    assert "1/3 jobs, 1 active, 1 failed" in table
    jobs = {"total": 3, "waiting": 1, "running": 1, "finished": 0, "failed": 1, "stopped": 0}
    assert json.loads(out)[0]["jobs"] == jobs


async def test_ls_lists_the_alerts_of_a_running_session_below_it() -> None:
    async with ScriptedEngine() as engine:
        info = Alert("slow", Severity.INFO, "3 % below the median", 1.0)
        stuck = Alert("stuck", Severity.ERROR, "no output for 74 s", 2.0)
        engine.move("cpu1", WorkerState.RUNNING, alerts=(info, stuck))
        done = await asyncio.to_thread(in_process, "ls")
    assert done.stdout.splitlines()[2:] == ["sim-1: cpu1 stuck: no output for 74 s"]
