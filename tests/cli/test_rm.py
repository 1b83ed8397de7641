"""`rm`, and what `ls` reports of folders in which no session began."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest
from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui.cli import rm
from gmg_tui.model.errors import GmgError
from gmg_tui.session import paths
from tests.cli.scripted import COMMAND, ScriptedEngine, environ, in_process
from tests.patience import LONG_S

_DAY_S = 86400.0


def _ended(name: str, days: float = 1.0, host: str = "") -> Path:
    moment = time.time() - days * _DAY_S
    made = ScriptedEngine(script=f"{name}.py")
    folder = made.folder.rename(made.folder.with_name(name))
    spec = structs.replace(made.session.spec, name=name, folder=str(folder), host=host)
    session = structs.replace(made.session, spec=spec, started=moment - 60)
    sessions.write_record(sessions.Record(session, made.briefs, moment))
    (folder / sessions.ENGINE_LOG).touch()
    return folder


def _change(folder: Path, ended: float | None, **changes: str) -> None:
    read = sessions.read_record(folder)
    assert read is not None
    session = structs.replace(read[0].session, **changes)
    sessions.write_record(structs.replace(read[0], session=session, ended=ended))


def _left() -> list[str]:
    return sorted(path.name for path in sessions.sessions_folder().iterdir())


def test_nothing_is_removed_without_a_terminal_or_yes() -> None:
    _ended("sim-1")
    for words in (("rm", "sim-1"), ("rm", "--keep", "0")):
        done = in_process(*words)
        assert "sim-1  ended" in done.stdout
        assert done.stderr == "gmg-tui: without a terminal to ask on, nothing was removed; add --yes\n"
        assert done.returncode == 2
    assert _left() == ["sim-1"]


def test_a_record_without_bounds_costs_no_other_session() -> None:
    """A script can make it: read at once, it would take all memory of each command."""
    for name in ("sim-1", "sim-2"):
        folder = _ended(name)
    os.truncate(folder / sessions.RECORD, 1 << 43)
    os.utime(folder, (0, 0))
    assert [entry.name for entry in sessions.list_sessions()] == ["sim-1"]
    assert in_process("rm", "--yes", "sim-2").returncode == 0
    assert _left() == ["sim-1"]


@pytest.mark.parametrize(("answer", "left", "status"), [("n", ["sim-1"], 1), ("", ["sim-1"], 1), ("y", [], 0)])
def test_a_terminal_asks_for_confirmation(answer: str, left: list[str], status: int) -> None:
    _ended("sim-1")
    terminal = pexpect.spawn(
        sys.executable, [*COMMAND[1:], "rm", "sim-1"], env=environ(), encoding="utf-8", timeout=LONG_S
    )
    terminal.expect_exact("remove 1 session? [y/N]: ")
    terminal.sendline(answer)
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert (_left(), terminal.exitstatus) == (left, status)


async def test_a_session_that_cannot_be_removed_is_reported_and_others_are_removed() -> None:
    _ended("sim-7")
    _ended("far", host="node7")
    _change(_ended("away", host="node7"), None)
    async with ScriptedEngine():
        done = in_process("rm", "sim-1", "nobody", "../sessions", "away", "sim-7", "far", "--yes")
        assert _left() == ["away", "sim-1"]
    printed = done.stderr.splitlines()
    assert printed[:3] == [
        "gmg-tui: sim-1 is running; end it first: gmg-tui stop sim-1",
        "gmg-tui: there is no session nobody; gmg-tui ls lists them",
        "gmg-tui: there is no session ../sessions; gmg-tui ls lists them",
    ]
    assert printed[3] == "gmg-tui: away is running on node7: use gmg-tui there"
    assert (len(printed), done.returncode) == (4, 1)


async def test_a_lost_session_is_cleared_first_and_then_removed() -> None:
    engine = ScriptedEngine()
    async with engine:
        await engine.leave(ended=False)
    listed = in_process("rm", "sim-1", "--yes")
    assert "sim-1  lost " in listed.stdout
    assert (_left(), engine.socket.exists()) == ([], False)


def test_a_session_with_unkillable_processes_is_kept() -> None:
    _change(_ended("sim-1"), None, id="test-removal")
    with subprocess.Popen(["sleep", "60"], env={**os.environ, "GMG_SESSION_ID": "test-removal"}) as left:
        try:
            with pytest.raises(GmgError, match=r"sim-1 was lost, and some of its processes are still running"):
                rm.find_removable("sim-1")
        finally:
            left.kill()
    rm.remove(rm.find_removable("sim-1").folder)  # its record lacks an end, for which a full disk had no room
    assert _left() == []


def test_a_session_removed_by_another_command_is_reported_as_gone() -> None:
    folder = _ended("sim-1")
    rm.remove(folder)
    with pytest.raises(GmgError, match=r"sim-1 has been removed$"):
        rm.remove(folder)


def test_the_folder_of_an_engine_that_starts_meanwhile_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _ended("sim-1")
    monkeypatch.setattr(paths, "_LOCK_TIMEOUT_S", 0.05)
    descriptor = sessions.lock(folder)
    with pytest.raises(GmgError, match=r"an engine is already running in .*/sim-1$"):
        rm.remove(folder)
    os.close(descriptor)
    assert _left() == ["sim-1"]


def test_no_link_is_followed_out_of_the_folder(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    folder = _ended("sim-1")
    (folder / "jobs").symlink_to(outside)
    (folder / "root").symlink_to("/")
    moved = _ended("moved").rename(tmp_path / "moved")
    (sessions.sessions_folder() / "moved").symlink_to(moved)
    log = _ended("log") / sessions.ENGINE_LOG
    log.unlink()
    log.symlink_to(outside / "kept")
    done = in_process("rm", "sim-1", "moved", "log", "--yes")
    assert done.returncode == 1
    assert "moved is a link or file, not a folder" in done.stderr
    assert _left() == ["moved"]
    assert (outside / "kept").read_text() == "x"
    assert (moved / sessions.RECORD).exists()


@pytest.mark.parametrize("mode", [0o555, 0], ids=oct)
def test_folders_that_a_script_has_protected_are_listed_and_go_too(mode: int) -> None:
    inner = _ended("sim-1") / "jobs" / "x=1" / "checkpoints"
    inner.mkdir(parents=True)
    (inner / "model.pt").touch()
    for folder in (inner, inner.parent):
        folder.chmod(mode)
    for words in (("ls",), ("rm", "sim-1", "--yes")):
        command = [*COMMAND, *words]
        if os.getuid() == 0:  # whom no mode stops
            command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all", *command]
        done = subprocess.run(command, capture_output=True, text=True, env=environ())
        assert (done.stderr, done.returncode) == ("", 0)
        assert "sim-1" in done.stdout
    assert _left() == []


def test_rm_removes_sessions_by_age_and_number() -> None:
    for number, days in enumerate((0.1, 10.0, 40.0, 50.0)):
        _ended(f"s{number}", days)
    before = _left()
    for words, goes in (
        (("--older", "30d"), ["s2", "s3"]),
        (("--older", "30d", "--keep", "3"), ["s3"]),
        (("--keep", "1"), ["s1", "s2", "s3"]),
        (("--older", "2h", "--keep", "0"), ["s0", "s1", "s2", "s3"]),
    ):
        done = in_process("rm", *words)
        header, *rows = done.stdout.splitlines()
        assert (header.split()[0], [row.split()[0] for row in rows], done.returncode) == ("name", goes, 2)
        assert _left() == before
    removed = in_process("rm", "--older", "30d", "--keep", "3", "-y").stdout
    assert re.fullmatch(r"name .*\ns3 .*\n1 session removed\n", removed)
    assert _left() == ["s0", "s1", "s2"]


def test_a_folder_without_a_record_is_named_and_removed_by_its_name() -> None:
    for name in ("damaged", "killed", "pipe", "young"):
        folder = sessions.create(name, "sim.py")
        if name == "damaged":
            (folder / sessions.RECORD).write_text("{")
        if name == "pipe":
            os.mkfifo(folder / sessions.RECORD)
        if name != "young":
            os.utime(folder, (1.0, 1.0))
    assert sorted(in_process("ls").stdout.splitlines()) == [
        f"{name} has no readable record; remove it with: gmg-tui rm {name}" for name in ("damaged", "killed", "pipe")
    ]
    assert in_process("ls", "--json").stdout == "[]\n"
    removed = in_process("rm", *_left(), "-y")
    assert removed.stderr == "gmg-tui: young is starting, or has failed to start; try again in a minute\n"
    assert _left() == ["young"]


def test_sessions_with_deep_folders_and_without_rights_are_removed() -> None:
    inner = os.open(_ended("deep"), os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=inner)
        outer, inner = inner, os.open("d", os.O_RDONLY, dir_fd=inner)
        os.close(outer)
    os.close(inner)
    _ended("closed").chmod(0)
    done = in_process("rm", "deep", "closed", "--yes")
    assert (done.returncode, done.stderr, _left()) == (0, "", [])


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda log: log.symlink_to("/dev/null")])
def test_a_session_whose_script_replaced_the_engines_log_is_removed(make: Callable[[Path], None]) -> None:
    log = _ended("odd") / sessions.ENGINE_LOG
    log.unlink(missing_ok=True)
    make(log)
    done = in_process("rm", "odd", "--yes")
    assert (done.returncode, done.stderr, _left()) == (0, "", [])


def test_a_session_that_has_changed_while_the_question_was_open_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    folder = _ended("a")
    chosen = [rm.find_removable("a")]
    _change(folder, time.time())  # as another run of the same name
    assert rm._remove(chosen, yes=True) == 1
    assert folder.exists()
    assert "a has changed meanwhile; it was not removed" in capsys.readouterr().err


def test_a_session_of_the_future_is_not_the_newest_for_ever() -> None:
    given, own = _ended("given"), _ended("own", 0.0)
    _change(given, time.time() + 365 * _DAY_S)
    os.utime(given / sessions.RECORD, (time.time() - _DAY_S,) * 2)
    assert in_process("rm", "--keep", "1", "--yes").returncode == 0
    assert (given.exists(), own.exists()) == (False, True)
