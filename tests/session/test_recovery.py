"""Sessions whose engine was killed, as `ls`, `attach` and `stop` find them."""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import psutil
import pytest
from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui.machine import marked_processes, processes
from gmg_tui.machine.processes import Proc
from gmg_tui.model import Queue, Session, Snapshot, Worker, WorkerState
from gmg_tui.session import session_record
from gmg_tui.session.store import database
from tests import leaderless
from tests.cli.scripted import WORKER, ScriptedEngine, environ, gmg
from tests.patience import LONG_S, alive


def _detached(*words: str) -> list[psutil.Process]:
    """A detached session whose worker is silent for ever: its engine, the engine's watchdog, and the worker."""
    assert gmg("--detach", "--cpu", "1", *words, WORKER, "--hang", "compiling").returncode == 0
    while True:
        (listed,) = json.loads(gmg("ls", "--json").stdout)
        (worker,) = listed["workers"]
        if worker["state"] == "compiling":
            break
    engine = psutil.Process(listed["engine_pid"])
    (watchdog,) = (child for child in engine.children() if "watchdog/process.py" in " ".join(child.cmdline()))
    return [engine, watchdog, psutil.Process(worker["pid"])]


def _until_unlocked(folder: Path) -> sessions.SessionEntry:
    while (entry := sessions.inspect(folder)) is None or entry.state == "running":
        time.sleep(0.05)
    return entry


@pytest.fixture
def stranger() -> Iterator[psutil.Process]:
    """A process of a session of the same name under another state folder."""
    with subprocess.Popen(["sleep", "600"], env=environ(GMG_SESSION="far", GMG_SESSION_ID="other")) as process:
        yield psutil.Process(process.pid)
        process.kill()


def test_every_command_reports_a_killed_engine() -> None:
    engine, _, worker = _detached("--name", "far")
    engine.kill()
    entry = _until_unlocked(sessions.sessions_folder() / "far")
    socket_path = Path(entry.record.session.spec.socket)
    assert socket_path.exists()
    stopped = gmg("stop", "far")
    assert stopped.returncode == 1
    assert re.fullmatch(
        rf"gmg-tui: far was lost: its engine died at about [-\d]+ [:\d]+; "
        rf"its logs are in {entry.folder}/logs\n",
        stopped.stderr,
    )
    assert gmg("attach").stderr == stopped.stderr
    assert gmg("ls").stdout.splitlines()[-1] == stopped.stderr.removeprefix("gmg-tui: ").rstrip()
    assert not socket_path.exists()
    (row,) = json.loads(gmg("ls", "--json").stdout)
    assert (row["state"], row["workers"][0]["state"], row["workers"][0]["pid"]) == ("lost", "failed", None)
    assert not alive(worker)


def test_processes_that_outlived_engine_and_watchdog_are_named_and_killed_once(stranger: psutil.Process) -> None:
    engine, watchdog, worker = _detached("--name", "far")
    engine.suspend()  # else it starts another watchdog a second after the end of this one
    watchdog.kill()
    engine.kill()
    _until_unlocked(sessions.sessions_folder() / "far")
    assert worker.is_running()
    listed = gmg("ls")
    assert re.fullmatch(rf"far: killing process {worker.pid} \(.*fake_worker\.py.*\)\n", listed.stderr)
    assert not alive(worker)
    assert stranger.is_running()
    again = gmg("ls")
    assert (again.stdout.splitlines()[-1], again.stderr) == (listed.stdout.splitlines()[-1], "")


def test_an_engine_that_ends_during_a_check_is_not_reported_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ScriptedEngine()
    record = sessions.Record(engine.session, engine.briefs)
    sessions.write_record(record)
    descriptor = sessions.lock(engine.folder)

    def ends_meanwhile(folder: Path) -> bool:
        sessions.write_record(sessions.Record(engine.session, engine.briefs, ended=1.0))
        os.close(descriptor)
        return False

    with monkeypatch.context() as patch:
        patch.setattr(session_record, "is_locked", ends_meanwhile)
        entry = sessions.inspect(engine.folder)
    assert entry.state == "ended"


def test_a_session_that_was_continued_meanwhile_is_not_recorded_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ScriptedEngine()
    sessions.write_record(sessions.Record(engine.session, engine.briefs))
    again = sessions.Record(structs.replace(engine.session, id="again"), engine.briefs)

    def continued(session: Session, known: list[Proc]) -> list[Proc]:
        sessions.write_record(again)
        return []

    monkeypatch.setattr(session_record, "processes_of", continued)
    sessions.clear_lost(pytest.fail)
    assert sessions.read_record(engine.folder) == (again, pytest.approx(time.time(), abs=60))


def test_a_copy_of_a_running_session_ends_none_of_its_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ScriptedEngine()
    sessions.write_record(sessions.Record(engine.session, engine.briefs))
    descriptor = sessions.lock(engine.folder)
    copy = shutil.copytree(engine.folder, engine.folder.with_name("copy"))
    entry = sessions.inspect(copy)
    assert entry.state == "lost"
    spec = structs.replace(engine.session.spec, folder=str(copy))  # a stranger's copy may name itself
    data = msgspec.json.encode(sessions.Record(structs.replace(engine.session, spec=spec), engine.briefs))
    (copy / sessions.RECORD).write_bytes(data)
    monkeypatch.setattr(session_record, "processes_of", pytest.fail)
    sessions.clear_lost(pytest.fail)
    os.close(descriptor)


def test_a_record_that_names_another_sessions_folder_changes_its_own_alone() -> None:
    victim, gift = ScriptedEngine(), ScriptedEngine()
    for engine in (victim, gift):
        sessions.write_record(sessions.Record(engine.session, engine.briefs))
    sessions.write_record(sessions.Record(victim.session, victim.briefs, time.time()))
    before = (victim.folder / sessions.RECORD).read_bytes()
    spec = structs.replace(gift.session.spec, folder=f"{gift.folder.parent}/gone/../{victim.folder.name}")
    data = msgspec.json.encode(sessions.Record(structs.replace(gift.session, spec=spec), gift.briefs))
    (gift.folder / sessions.RECORD).write_bytes(data)
    sessions.clear_lost(pytest.fail)
    assert (victim.folder / sessions.RECORD).read_bytes() == before
    assert sessions.inspect(gift.folder).record.lost


@pytest.mark.process
def test_a_process_whose_environment_cannot_be_read_delays_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    engines = ScriptedEngine(), ScriptedEngine()
    marked = [environ(GMG_SESSION_ID=engine.session.id) for engine in engines]
    with (
        subprocess.Popen(["sleep", "600"], env=marked[0]) as hung,
        subprocess.Popen(["sleep", "600"], env=marked[0]) as leftover,
        subprocess.Popen(["sleep", "600"], env=marked[1]) as other,
    ):
        read, tried, released = processes.read_variable, list[int](), threading.Event()

        def read_unless_hung(pid: int, name: str) -> str | None:
            if pid == hung.pid:
                tried.append(pid)
                released.wait()
            return read(pid, name)

        monkeypatch.setattr(marked_processes, "read_variable", read_unless_hung)
        for engine in engines:
            sessions.write_record(sessions.Record(engine.session, engine.briefs))
        try:
            sessions.clear_lost(lambda _: None)
            assert (leftover.wait(LONG_S), other.wait(LONG_S), hung.poll()) == (-signal.SIGKILL, -signal.SIGKILL, None)
            assert tried == [hung.pid]
            assert all(sessions.inspect(engine.folder).record.lost for engine in engines)
        finally:
            released.set()
            for process in (hung, leftover, other):
                process.kill()


@pytest.mark.process
def test_a_process_that_hides_its_environment_once_it_is_killed_counts_as_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = ScriptedEngine().session
    with subprocess.Popen(["sleep", "600"], env=environ(GMG_SESSION_ID=session.id)) as process:
        try:
            (found,) = sessions.processes_of(session)
            monkeypatch.setattr(marked_processes, "read_variable", lambda pid, name: None)
            assert [known.pid for known in sessions.processes_of(session, [found])] == [process.pid]
        finally:
            process.kill()
    assert sessions.processes_of(session, [found]) == []


@pytest.mark.process
@pytest.mark.parametrize("folder", ["/nul\0", f"/{'a/' * 4096}", "/dev/null/session"])
def test_a_lost_session_with_an_unusable_path_stops_no_command(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ScriptedEngine()
    sessions.write_record(sessions.Record(engine.session, engine.briefs))
    spec = structs.replace(engine.session.spec, folder=folder)
    data = msgspec.json.encode(sessions.Record(structs.replace(engine.session, spec=spec), engine.briefs))
    (engine.folder / sessions.RECORD).write_bytes(data)
    monkeypatch.setattr(session_record, "processes_of", pytest.fail)
    sessions.clear_lost(pytest.fail)
    assert "was lost" in gmg("ls").stdout


def test_the_end_of_many_failed_workers_is_recorded_on_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ScriptedEngine(slots=tuple(f"cpu{number}" for number in range(64)))
    sessions.write_record(sessions.Record(engine.session, engine.briefs))

    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(session_record, "write_own", full)
    failed = tuple(structs.replace(brief, state=WorkerState.FAILED, reason="e" * 80) for brief in engine.briefs)
    end = sessions.Record(engine.session, failed, 1.0)
    sessions.write_record(end)
    read = sessions.read_record(engine.folder)
    assert read is not None
    assert read[0] == end


def test_a_lost_session_died_when_its_engine_last_wrote() -> None:
    engine = ScriptedEngine()
    sessions.write_record(sessions.Record(engine.session, engine.briefs))
    died = time.time() + 25.0  # after the record's last write
    with closing(database.open_for_writing(engine.folder / sessions.STORE)) as db:
        database.write(db, [Snapshot(died, 1.0, ())])
    sessions.clear_lost(pytest.fail)
    entry = sessions.inspect(engine.folder)
    assert entry is not None
    assert entry.record.ended == pytest.approx(died, abs=1.0)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE meta SET value = 1",
        "UPDATE meta SET value = x'00'",
        "UPDATE meta SET value = '[]'",
        "UPDATE metrics SET time = 1e300",
    ],
)
def test_a_given_store_stops_no_command(change: str) -> None:
    """Another user may have made it: SQLite does not enforce the types of columns."""
    engine = ScriptedEngine()
    sessions.write_record(sessions.Record(engine.session, engine.briefs))
    with closing(database.open_for_writing(engine.folder / sessions.STORE)) as db:
        row = database.MetricsRow(5.0, "cpu0", None, None, None, None, None, None)
        database.write(db, [Snapshot(5.0, 1.0, ()), row])
        db.execute(change)
        db.commit()
    sessions.clear_lost(pytest.fail)
    entry = sessions.inspect(engine.folder)
    assert entry is not None
    assert entry.record.lost
    assert entry.record.ended == pytest.approx(time.time(), abs=60)


def test_no_job_of_a_lost_sweep_runs() -> None:
    engine = ScriptedEngine()
    queue = Queue(waiting=1, running=2, finished=3, failed=0, stopped=0, version=1)
    lost = sessions.Record(engine.session, engine.briefs, queue=queue).after_loss(1.0)
    assert (lost.queue.waiting, lost.queue.running, lost.queue.jobs) == (3, 0, 6)
    assert {worker.state for worker in lost.workers} == {"failed"}


def test_no_worker_of_a_lost_session_uses_the_cpu() -> None:
    worker = Worker("cpu0", 0, WorkerState.RUNNING, 1.0, cpu_pct=80.0, memory_rss_mib=11.0)
    (lost,) = Snapshot(2.0, 1.0, (worker,)).after_loss(sessions.ENGINE_DIED).workers
    assert (lost.state, lost.cpu_pct, lost.memory_rss_mib) == (WorkerState.FAILED, None, None)


def test_a_process_whose_first_thread_has_ended_is_found_and_one_that_has_ended_is_not() -> None:
    session = structs.replace(ScriptedEngine().session, id=f"{os.getpid():x}e")  # not that of another run of this test
    with leaderless.started(env=environ(GMG_SESSION_ID=session.id)) as process:
        assert [found.pid for found in sessions.processes_of(session)] == [process.pid]
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert sessions.processes_of(session) == []


def test_a_process_that_runs_gmg_tui_itself_is_spared() -> None:
    session = structs.replace(ScriptedEngine().session, id=f"{os.getpid():x}f")  # not that of another run of this test
    program = (
        "import sys, msgspec; from gmg_tui import session as sessions; from gmg_tui.model import Session; "
        "print(sessions.processes_of(msgspec.json.decode(sys.argv[1], type=Session)))"
    )
    shell = [
        "sh",
        "-c",
        f'"{sys.executable}" -c "$1" "$2"; exit 7',
        "sh",
        program,
        msgspec.json.encode(session).decode(),
    ]
    done = subprocess.run(shell, env=environ(GMG_SESSION_ID=session.id), capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("[]\n", 7)
    assert sessions.processes_of(structs.replace(session, id="")) == []  # nothing belongs to a session without an id
