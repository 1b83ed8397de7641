"""Sessions whose engine was killed, as `ls`, `attach` and `stop` find them."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest
from msgspec import structs

from gmg_tui import orphans, recovery
from gmg_tui import session as sessions
from tests.cli.scripted import ROOT, ScriptedEngine, environ
from tests.harm.namesakes import alive

_COMMAND = (sys.executable, "-m", "gmg_tui")
_WORKER = str(ROOT / "tests" / "fake_worker.py")


def _gmg(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*_COMMAND, *words], capture_output=True, text=True, env=environ())


def _detached(*words: str) -> list[psutil.Process]:
    """A detached session whose worker is silent for ever: its engine, the engine's watchdog, and the worker."""
    assert _gmg("--detach", "--cpu", "1", *words, _WORKER, "--hang", "compiling").returncode == 0
    while True:
        (listed,) = json.loads(_gmg("ls", "--json").stdout)
        (worker,) = listed["workers"]
        if worker["state"] == "compiling":
            break
    engine = psutil.Process(listed["engine_pid"])
    (watchdog,) = (child for child in engine.children() if "watchdog/process.py" in " ".join(child.cmdline()))
    return [engine, watchdog, psutil.Process(worker["pid"])]


def _until_let_go(folder: Path) -> sessions.Found:
    """The session once nobody holds its lock."""
    while (found := sessions.inspect(folder)) is None or found.state == "running":
        time.sleep(0.05)
    return found


@pytest.fixture
def stranger() -> Iterator[psutil.Process]:
    """A process of a session of the same name under another state folder."""
    own = environ(GMG_SESSION="far", XDG_STATE_HOME="/elsewhere")
    with subprocess.Popen(["sleep", "600"], env=own) as process:
        yield psutil.Process(process.pid)
        process.kill()


def test_what_the_watchdog_ended_is_told_by_every_command() -> None:
    engine, _, worker = _detached("--name", "far")
    engine.kill()
    found = _until_let_go(sessions.sessions_folder() / "far")
    socket_path = Path(found.record.session.spec.socket)
    assert socket_path.exists()
    stopped = _gmg("stop", "far")
    assert stopped.returncode == 1
    assert re.fullmatch(
        rf"gmg-tui: far was lost: its engine died at about [-\d]+ [:\d]+; 1 process was killed; "
        rf"its logs are in {found.folder}/logs\n",
        stopped.stderr,
    )
    assert _gmg("attach").stderr == f"{stopped.stderr.rstrip()}; to look back on far: gmg-tui attach far\n"
    listed = _gmg("ls")
    assert listed.stdout.splitlines()[-1] == stopped.stderr.removeprefix("gmg-tui: ").rstrip()
    assert not socket_path.exists()
    (row,) = json.loads(_gmg("ls", "--json").stdout)
    assert (row["state"], row["workers"][0]["state"], row["workers"][0]["pid"]) == ("lost", "failed", None)
    assert not alive(worker)


def test_what_outlived_engine_and_watchdog_is_named_and_killed_once(stranger: psutil.Process) -> None:
    engine, watchdog, worker = _detached("--name", "far")
    engine.suspend()  # else it starts another watchdog a second after the end of this one
    watchdog.kill()
    engine.kill()
    _until_let_go(sessions.sessions_folder() / "far")
    assert worker.is_running()
    session = sessions.find("far", running=False).record.session
    assert [remain.pid for remain in orphans.find(session)] == [worker.pid]
    listed = _gmg("ls")
    assert re.fullmatch(rf"far: ending process {worker.pid} \(.*fake_worker\.py.*\)\n", listed.stderr)
    assert "1 process was killed" in listed.stdout
    assert not alive(worker)
    assert stranger.is_running()
    again = _gmg("ls")
    assert (again.stdout.splitlines()[-1], again.stderr) == (listed.stdout.splitlines()[-1], "")


@pytest.mark.parametrize(("last_s", "told"), [(30.0, "2 processes were killed"), (-30.0, "it left no process")])
async def test_of_a_resumed_session_the_last_engines_watchdog_is_told(last_s: float, told: str) -> None:
    engine = ScriptedEngine()
    lines = [(-3600.0, "101, 102, 103"), (last_s, "201, 202")]
    with (engine.folder / "engine.log").open("w") as log:
        for after_s, pids in lines:
            moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(engine.session.started + after_s))
            log.write(f"{moment} WATCHDOG: the engine is gone; its processes were ended: {pids}\n")
    async with engine:
        await engine.leave(ended=False)
    assert told in _gmg("ls").stdout
    found = sessions.inspect(engine.folder)
    assert found is not None
    assert found.record.loss is not None
    assert found.record.loss.pids == ((201, 202) if last_s > 0 else ())


async def test_stale_sockets_go_and_all_others_stay() -> None:
    async with ScriptedEngine() as engine:
        folder = engine.socket.parent
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(folder / "other-state-folder.sock"))
        listening.listen()
        for name in ("stale", "young"):
            with socket.socket(socket.AF_UNIX) as gone:
                gone.bind(str(folder / f"{name}.sock"))
        for path in set(folder.iterdir()) - {folder / "young.sock"}:
            os.utime(path, (1.0, 1.0))
        said: list[str] = []
        recovery.clear(said.append)
        listening.close()
        left = {path.stem for path in folder.iterdir()}
    assert (left, said) == ({"sim-1", "other-state-folder", "young"}, [])


def test_a_runtime_folder_of_another_user_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "closed" / "deeper"
    folder.mkdir(parents=True)
    for closed in (folder, folder.parent):
        closed.chmod(0)
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
        me = os.geteuid()
        try:
            if me == 0:
                os.seteuid(65534)  # root may look everywhere
            recovery._remove_stale_sockets(set())
        finally:
            os.seteuid(me)
            closed.chmod(0o700)


def test_an_engine_that_ends_while_it_is_looked_at_is_not_taken_for_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ScriptedEngine()
    record = sessions.Record(engine.session, engine.briefs)
    sessions.write_record(record)
    held = sessions.lock(engine.folder)

    def ends_meanwhile(folder: Path) -> bool:
        sessions.write_record(sessions.Record(engine.session, engine.briefs, ended=1.0))
        os.close(held)
        return False

    with monkeypatch.context() as patch:
        patch.setattr(sessions, "is_locked", ends_meanwhile)
        found = sessions.inspect(engine.folder)
    assert found is not None
    assert found.state == "ended"


@pytest.mark.parametrize("known", [False, True], ids=["by its name", "by its id"])
def test_a_process_that_runs_gmg_tui_itself_is_spared(known: bool) -> None:
    session_id = f"{os.getpid():x}f" if known else ""  # not that of another run of this test
    mark = f"GMG_SESSION_ID={session_id}" if known else "GMG_SESSION=sim-1"
    session = msgspec.json.encode(structs.replace(ScriptedEngine().session, id=session_id)).decode()
    program = (
        "import sys, msgspec; from gmg_tui import orphans; from gmg_tui.model import Session; "
        "print(orphans.end(msgspec.json.decode(sys.argv[1], type=Session), print))"
    )
    shell = ["sh", "-c", f'"{sys.executable}" -c "$1" "$2"; exit 7', "sh", program, session]
    done = subprocess.run(shell, env=environ(**dict([mark.split("=")])), capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("([], [])\n", 7)


def test_the_processes_of_a_record_without_an_id_are_known_by_name_and_state_folder() -> None:
    session = ScriptedEngine().session
    with (
        subprocess.Popen(["sleep", "600"], env=environ(GMG_SESSION="sim-1")) as own,
        subprocess.Popen(["sleep", "600"], env=environ(GMG_SESSION="sim-1", GMG_SESSION_ID="1f")) as other,
    ):
        found = [remain.pid for remain in orphans.find(session)]
        own.kill()
        other.kill()
    assert found == [own.pid]
