"""`logs`: a worker's file, whole, its end, or followed."""

import asyncio
import os
import subprocess
import sys
from asyncio.subprocess import PIPE

import pexpect

from gmg_tui import session as sessions
from gmg_tui.model import Attempt, JobRecord, SweepSpec, WorkerState
from gmg_tui.session.store import reader
from gmg_tui.session.store.database import JobAttempt
from gmg_tui.session.store.writer import StoreWriter
from tests.cli.scripted import COMMAND, ScriptedEngine, environ
from tests.patience import LONG_S

_COMMAND = (*COMMAND, "logs")
_RAW = b"\x1b[31mred\x1b[0m\nbar 1\rbar 2\r\nno UTF-8: \xff\n\x1b]0;title\x07last"


def _gmg(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*_COMMAND, *words], capture_output=True, env=environ())


async def test_a_pipe_gets_the_bytes_and_a_terminal_gets_text() -> None:
    async with ScriptedEngine() as engine:
        (engine.folder / "logs" / "cpu1.log").write_bytes(_RAW)
    done = _gmg("cpu1")
    assert (done.stdout, done.stderr, done.returncode) == (_RAW, b"", 0)
    assert _gmg("sim-1", "cpu1").stdout == _RAW
    terminal = pexpect.spawn(sys.executable, [*_COMMAND[1:], "cpu1"], env=environ(), timeout=LONG_S)
    assert terminal.read() == "red\r\nbar 1\r\nbar 2\r\nno UTF-8: \ufffd\r\nlast\r\n".encode()


async def test_the_last_lines_are_printed_and_then_followed() -> None:
    async with ScriptedEngine() as engine:
        log = engine.folder / "logs" / "cpu0.log"
        lines = [b"x" * 70_000 + b"\n", *(b"line %d\n" % number for number in range(30_000))]
        log.write_bytes(b"".join(lines))
        process = await asyncio.create_subprocess_exec(*_COMMAND, "cpu0", "-fn2", stdout=PIPE, env=environ())
        assert await process.stdout.readline() == b"line 29998\n"
        with log.open("ab") as file:
            file.write(b"unfinished")
    assert await process.stdout.read() == b"line 29999\nunfinished"
    assert await process.wait() == 0
    for count, wanted in (
        (1, [b"unfinished"]),
        (30_000, [*lines[2:], b"unfinished"]),
        (99_999, [*lines, b"unfinished"]),
    ):
        done = await asyncio.to_thread(_gmg, "cpu0", "-n", str(count))
        assert done.stdout == b"".join(wanted)
    assert (await asyncio.to_thread(_gmg, "cpu0", "--lines=0")).stdout == b""


async def test_a_log_that_is_no_file_is_refused() -> None:
    async with ScriptedEngine() as engine:
        os.mkfifo(engine.folder / "logs" / "cpu1.log")
    done = await asyncio.to_thread(_gmg, "cpu1")
    assert (done.returncode, done.stderr.endswith(b"cannot be read: not a regular file\n")) == (1, True)


async def test_following_ends_with_the_session_and_misses_nothing() -> None:
    async with ScriptedEngine() as engine:
        log = engine.folder / "logs" / "cpu0.log"
        log.write_bytes(b"one\n")
        process = await asyncio.create_subprocess_exec(*_COMMAND, "cpu0", "-f", stdout=PIPE, env=environ())
        assert await process.stdout.readline() == b"one\n"
        with log.open("ab") as file:
            file.write(b"two\n")
        assert await process.stdout.readline() == b"two\n"
        with log.open("ab") as file:
            file.write(b"three")
    assert await process.stdout.read() == b"three"
    assert await process.wait() == 0


async def test_a_session_name_selects_its_only_or_failed_worker() -> None:
    async with ScriptedEngine() as engine:
        for slot in ("cpu0", "cpu1"):
            (engine.folder / "logs" / f"{slot}.log").write_text(f"of {slot}\n")
        listed = b"sim-1 has cpu0 starting, cpu1 starting; choose one, as in: gmg-tui logs sim-1 cpu0\n"
        assert _gmg("sim-1").stderr == b"gmg-tui: " + listed
        engine.move("cpu1", WorkerState.FAILED)
    assert _gmg("sim-1").stdout == b"of cpu1\n"
    assert _gmg("sim").stderr == b"gmg-tui: there is no session, slot or job sim; did you mean sim-1?\n"


async def test_an_unknown_slot_lists_the_existing_ones() -> None:
    async with ScriptedEngine():
        pass
    done = _gmg("../../session.json")
    assert done.returncode == 2
    assert done.stderr == b"gmg-tui: there is no session, slot or job ../../session.json; sim-1 has cpu0, cpu1\n"
    assert _gmg("sim-1", "cpu0").stderr.startswith(b"gmg-tui: cpu0 of session sim-1 has not written a log yet")
    assert _gmg().returncode == _gmg("a", "b", "c").returncode == 2


# Of a sweep

_JOBS = tuple(JobRecord(number, f"x={number}") for number in (1, 2, 3))


async def _keep(engine: ScriptedEngine, *records: JobRecord | JobAttempt) -> None:
    writer = StoreWriter(engine.folder / sessions.STORE, lambda line: None)
    writer.start()
    for record in records:
        writer.put(record)
    await writer.close()


def _record(number: int, state: WorkerState, slot: str = "cpu0") -> JobRecord:
    log = f"logs/{number:04}-x={number}.log"
    return JobRecord(number, f"x={number}", state=state, slot=slot, position=float(number), log=log)


async def test_a_jobs_log_is_found_by_number_by_name_and_by_its_slot() -> None:
    async with ScriptedEngine(sweep=SweepSpec()) as engine:
        reader.create(engine.folder / sessions.STORE, _JOBS)
        rank1 = JobAttempt(2, "cpu1", None, Attempt(1), "logs/0002-x=2.rank1.log", rank=1)
        await _keep(engine, _record(1, WorkerState.FINISHED), _record(2, WorkerState.RUNNING), rank1)
        for number in (1, 2):
            (engine.folder / "logs" / f"{number:04}-x={number}.log").write_text(f"of job {number}\n")
        (engine.folder / "logs" / "0002-x=2.rank1.log").write_text("of rank 1\n")
    words = {
        "1": b"of job 1\n",
        "x=2": b"of job 2\n",
        "cpu0": b"of job 2\n",
        "2.rank1": b"of rank 1\n",
        "cpu1": b"of rank 1\n",
    }
    for word, text in words.items():
        assert _gmg("sim-1", word).stdout == text
    assert _gmg("3").stderr.startswith(b"gmg-tui: job 3 (x=3) of session sim-1 has not written a log yet")
    assert (
        _gmg("cpu2").stderr
        == b"gmg-tui: there is no session, slot or job cpu2; sim-1 has job 1 (x=1), job 2 (x=2), job 3 (x=3)\n"
    )
    unknown = _gmg("../../session.json")
    assert unknown.returncode == 2


async def test_a_job_can_be_followed_before_it_starts_until_it_ends() -> None:
    async with ScriptedEngine(sweep=SweepSpec()) as engine:
        reader.create(engine.folder / sessions.STORE, _JOBS)
        process = await asyncio.create_subprocess_exec(*_COMMAND, "x=2", "-f", stdout=PIPE, env=environ())
        log = engine.folder / "logs" / "0002-x=2.log"
        log.write_bytes(b"one\n")
        assert await process.stdout.readline() == b"one\n"
        await _keep(engine, _record(1, WorkerState.FINISHED), _record(2, WorkerState.RUNNING))
        with log.open("ab") as file:
            file.write(b"two\n")
        assert await process.stdout.readline() == b"two\n"
        await _keep(engine, _record(2, WorkerState.FAILED))
        assert await process.stdout.read() == b""
        assert await process.wait() == 0  # and the session goes on
