"""The reporter without a screen, as a real process on a scripted engine."""

import asyncio
import os
import signal
import sys
import threading
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import cast
from unittest.mock import MagicMock

import pytest
from msgspec.structs import replace

from gmg_tui.headless import _Headless
from gmg_tui.headless.output import Output
from gmg_tui.headless.reporter import Reporter
from gmg_tui.model import Attempt, Fps, JobRecord, SweepSpec, WorkerState
from tests.cli.scripted import ScriptedEngine, environ
from tests.workers import alerts

_PROGRAM = (
    "import sys; from pathlib import Path; from gmg_tui import headless; sys.exit(headless.run(Path(sys.argv[1])))"
)


@pytest.fixture
async def engine() -> AsyncIterator[ScriptedEngine]:
    async with ScriptedEngine() as engine:
        yield engine


async def _report(engine: ScriptedEngine, stdout: int = PIPE, **variables: str) -> Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _PROGRAM, engine.socket, stdout=stdout, stderr=PIPE, env=environ(**variables)
    )
    await engine.watched.wait()
    return process


async def _ended(process: Process) -> tuple[str, str, int | None]:
    out, err = await process.communicate()
    return (out or b"").decode(), err.decode(), process.returncode


async def test_each_line_is_prefixed_with_its_slot_and_the_table_shows_the_total(engine: ScriptedEngine) -> None:
    process = await _report(engine)
    engine.say("cpu0", "Building scene", "Running at 1,000.00 FPS.")
    engine.move("cpu0", WorkerState.RUNNING, fps=Fps(1000.0, 900.0, 1100.0, 7, settled=1000.0), n_envs=4096)
    engine.move("cpu1", WorkerState.RUNNING, fps=Fps(500.0, 400.0, 600.0, 7, settled=500.0), n_envs=16)
    (engine.folder / "summary.json").touch()
    engine.end_all()
    out, err, status = await _ended(process)
    assert (err, status) == ("", 0)
    lines = out.splitlines()
    assert "cpu0 │ Building scene" in lines
    assert not any("Running at" in line for line in lines)
    assert "cpu0   running after 1 s" in lines
    table = {line.split()[0]: line.split()[1:] for line in lines[-7:]}
    assert {"finished", "900", "4,096"} <= set(table["cpu0"])
    assert {"finished", "400", "16"} <= set(table["cpu1"])
    assert any(line.startswith("2 finished  total 1,300 FPS") for line in lines)
    assert f"summary: {engine.folder}/summary.json" in lines


async def test_a_failure_is_reported_with_its_reason_and_advice_and_is_the_exit_status(engine: ScriptedEngine) -> None:
    process = await _report(engine)
    engine.move("cpu0", WorkerState.FAILED, reason="out of memory", advice="take fewer environments")
    engine.end_all()
    out, _, status = await _ended(process)
    assert status == 1
    assert "cpu0   failed after 1 s: out of memory" in out
    assert "cpu0 failed: out of memory\n     take fewer environments\n" in out


async def test_a_session_that_another_client_continues_as_it_ends_is_followed(engine: ScriptedEngine) -> None:
    process = await _report(engine)
    engine.end_all()
    engine.move("cpu0", WorkerState.RUNNING)  # in the same packet
    assert process.stdout is not None
    while not (line := await process.stdout.readline()).startswith(b"cpu0   running"):
        assert line
    engine.move("cpu0", WorkerState.FAILED, reason="exit code 3")
    out, err, status = await _ended(process)
    assert (err, status) == ("", 1)
    assert "cpu0 failed: exit code 3" in out


async def test_the_first_interrupt_stops_the_workers_and_the_second_kills_them(engine: ScriptedEngine) -> None:
    process = await _report(engine)
    process.send_signal(signal.SIGINT)
    assert (await engine.ends.get()).kill is False
    engine.move("cpu0", WorkerState.STOPPING, stopping="SIGINT sent, waiting up to 15 s")
    process.send_signal(signal.SIGINT)
    assert (await engine.ends.get()).kill is True
    engine.end_all(WorkerState.STOPPED)
    out, err, status = await _ended(process)
    assert status == 130
    assert err == "stopping the workers (ctrl+c again kills them)\nkilling the workers\n"
    assert "cpu0   stopping: SIGINT sent, waiting up to 15 s" in out


async def test_lines_are_printed_once_threads_can_be_started_again(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    failures, start = iter(range(3)), threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if next(failures, None) is not None:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    output = Output(sys.stdout)
    output.write("one", "two")
    await output.drain()
    assert capfd.readouterr().out == "one\ntwo\n"


async def test_a_text_with_line_feeds_forges_no_line(capfd: pytest.CaptureFixture[str]) -> None:
    output = Output(sys.stdout)
    output.write("gpu0  failed: a\ngpu1  finished")
    await output.drain()
    assert capfd.readouterr().out == "gpu0  failed: a·gpu1  finished\n"


@pytest.mark.parametrize("is_full", [True, False])
def test_changes_that_nobody_reads_are_reported_once_there_is_room(engine: ScriptedEngine, is_full: bool) -> None:
    output = MagicMock(full=is_full)
    headless = SimpleNamespace(_reporter=Reporter(engine.session), _out=output, _check_complete=lambda: None)
    _Headless._show(cast("_Headless", headless), engine.snapshot)
    assert bool(output.write.mock_calls) is not is_full


async def test_repeated_sigterm_stops_cleanly(engine: ScriptedEngine) -> None:
    process = await _report(engine)
    process.send_signal(signal.SIGTERM)
    assert (await engine.ends.get()).kill is False
    process.send_signal(signal.SIGTERM)
    engine.end_all(WorkerState.STOPPED)
    assert (await _ended(process))[2] == 130
    assert engine.ends.empty()


async def test_lines_that_the_engine_left_out_are_counted(engine: ScriptedEngine) -> None:
    process = await _report(engine)
    engine.say("cpu1", "one")
    engine.say("cpu1", "last", left_out=1234)
    engine.end_all()
    out, _, _ = await _ended(process)
    assert "cpu1 │ one\ncpu1 │ … 1,234 lines left out; all are in logs/cpu1.log\ncpu1 │ last\n" in out


async def test_interrupts_are_handled_while_output_is_blocked_and_the_third_exits(engine: ScriptedEngine) -> None:
    unread, writing = os.pipe()
    process = await _report(engine, writing)
    os.close(writing)
    for _ in range(40):
        engine.say("cpu0", *("x" * 80 for _ in range(1000)))  # far more than a pipe and the reporter hold
        await asyncio.sleep(0)
    process.send_signal(signal.SIGINT)
    assert (await engine.ends.get()).kill is False
    process.send_signal(signal.SIGINT)
    assert (await engine.ends.get()).kill is True
    engine.end_all(WorkerState.STOPPED)
    await engine.left.wait()  # the reporter has seen the end, and waits for its reader alone
    assert process.returncode is None
    process.send_signal(signal.SIGINT)
    _, err, status = await _ended(process)
    assert ("Traceback" in err, status) == (False, 130)
    os.close(unread)


async def test_a_pipe_that_another_program_made_non_blocking_gets_all_lines() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with open(reading, "rb") as read, open(writing, "w") as stream:  # noqa: ASYNC230, PTH123 - descriptors
        out = Output(stream, lambda error: stream.close())
        out.write("x" * 1_000_000)
        assert len(await asyncio.to_thread(read.read, 1_000_001)) == 1_000_001
        await out.drain()


@pytest.mark.parametrize("is_full", [True, False])
async def test_an_output_that_fails_does_not_affect_the_session(engine: ScriptedEngine, is_full: bool) -> None:
    """As on a full disk, or through a pipe after a lost SSH connection."""
    reading, writing = os.pipe()
    output = os.open("/dev/full", os.O_WRONLY) if is_full else writing
    process = await _report(engine, output)
    for descriptor in {reading, writing, output}:
        os.close(descriptor)
    engine.say("cpu0", "one")
    await engine.left.wait()
    _, err, status = await _ended(process)
    assert status == 1
    assert f"gmg-tui attach {engine.session.spec.name}" in err
    assert engine.ends.empty()


async def test_ctrl_c_that_also_ends_the_reader_waits_for_the_workers(engine: ScriptedEngine) -> None:
    """As `gmg-tui … | tee log`, all that keeps a container alive while the workers save."""
    reading, writing = os.pipe()
    process = await _report(engine, writing)
    os.close(writing)
    process.send_signal(signal.SIGINT)
    assert (await engine.ends.get()).kill is False
    os.close(reading)
    engine.say("cpu0", "saving")
    process.send_signal(signal.SIGINT)
    assert (await engine.ends.get()).kill is True
    engine.end_all(WorkerState.STOPPED)
    _, err, status = await _ended(process)
    assert ("Traceback" in err, "cannot write" in err, status) == (False, False, 130)


async def test_output_in_a_limited_encoding_replaces_missing_characters(engine: ScriptedEngine) -> None:
    process = await _report(engine, PYTHONIOENCODING="ascii")
    engine.say("cpu0", "größer", left_out=3)
    engine.move("cpu0", WorkerState.RUNNING, alerts=alerts(stuck="no output"))
    engine.end_all()
    out, _, status = await _ended(process)
    assert status == 0
    assert "cpu0 ? gr??er" in out
    assert "? stuck: no output" in out


async def test_an_engine_that_dies_is_an_error_that_names_its_log(engine: ScriptedEngine) -> None:
    process = await _report(engine)
    await engine.leave(ended=False)
    _, err, status = await _ended(process)
    assert status == 1
    assert "the engine of session sim-1 was lost: it closed the connection" in err
    assert f"{engine.folder}/engine.log" in err
    assert "bytes" not in err


async def test_each_job_of_a_sweep_is_reported_even_when_no_snapshot_contained_it() -> None:
    async with ScriptedEngine(("cpu0",), sweep=SweepSpec()) as engine:
        first, second, third = (JobRecord(number, f"x={number}") for number in (1, 2, 3))
        running = replace(first, state=WorkerState.RUNNING, slot="cpu0", last=Attempt(1))
        engine.advance("cpu0", running, second, third)
        process = await _report(engine)
        ends = {"slot": "cpu0", "last": Attempt(1), "ended": time.time() + 9, "elapsed_s": 62.0}
        failed = replace(second, state=WorkerState.FAILED, reason="out of memory", **ends)
        finished = [replace(record, state=WorkerState.FINISHED, **ends) for record in (first, third)]
        engine.advance("cpu0", failed, *finished)
        out, err, status = await _ended(process)
    assert (err, status) == ("", 1)
    assert [line for line in out.splitlines() if " job " in line] == [
        "cpu0   job 2/3 x=2 failed after 1:02: out of memory",
        "cpu0   job 1/3 x=1 finished after 1:02",
        "cpu0   job 3/3 x=3 finished after 1:02",
    ]
    assert "FPS last" not in out


async def test_an_engine_that_disconnects_before_all_jobs_are_reported_does_not_block() -> None:
    async with ScriptedEngine(("cpu0",), sweep=SweepSpec()) as engine:
        job = JobRecord(1, "x=1", slot="cpu0", last=Attempt(1))
        engine.advance("cpu0", replace(job, state=WorkerState.RUNNING))
        engine.mute = True
        process = await _report(engine)
        engine.advance("cpu0", replace(job, state=WorkerState.FINISHED, ended=time.time()))
        await engine.asked.wait()
        await engine.leave(ended=True)
        _, err, status = await _ended(process)
    assert (err, status) == ("", 0)
