"""`rm` and `prune` as real processes, and what `ls` says of sizes and of folders in which no session began."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pexpect
import pytest
from msgspec import structs

from gmg_tui import clearing, new_session
from gmg_tui import session as sessions
from gmg_tui.errors import GmgError
from tests.cli.scripted import ScriptedEngine, environ

_COMMAND = (sys.executable, "-m", "gmg_tui")
_DAY_S = 86400.0


def _gmg(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*_COMMAND, *words], capture_output=True, text=True, env=environ(), stdin=subprocess.DEVNULL)


def _ended(name: str, days: float = 1.0, **place: str) -> Path:
    """The folder of a session that ended so many days ago."""
    moment = time.time() - days * _DAY_S
    made = ScriptedEngine(script=f"{name}.py")
    folder = made.folder.rename(made.folder.with_name(name))
    spec = structs.replace(made.session.spec, name=name, folder=str(folder), host=place.pop("host", ""))
    session = structs.replace(made.session, spec=spec, started=moment - 60, **place)
    sessions.write_record(sessions.Record(session, made.briefs, moment))
    (folder / sessions.ENGINE_LOG).touch()
    return folder


def _unbegun(name: str) -> Path:
    """The folder of a session whose launcher was killed an hour ago, before the engine had its order."""
    _, folder = new_session.create(name, "sim.py")
    os.utime(folder, (time.time() - 3600,) * 2)
    return folder


def _left() -> list[str]:
    return sorted(path.name for path in sessions.sessions_folder().iterdir())


def test_what_goes_is_named_with_its_size_and_with_what_its_jobs_wrote() -> None:
    folder = _ended("exp-1")
    _ended("other")
    for name, size in (("x=1", 3 << 20), ("x=2", 1 << 20), ("x=3", 4096)):
        (folder / "jobs" / name).mkdir(parents=True)
        (folder / "jobs" / name / "model.pt").write_bytes(os.urandom(size))
    (folder / "notes.txt").write_bytes(b"x")
    done = _gmg("rm", "exp-1", "--yes")
    header, line, written, last = done.stdout.splitlines()
    assert header.split() == ["name", "state", "ended", "size"]
    assert line.split() == ["exp-1", "ended", "1d", "00h", "ago", "4", "MiB"]
    assert written == ("  with 4 MiB that its scripts wrote: jobs/x=1 3 MiB, jobs/x=2 1 MiB, jobs/x=3 4 KiB, 1 more")
    assert (last, done.stderr, done.returncode) == ("1 session (4 MiB) removed", "", 0)
    assert _left() == ["other"]


def test_the_results_files_are_the_sessions_own() -> None:
    folder = _ended("sweep-1")
    for name in ("detailed_results.json", "summary_results.csv", "combined_results.csv", "tune.json"):
        (folder / name).write_bytes(os.urandom(8192))
    assert "its scripts wrote" not in _gmg("rm", "sweep-1", "--yes").stdout


def test_nothing_goes_without_a_terminal_to_ask_on_or_yes() -> None:
    _ended("sim-1")
    for words in (("rm", "sim-1"), ("prune", "--keep", "0")):
        done = _gmg(*words)
        assert "sim-1  ended" in done.stdout
        assert done.stderr == "gmg-tui: there is no terminal to ask on: add --yes to remove them\n"
        assert done.returncode == 2
    assert _left() == ["sim-1"]


@pytest.mark.parametrize(("answer", "left", "status"), [("n", ["sim-1"], 1), ("", ["sim-1"], 1), ("y", [], 0)])
def test_a_terminal_is_asked(answer: str, left: list[str], status: int) -> None:
    _ended("sim-1")
    terminal = pexpect.spawn(sys.executable, [*_COMMAND[1:], "rm", "sim-1"], env=environ(), encoding="utf-8")
    terminal.expect_exact("remove 1 session? [y/N]: ")
    terminal.sendline(answer)
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert (_left(), terminal.exitstatus) == (left, status)


async def test_what_cannot_be_removed_is_said_and_the_others_go() -> None:
    _ended("sim-7")
    _ended("far", host="node7", boot_id="another")
    away = _ended("away")
    read = sessions.read_record(away)
    assert read is not None
    there = structs.replace(read[0].session, spec=structs.replace(read[0].session.spec, host="node7"))
    sessions.write_record(structs.replace(read[0], session=there, ended=None))
    async with ScriptedEngine():
        done = _gmg("rm", "sim-1", "nobody", "../sessions", "away", "sim-7", "far", "--yes")
        assert _left() == ["away", "sim-1"]
    said = done.stderr.splitlines()
    assert said[:3] == [
        "gmg-tui: sim-1 is running; end it first: gmg-tui stop sim-1",
        "gmg-tui: no session nobody; gmg-tui ls lists them",
        "gmg-tui: no session ../sessions; gmg-tui ls lists them",
    ]
    assert said[3].startswith("gmg-tui: away runs on node7 (")
    assert said[3].endswith(": ssh node7 gmg-tui stop away")
    assert (len(said), done.returncode) == (4, 1)


async def test_a_lost_session_is_cleared_first_and_then_removed() -> None:
    engine = ScriptedEngine()
    async with engine:
        await engine.leave(ended=False)
    listed = _gmg("rm", "sim-1", "--yes")
    assert "sim-1  lost " in listed.stdout
    assert (_left(), engine.socket.exists()) == ([], False)


def test_one_whose_processes_the_kernel_does_not_end_stays() -> None:
    folder = _ended("sim-1")
    read = sessions.read_record(folder)
    assert read is not None
    sessions.write_record(structs.replace(read[0], ended=None))
    with pytest.raises(GmgError, match=r"sim-1 was lost and some of its processes are still running$"):
        clearing.removable("sim-1")


def test_what_another_command_has_removed_meanwhile_is_said_to_be_gone() -> None:
    folder = _ended("sim-1")
    one = clearing.removable("sim-1")
    clearing.remove(one, lambda: None)
    with pytest.raises(GmgError, match=r"^sim-1 is gone: another gmg-tui has removed it$"):
        clearing.remove(one, lambda: None)
    with pytest.raises(GmgError, match="was removed meanwhile"):
        sessions.lock(folder)


def test_an_engine_that_begins_meanwhile_keeps_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _ended("sim-1")
    one = clearing.removable("sim-1")
    monkeypatch.setattr(sessions, "_LOCK_TIMEOUT_S", 0.05)
    held = sessions.lock(folder)
    with pytest.raises(GmgError, match="sim-1 is running, or being removed"):
        clearing.remove(one, lambda: None)
    read = sessions.read_record(folder)
    assert read is not None
    sessions.write_record(structs.replace(read[0], ended=time.time()))
    os.close(held)
    with pytest.raises(GmgError, match="sim-1 has begun again meanwhile"):
        clearing.remove(one, lambda: None)
    assert _left() == ["sim-1"]


def test_an_engine_that_comes_too_late_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _ended("sim-1")
    # It has opened the file that is the lock, and waits for it while the folder is removed.
    opened = os.open(folder / sessions.ENGINE_LOG, os.O_RDWR)
    clearing.remove(clearing.removable("sim-1"), lambda: None)
    monkeypatch.setattr(os, "open", lambda *_: opened)
    with pytest.raises(GmgError, match="was removed meanwhile"):
        sessions.lock(folder)


def test_the_lock_is_held_while_everything_goes() -> None:
    folder = _ended("sim-1")
    looking = os.open(folder / sessions.ENGINE_LOG, os.O_RDWR)
    seen = []

    def look() -> None:
        try:
            fcntl.flock(looking, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            seen.append(_left())

    clearing.remove(clearing.removable("sim-1"), look)
    fcntl.flock(looking, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(looking)
    assert seen
    assert all(name.startswith(".removed-sim-1-") for (name,) in seen)  # its name was free all the time


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
    done = _gmg("rm", "sim-1", "moved", "log", "--yes")
    assert done.returncode == 1
    assert f"moved is a link to {moved}; remove both yourself" in done.stderr
    assert "cannot remove " in done.stderr
    assert _left() == ["log", "moved"]
    assert (outside / "kept").read_text() == "x"
    assert (moved / sessions.RECORD).exists()


def test_an_interrupted_removal_is_not_listed_and_finished_by_the_next_one() -> None:
    hidden = _ended("sim-1").rename(sessions.sessions_folder() / ".removed-sim-1-0123")
    (hidden / "jobs" / "x=1").mkdir(parents=True)
    assert _gmg("ls").stdout == "no sessions yet; start one with: gmg-tui SCRIPT\n"
    held = sessions.lock(hidden)
    assert _gmg("prune", "--keep", "1").stdout == "nothing to remove\n"
    assert _left() == [hidden.name]  # somebody else is at it
    os.close(held)
    assert _gmg("prune", "--keep", "1", "--dry-run").stdout == "nothing to remove\n"
    assert _left() == [hidden.name]
    _gmg("prune", "--keep", "1")
    assert _left() == []


def test_prune_removes_what_is_older_and_not_among_the_last() -> None:
    for number, days in enumerate((0.1, 10.0, 40.0, 50.0)):
        _ended(f"s{number}", days)
    before = _left()
    for words, goes in (
        (("--older", "30d"), ["s2", "s3"]),
        (("--older", "30d", "--keep", "3"), ["s3"]),
        (("--keep", "1"), ["s1", "s2", "s3"]),
        (("--older", "2h", "--keep", "0"), ["s0", "s1", "s2", "s3"]),
    ):
        done = _gmg("prune", *words, "--dry-run")
        header, *rows, last = done.stdout.splitlines()
        assert (header.split()[0], [row.split()[0] for row in rows], done.returncode) == ("name", goes, 0)
        assert last.startswith(f"{len(goes)} session")
        assert last.endswith("would be removed")
        assert _left() == before
    assert _gmg("prune", "--older", "30d", "--keep", "3", "-y").stdout.endswith("removed\n")
    assert _left() == ["s0", "s1", "s2"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "prune: give --older AGE, --keep N, or both, as in: gmg-tui prune --older 30d --keep 20"),
        (("--older", "soon"), "--older soon: give an age, as in 30d, 12h, 1d12h, 45m"),
        (("--older", "none"), "--older none: give an age, as in 30d, 12h, 1d12h, 45m"),
        (("--keep", "-1"), "--keep -1: at least 0"),
    ],
)
def test_prune_says_what_it_needs(words: tuple[str, ...], said: str) -> None:
    done = _gmg("prune", *words)
    assert (done.stdout, done.stderr, done.returncode) == ("", f"gmg-tui: {said}\n", 2)


def test_a_folder_in_which_no_session_began_is_named_and_pruned() -> None:
    _unbegun("killed")
    (_unbegun("damaged") / sessions.RECORD).write_text("{")
    os.utime(sessions.sessions_folder() / "damaged", (1.0, 1.0))
    os.mkfifo(_unbegun("pipe") / sessions.RECORD)
    os.utime(sessions.sessions_folder() / "pipe", (1.0, 1.0))
    new_session.create("young", "sim.py")
    listed = _gmg("ls")
    assert sorted(listed.stdout.splitlines()) == [
        "damaged is not listed, because its session.json cannot be read; remove it with: gmg-tui rm damaged",
        "killed is not listed, because it never began; remove it with: gmg-tui rm killed",
        "pipe is not listed, because its session.json cannot be read; remove it with: gmg-tui rm pipe",
    ]
    assert _gmg("ls", "--json").stdout == "[]\n"
    pruned = _gmg("prune", "--keep", "5", "--yes")
    assert "killed  unbegun" in pruned.stdout
    assert _left() == ["damaged", "pipe", "young"]
    removed = _gmg("rm", "damaged", "pipe", "young", "-y")
    assert removed.stderr == "gmg-tui: young is about to begin, or has failed to; try again in a minute\n"
    assert _left() == ["young"]


def test_ls_says_what_a_session_takes() -> None:
    folder = _ended("sim-1")
    (folder / "logs" / "cpu0.log").write_bytes(os.urandom(3 << 20))
    (row,) = json.loads(_gmg("ls", "--json").stdout)
    taken = sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
    assert row["bytes"] == taken >= 3 << 20
    header, line = _gmg("ls").stdout.splitlines()
    assert header.endswith("size")
    assert line.endswith("3 MiB")


def test_ls_cuts_the_scripts_where_the_terminal_is_narrow() -> None:
    folder = _ended("sim-1")
    read = sessions.read_record(folder)
    assert read is not None
    spec = structs.replace(read[0].session.spec, script=f"experiments/{'long_' * 20}name.py")
    sessions.write_record(structs.replace(read[0], session=structs.replace(read[0].session, spec=spec)))
    seen = []
    for columns in (160, 80, 40):
        words, size = " ".join([*_COMMAND, "ls"]), (24, columns)
        shown = pexpect.run(words, env=environ(COLUMNS=str(columns)), encoding="utf-8", dimensions=size)
        line = shown.splitlines()[-1]
        script = line.split()[2]
        assert script.endswith("name.py")
        assert len(line) <= columns or columns == 40
        seen.append(len(script))
    widest, fitting, least = seen
    assert (widest, least) == (40, 8)
    assert 8 < fitting < 40
