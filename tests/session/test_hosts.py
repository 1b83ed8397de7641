"""Sessions of another machine in a shared state folder: what the commands print and do."""

import json
import os
import threading
import time
from pathlib import Path

import pytest
from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui.model import SweepSpec
from tests.cli.scripted import ScriptedEngine, in_process

pytestmark = pytest.mark.usefixtures("gmg")
_RUNS = "sim-1 is running on node7: use gmg-tui there"


def _move(folder: Path, ended: float | None = None) -> None:
    """Make a session's record name another machine."""
    read = sessions.read_record(folder)
    assert read is not None
    session = read[0].session
    session = structs.replace(session, spec=structs.replace(session.spec, host="node7"))
    sessions.write_record(structs.replace(read[0], session=session, ended=ended))


@pytest.fixture
def engine() -> ScriptedEngine:
    """A session that has a folder and a record, and whose engine, on another machine, holds no lock that is seen here."""
    engine = ScriptedEngine(("cpu0", "cpu1"), sweep=SweepSpec())
    sessions.write_record(sessions.Record(engine.session, engine.briefs))
    (engine.folder / sessions.ENGINE_LOG).touch()
    _move(engine.folder)
    return engine


@pytest.mark.parametrize("words", ["attach sim-1", "attach", "stop sim-1", "stop", "rm sim-1"])
def test_actions_for_another_machine_are_reported_with_its_name(engine: ScriptedEngine, words: str) -> None:
    done = in_process(*words.split())
    assert (done.stdout, done.stderr, done.returncode) == ("", f"gmg-tui: {_RUNS}\n", 1)
    assert sessions.find("sim-1", running=False).runs_elsewhere


def test_a_sweep_is_not_resumed_while_another_machine_writes_its_record(engine: ScriptedEngine) -> None:
    writes = threading.Timer(1.0, (engine.folder / sessions.RECORD).touch)
    writes.start()
    done = in_process("sweep", "--resume", "sim-1")
    writes.join()
    assert (done.stderr, done.returncode) == (f"waiting for the end of sim-1 on node7\ngmg-tui: {_RUNS}\n", 1)
    refused = in_process("tune", "--resume", "sim-1")
    assert refused.stderr == (
        "gmg-tui: sim-1 is not a session of gmg-tui tune; continue it with: gmg-tui sweep --resume sim-1\n"
    ), "and it does not wait for what it cannot resume"


def test_a_remote_session_is_running_until_its_record_has_an_end(engine: ScriptedEngine) -> None:
    (row,) = json.loads(in_process("ls", "--json").stdout)
    assert (row["state"], row["host"], row["workers"][0]["state"]) == ("running", "node7", "starting")
    header, line, remark = in_process("ls").stdout.splitlines()
    assert header.split()[:4] == ["name", "state", "host", "script"]
    assert line.split()[:4] == ["sim-1", "running", "node7", "sim.py"]
    assert remark == _RUNS
    _move(engine.folder, ended=time.time())
    (row,) = json.loads(in_process("ls", "--json").stdout)
    assert (row["state"], row["host"]) == ("ended", "node7")
    assert "without one: gmg-tui report sim-1" in in_process("attach", "sim-1").stderr


def test_a_machine_whose_clock_is_ahead_takes_no_session_for_lost(
    engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = time.time() + 3600
    monkeypatch.setattr("time.time", lambda: ahead)
    assert sessions.find("sim-1", running=False).state == "running"


def test_a_session_of_a_machine_that_is_gone_is_lost_and_can_be_removed(engine: ScriptedEngine) -> None:
    os.utime(engine.folder / sessions.RECORD, (1.0, 1.0))
    (row,) = json.loads(in_process("ls", "--json").stdout)
    assert (row["state"], [worker["state"] for worker in row["workers"]]) == ("lost", ["failed"] * 2)
    assert "sim-1 was lost on node7: its engine died at about " in in_process("ls").stdout
    descriptor = sessions.lock(engine.folder)  # where locks reach across machines, it is seen that the engine lives
    assert sessions.find("sim-1", running=False).state == "running"
    os.close(descriptor)
    assert in_process("rm", "sim-1", "--yes").returncode == 0
    assert sessions.list_sessions() == []
