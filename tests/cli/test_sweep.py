"""`sweep` up to the engine's start: what it lists, what it starts an engine with, and how one is resumed."""

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui.cli import launch
from gmg_tui.cli.attach import conclude
from gmg_tui.machine import ownership
from gmg_tui.model import Attempt, RestartMode, RunSpec, Session, StartMode, SweepSpec, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts import interpreter
from gmg_tui.scripts.interpreter import start_paths
from gmg_tui.session import STORE, SUMMARY
from gmg_tui.session.store import reader
from gmg_tui.session.store.writer import StoreWriter
from tests.cli.conftest import Asked, Gmg

SpecOf = Callable[..., RunSpec]
_FILE = """
script = "sim.py"
args = ["--lr", "{lr}", "--out", "{name}"]
env = { MODE = "{mode}" }
gpus = [0, 2]
timeout = "30m"
best = "-loss"
[grid]
lr = [0.1, 0.2]
[defaults]
mode = "fast and loose"
[[experiment]]
name = "wide"
lr = 16
"""


@pytest.fixture(autouse=True)
def file(folder: Path) -> Path:
    path = folder / "sweep.toml"
    path.write_text(_FILE)
    return path


def test_a_dry_run_lists_the_jobs_and_creates_nothing(gmg: Gmg) -> None:
    done = gmg("sweep", "sweep.toml", "--dry-run")
    assert done.stdout.splitlines() == [
        "job  name    command",
        "  1  lr=0.1  python sim.py --lr 0.1 --out lr=0.1",
        "  2  lr=0.2  python sim.py --lr 0.2 --out lr=0.2",
        "  3  wide    python sim.py --lr 16 --out wide",
        "3 jobs",
    ]
    assert (done.stderr, done.returncode) == ("", 0)
    assert not sessions.folders()


def test_a_sweep_without_a_file_takes_the_words_after_the_script(gmg: Gmg) -> None:
    words = ["sweep", "--set", "lr=0.1,0.2", "--set", "on=true", "--dry-run", "--script"]
    done = gmg(*words, "sim.py", "--lr={lr}", "--on", "{on}", "--", "{i}/{n}", "{slot}", "${lr}", "")
    assert done.stdout.splitlines()[1:] == [
        "  1  lr=0.1  python sim.py --lr=0.1 --on true -- 0/2 '{slot}' '${lr}' ''",
        "  2  lr=0.2  python sim.py --lr=0.2 --on true -- 1/2 '{slot}' '${lr}' ''",
        "2 jobs",
    ]
    done = gmg(*words[:-1], "-m", "--script", "pkg.mod", "a {lr}", "{on}")
    assert "python -m pkg.mod 'a 0.1' true" in done.stdout


def test_file_and_options_reach_the_engine(spec_of: SpecOf, asked: Asked, folder: Path) -> None:
    spec = spec_of(*["sweep", "sweep.toml", "--env", "A={lr}", "--per-gpu", "2"])
    assert spec.sweep == SweepSpec(per_gpu=2, timeout_s=1800.0, file=str(folder / "sweep.toml"), best="-loss")
    assert (spec.name, spec.script, spec.args) == ("sweep-1", "sim.py", ("--lr", "{lr}", "--out", "{name}"))
    assert (spec.gpus, spec.cpu, spec.cwd) == ("0,2", None, str(folder))
    assert spec.env == {"MODE": "{mode}", "A": "{lr}"}
    assert asked.fresh == [True]
    assert [(job.number, job.name) for job in asked.jobs[0]] == [(1, "lr=0.1"), (2, "lr=0.2"), (3, "wide")]
    assert asked.jobs[0][2].values == {"lr": 16, "mode": "fast and loose"}


def test_slots_of_the_command_line_replace_those_of_the_file(spec_of: SpecOf) -> None:
    assert spec_of(*["sweep", "sweep.toml", "--gpus", "1,3"]).gpus == "1,3"
    spec = spec_of(*["sweep", "sweep.toml", "--cpu", "2"])
    assert (spec.gpus, spec.cpu) == (None, 2)


def test_a_session_is_named_by_the_option_or_after_the_file(spec_of: SpecOf) -> None:
    assert spec_of("sweep", "sweep.toml", "--name", "own").name == "own"
    assert spec_of("sweep", "sweep.toml").name == "sweep-1"
    assert spec_of("sweep", "--script", "sim.py").name == "sim-1"


@pytest.fixture
def earlier(spec_of: SpecOf, monkeypatch: pytest.MonkeyPatch) -> Callable[..., RunSpec]:
    """A sweep that an engine has started and left; its interpreter is not checked again."""
    monkeypatch.setattr("gmg_tui.scripts.interpreter.check_python", lambda path: path)

    def begin(*words: str, file: Path = Path("sweep.toml"), ended: bool = True) -> RunSpec:
        spec = spec_of("sweep", str(file), "--name", "old", *words)
        session = Session(spec, (), 1, time.time(), "0", "id")
        sessions.write_record(sessions.Record(session, (), time.time() if ended else None))
        return spec

    return begin


def _ends(spec: RunSpec, **states: WorkerState) -> None:
    async def put() -> None:
        path = Path(spec.folder) / STORE
        writer = StoreWriter(path, lambda text: pytest.fail(text) if text else None)
        writer.start()
        for job in reader.load_jobs(path):
            state = states.get(f"job{job.number}", job.state)
            writer.put(structs.replace(job, state=state, last=Attempt(1, exit_code=3), reason="exit code 3", ended=9.0))
        await writer.close()

    asyncio.run(put())


def test_jobs_whose_ends_were_not_recorded_make_the_exit_status_1(
    earlier: Callable[..., RunSpec], capsys: pytest.CaptureFixture[str]
) -> None:
    spec = earlier()
    _ends(spec, job1=WorkerState.FINISHED, job2=WorkerState.FINISHED)
    assert conclude(spec, 0) == 1
    assert capsys.readouterr().err == "1 job left; continue with: gmg-tui sweep --resume old\n"


def test_a_resumed_sweep_keeps_settings_not_given_on_the_command_line(
    earlier: Callable[..., RunSpec], spec_of: SpecOf, asked: Asked, folder: Path
) -> None:
    old = earlier(*["--env", "A=1", "--interval", "2", "--log-max", "2G", "--gpus", "0", "--timeout", "1h"])
    config = Path(os.environ["XDG_CONFIG_HOME"], "gmg-tui", "config.toml")
    config.parent.mkdir(parents=True)
    config.write_text('log-max = "5M"\nstart = "staggered"\nenv = "C=1"\ncpu = 3\n[sweep]\nper-gpu = 5\n')
    assert spec_of("sweep", "--resume", "old") == old
    words = (
        "--env B={lr} --max-restarts 9 --restart failure --start together --per-gpu 3 --timeout none --gpus 4 --best x"
    )
    spec = spec_of("sweep", "--resume", "old", *words.split())
    assert (spec.log_max_bytes, spec.interval_s) == (2 << 30, 2.0)
    assert (spec.max_restarts, spec.restart, spec.start) == (9, RestartMode.FAILURE, StartMode.TOGETHER)
    assert old.sweep is not None
    assert spec.sweep == structs.replace(old.sweep, per_gpu=3, timeout_s=None, best="x")
    assert (spec.gpus, spec.env) == ("4", {"MODE": "{mode}", "A": "1", "B": "{lr}"})
    assert (spec.folder, spec.name, asked.fresh) == (old.folder, "old", [True, False, False])
    cpu = spec_of("sweep", "--resume", "old", "--cpu", "2")
    assert (cpu.cpu, cpu.gpus) == (2, None)


def test_a_resumed_sweep_that_cannot_start_removes_no_new_session_of_its_name(
    earlier: Callable[..., RunSpec], gmg: Gmg, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Path(earlier().folder, STORE)
    jobs = store.read_bytes()

    def replace(python: str) -> str:
        """Do as `rm` and a new sweep of that name in another terminal."""
        shutil.rmtree(store.parent)
        sessions.create("old", "sim.py")
        store.write_bytes(jobs)
        return python

    def refuse(*_: object, **__: object) -> NoReturn:
        raise GmgError("an engine is already running", 1)

    monkeypatch.setattr(interpreter, "check_python", replace)
    monkeypatch.setattr(launch, "_launch", refuse)
    assert gmg("sweep", "--resume", "old").stderr == "gmg-tui: an engine is already running\n"
    assert store.exists()


def test_a_sweep_whose_jobs_have_all_ended_prints_its_results(earlier: Callable[..., RunSpec], gmg: Gmg) -> None:
    old = earlier()
    Path(old.folder, SUMMARY).write_text("{}")
    ended = dict.fromkeys(("job1", "job2", "job3"), WorkerState.FINISHED)
    for states, status, more in (
        (ended, 0, ""),
        ({**ended, "job2": WorkerState.FAILED}, 1, "; --retry-failed runs the failed ones again"),
        ({**ended, "job2": WorkerState.STOPPED}, 130, ""),
    ):
        _ends(old, **states)
        done = gmg("sweep", "--resume", "old", "--best", "-lr", "--summary", f"{status}.json")
        assert (done.returncode, done.stderr) == (status, f"every job of old has ended{more}\n")
        assert Path(f"{status}.json").read_text() == "{}"
        assert "by lr, the smallest first" in done.stdout


@pytest.mark.skipif(os.getuid() != 0, reason="makes another user's link")
def test_a_summary_does_not_replace_what_another_users_link_leads_to(earlier: Callable[..., RunSpec], gmg: Gmg) -> None:
    old = earlier()
    Path(old.folder, SUMMARY).write_text("{}")
    _ends(old, **dict.fromkeys(("job1", "job2", "job3"), WorkerState.FINISHED))
    (ours := Path("ours")).write_text("kept")
    (link := Path("link")).symlink_to(ours)
    os.chown(link, 65534, -1, follow_symlinks=False)
    assert "was not written" in gmg("sweep", "--resume", "old", "--summary", str(link)).stderr
    assert ours.read_text() == "kept"


@pytest.mark.skipif(os.getuid() != 0, reason="makes another user's folder")
def test_a_sweep_runs_no_script_of_a_folder_that_another_user_has_made_since(
    earlier: Callable[..., RunSpec], gmg: Gmg, folder: Path
) -> None:
    """Where all users may write, anyone can recreate a folder that was removed, as in /tmp after a reboot."""
    earlier()
    folder.parent.chmod(0o1777)
    os.chown(folder, 65534, -1)
    done = gmg("sweep", "--resume", "old")
    assert done.stderr.startswith(f"gmg-tui: {folder} belongs to nobody, unlike when the session was started: not run")


@pytest.mark.usefixtures("asked")
def test_a_script_in_a_folder_of_all_users_is_warned_of(gmg: Gmg, folder: Path) -> None:
    text = (
        f"gmg-tui: {folder} can be changed by all users, who can add modules that sim.py imports; use another folder\n"
    )
    assert text not in gmg("sweep", "sweep.toml").stderr
    folder.chmod(0o1777)
    assert text in gmg("sweep", "sweep.toml").stderr
    folder.parent.chmod(0o777)
    note = f"gmg-tui: {folder.parent} can be changed by all users, who can replace sim.py; chmod +t it\n"
    assert note in gmg("sweep", "sweep.toml").stderr
    folder.parent.chmod(0o1777)
    assert note not in gmg("sweep", "sweep.toml").stderr
    (folder / "sim.py").chmod(0o666)
    assert f"{folder}/sim.py can be changed by all users; chmod o-w it\n" in gmg("sweep", "sweep.toml").stderr


@pytest.mark.usefixtures("asked")
@pytest.mark.skipif(os.getuid() != 0, reason="makes another user's file")
def test_a_script_that_is_a_folder_is_checked_like_its_main_file(gmg: Gmg, spec_of: SpecOf, folder: Path) -> None:
    (folder / "app").mkdir()
    (main := folder / "app" / "__main__.py").touch()
    (folder / "app.toml").write_text("script = 'app'\n[grid]\na = [1]\n")
    (folder / "app").chmod(0o1777)
    assert f"{folder}/app can be changed by all users" in gmg("sweep", "app.toml").stderr
    spec = spec_of("sweep", "app.toml")
    os.chown(main, 65534, -1)
    assert f"{main} belongs to nobody" in (ownership.changed_owner(start_paths(spec), spec.path_owners) or "")


@pytest.mark.skipif(os.getuid() != 0, reason="makes another user's folder")
def test_commands_given_on_resuming_are_run_in_the_folder_of_another_user(
    earlier: Callable[..., RunSpec], spec_of: SpecOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier()
    (theirs := tmp_path / "public" / "theirs").mkdir(parents=True)
    theirs.parent.chmod(0o1777)
    os.chown(theirs, 65534, -1)
    monkeypatch.chdir(theirs)
    spec = spec_of("sweep", "--resume", "old", "--notify", "./hook")
    assert (spec.notify_cwd, ownership.changed_owner((spec.notify_cwd,), spec.path_owners)) == (str(theirs), None)


@pytest.mark.skipif(os.getuid() != 0, reason="makes another user's folder")
@pytest.mark.parametrize("options", [(), ("--notify", "bell")])
def test_the_owner_of_one_folder_may_not_replace_another(
    earlier: Callable[..., RunSpec], gmg: Gmg, folder: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    (theirs := folder.with_name("theirs")).mkdir()
    folder.parent.chmod(0o1777)
    os.chown(theirs, 65534, -1)
    monkeypatch.chdir(theirs)
    earlier(file=folder / "sweep.toml")
    os.chown(folder, 65534, -1)
    monkeypatch.chdir(folder)
    done = gmg("sweep", "--resume", "old", *options)
    assert done.stderr.startswith(f"gmg-tui: {folder} belongs to nobody, unlike when the session was started: not run")


def test_an_interrupted_sweep_reports_how_to_continue(
    earlier: Callable[..., RunSpec], capsys: pytest.CaptureFixture[str]
) -> None:
    old = earlier()
    _ends(old, job1=WorkerState.FINISHED, job2=WorkerState.FAILED)
    assert conclude(old, 130) == 130
    assert capsys.readouterr().err == "1 job left; continue with: gmg-tui sweep --resume old\n"
    (Path(old.folder) / STORE).write_bytes(b"no database at all, though it is as long as one" * 99)
    assert (conclude(old, 0), conclude(old, 130)) == (1, 130)


def test_reasons_why_a_sweep_cannot_be_resumed(
    earlier: Callable[..., RunSpec], gmg: Gmg, folder: Path, tmp_path: Path
) -> None:
    def error(status: int) -> str:
        done = gmg("sweep", "--resume", "old")
        assert (done.returncode, done.stderr.count("\n")) == (status, 1)
        return done.stderr.removeprefix("gmg-tui: ").rstrip()

    assert error(1) == "there is no session old; gmg-tui ls lists them"
    old = earlier()
    lock = sessions.lock(Path(old.folder))
    assert error(1) == "old is running; open it with: gmg-tui attach old"
    os.close(lock)
    (folder / "sim.py").rename(tmp_path / "gone.py")
    assert "no script" in error(2)
    folder.rename(tmp_path / "moved")
    os.chdir(tmp_path)
    assert "which no longer exists; recreate it" in error(1)
    (Path(old.folder) / STORE).unlink()
    session = Session(structs.replace(old, sweep=None), (), 1, 0.0, "0")
    sessions.write_record(sessions.Record(session, (), 1.0))
    assert error(2) == "old is not a session of gmg-tui sweep; start it again with: gmg-tui sim.py"


def test_a_lost_sweep_is_cleaned_up_and_resumed(earlier: Callable[..., RunSpec], spec_of: SpecOf) -> None:
    old = earlier(ended=False)
    assert spec_of("sweep", "--resume", "old").sweep == old.sweep
    entry = sessions.inspect(Path(old.folder))
    assert entry.record.lost


@pytest.mark.process
def test_the_end_of_a_killed_engine_is_awaited(earlier: Callable[..., RunSpec]) -> None:
    old, texts = earlier(ended=False), list[str]()
    lock = sessions.lock(Path(old.folder))
    assert sessions.await_watchdog("old", texts.append).state == "running", "its engine lives"
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    sessions.write_record(sessions.Record(Session(old, (), ended.pid, time.time(), "0", "id")))  # a zombie
    assert sessions.await_watchdog("old", lambda _: os.close(lock)).state == "lost"
    ended.wait()
    sessions.write_record(sessions.Record(Session(structs.replace(old, host="n7"), (), 1, time.time(), "0", "id")))

    def goes(text: str) -> None:
        texts.append(text)
        os.utime(Path(old.folder) / sessions.RECORD, (1.0, 1.0))

    assert sessions.await_watchdog("old", goes).state == "lost"
    assert texts == ["waiting for the end of old on n7"]


def test_a_sweep_whose_machine_is_gone_is_resumed_here(earlier: Callable[..., RunSpec], spec_of: SpecOf) -> None:
    old = earlier(ended=False)
    far = Session(structs.replace(old, host="n7"), (), 1, time.time(), "0", "id")
    sessions.write_record(sessions.Record(far))
    assert sessions.find("old", running=False).state == "running"
    os.utime(Path(old.folder) / sessions.RECORD, (1.0, 1.0))
    assert spec_of("sweep", "--resume", "old").host == os.uname().nodename
