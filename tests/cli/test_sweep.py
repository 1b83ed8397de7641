"""`sweep` up to the engine's start: what it lists, refuses, and asks an engine for."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import NoReturn

import pytest
from msgspec import structs

from gmg_tui import cli
from gmg_tui import session as sessions
from gmg_tui.commands import prestart, run, sweep
from gmg_tui.errors import GmgError
from gmg_tui.model import Batch, Job, JobRecord, RestartMode, RunSpec, Session, StartMode, SweepSpec, WorkerState
from gmg_tui.session import STORE
from gmg_tui.store import reader
from gmg_tui.store.writer import StoreWriter

_FILE = """
script = "sim.py"
args = ["--lr", "{lr}", "--out", "{out_dir}"]
env = { MODE = "{mode}" }
gpus = [0, 2]
timeout = "30m"
[grid]
lr = [0.1, 0.2]
[defaults]
mode = "fast and loose"
[[experiment]]
name = "wide"
lr = 16
[preset.quick]
gpus = 1
per_gpu = 2
[preset.full]
best = "-loss"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a script and an experiments' file."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "sim.py").write_text("print('fine')")
    (folder / "sweep.toml").write_text(_FILE)
    monkeypatch.chdir(folder)
    return folder


class Asked:
    """What an engine would have been asked for."""

    def __init__(self) -> None:
        self.specs: list[RunSpec] = []
        self.fresh: list[bool] = []
        self.jobs: list[list[JobRecord]] = []

    def launch(self, spec: RunSpec, *, fresh: bool, **_: object) -> NoReturn:
        self.specs.append(spec)
        self.fresh.append(fresh)
        self.jobs.append(reader.load_jobs(Path(spec.folder) / STORE))
        raise GmgError("far enough")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    asked = Asked()
    monkeypatch.setattr(run, "launch", asked.launch)
    return asked


def _sweep(*words: str) -> int:
    with pytest.raises(SystemExit) as status:
        cli.main(["sweep", *words])
    assert isinstance(status.value.code, int)
    return status.value.code


def _complaint(capsys: pytest.CaptureFixture[str], *words: str, status: int = 2) -> str:
    assert _sweep(*words) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("gmg-tui: ")
    assert err.count("\n") == 1
    return err.removeprefix("gmg-tui: ").rstrip()


def _asked(asked: Asked, *words: str) -> RunSpec:
    """What an engine is asked for by this command line."""
    assert _sweep(*words, "--headless") == 2
    return asked.specs[-1]


def _nothing_is_left() -> bool:
    folder = sessions.sessions_folder()
    return not folder.exists() or not list(folder.iterdir())


def test_a_dry_run_lists_the_jobs_and_leaves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert _sweep("sweep.toml", "--dry-run") == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "job  name    GPUs  command",
        "  1  lr=0.1  0,2   MODE='fast and loose' python sim.py --lr 0.1 --out {out_dir}",
        "  2  lr=0.2  0,2   MODE='fast and loose' python sim.py --lr 0.2 --out {out_dir}",
        "  3  wide    0,2   MODE='fast and loose' python sim.py --lr 16 --out {out_dir}",
        "3 jobs",
    ]
    assert err == ""
    assert _nothing_is_left()


def test_a_dry_run_of_all_presets_counts_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert _sweep("sweep.toml", "--all", "--dry-run", "--set", "mode=x", "--out-dir", "o/{gpu}/{name}") == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        lines[1].split()
        == (
            "1 quick-lr=0.1,mode=x first 1 (2 jobs each) MODE=x python sim.py --lr 0.1 --out o/{gpu}/quick-lr=0.1,mode=x"
        )
        .replace(",mode=x", "")
        .split()
    )
    assert lines[-2].split()[:3] == ["6", "full-wide", "0,2"]
    assert lines[-1] == "6 jobs: quick 3, full 3"
    assert _sweep("sweep.toml", "--preset", "full", "--cpu", "2", "--dry-run") == 0
    assert "lr=0.1  2 CPU slots  MODE" in capsys.readouterr().out


def test_a_sweep_without_a_file_takes_its_words_after_two_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--script", "sim.py", "--set", "lr=0.1,0.2", "--set", "on=true", "--dry-run"]
    assert _sweep(*words, "--", "--lr={lr}", "--on", "{on}", "--", "{i}/{n}", "{slot}", "${lr}", "") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:] == [
        "  1  lr=0.1  all   python sim.py --lr=0.1 --on true -- 0/2 {slot} '${lr}' ''",
        "  2  lr=0.2  all   python sim.py --lr=0.2 --on true -- 1/2 {slot} '${lr}' ''",
        "2 jobs",
    ]
    assert _sweep(*words, "-m", "--args", "'a {lr}' {on}") == 0
    assert "python -m sim.py 'a 0.1' true" in capsys.readouterr().out.replace("-m -m", "-m")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "give a FILE, or --script SCRIPT and --set KEY=V1,V2, or --resume NAME"),
        ("absent.toml", "there is no experiments file absent.toml; give a TOML file"),
        ("sim.py", "sim.py is not an experiments file; without one: --script sim.py --set KEY=V1,V2"),
        ("sweep.toml more.toml", "Got unexpected extra argument (more.toml)"),
        ("sweep.toml --script absent.py", "--script: there is no script absent.py; give the path of a Python file"),
        ("--script ../x -m", "--script: -m ../x: give a module's name"),
        ("sweep.toml --preset nope", "--preset nope: sweep.toml has no such preset; the presets are: quick, full"),
        ("--script sim.py --all", "--preset and --all choose presets of a file; give a FILE"),
        ("sweep.toml --gpus 0 --cpu 1", "--gpus and --cpu are mutually exclusive"),
        ("sweep.toml --env A={x}", "--env A: {x} has no value"),
        ("sweep.toml --per-gpu none", "Invalid value for '--per-gpu'"),
        ("sweep.toml --timeout 1w", "--timeout is '1w'; give a time"),
        ("sweep.toml --results sim.py", "--results sim.py: give the path of a folder"),
        ("sweep.toml --name a/b --cpu 1", "--name 'a/b': give up to 40 letters"),
        ("sweep.toml --retry-failed", "--retry-failed needs --resume NAME"),
        (
            "sweep.toml --restart always",
            "--restart always: finished jobs would be restarted forever; give failure, or --retries N",
        ),
        ("--resume absent", "--resume absent: there is no such session; `gmg-tui ls` lists them"),
        ("--resume ../x", "--resume '../x': give up to 40 letters"),
        (
            "sweep.toml --resume a --set x=1 --all --name b -- z",
            "--resume a: its name and jobs cannot change; leave out --set, arguments after --, --all, FILE, --name",
        ),
    ],
)
def test_what_cannot_be_meant_is_one_line(capsys: pytest.CaptureFixture[str], words: str, said: str) -> None:
    status = 1 if "resume absent" in words else 2
    assert _complaint(capsys, *words.split(), status=status).startswith(said)
    assert _nothing_is_left()


def test_the_engine_is_asked_for_what_file_and_options_say(asked: Asked, folder: Path) -> None:
    spec = _asked(asked, "sweep.toml", "--preset", "full", "--results", "out/deep", "--env", "A={lr}", "--retries", "2")
    assert spec.sweep == SweepSpec(
        (
            Batch(
                name="full",
                script="sim.py",
                args=("--lr", "{lr}", "--out", "{out_dir}"),
                env={"MODE": "{mode}", "A": "{lr}"},
                gpus="0,2",
                retries=2,
                timeout_s=1800.0,
            ),
        ),
        file=str(folder / "sweep.toml"),
        results=str(folder / "out" / "deep"),
        best="-loss",
    )
    assert (spec.name, spec.script, spec.args) == ("sweep-1", "sim.py", ("--lr", "{lr}", "--out", "{out_dir}"))
    assert (spec.gpus, spec.cpu, spec.cwd, spec.env) == (None, None, str(folder), {"A": "{lr}"})
    assert asked.fresh == [True]
    assert [(job.number, job.name, job.state) for job in asked.jobs[0]] == [
        (1, "lr=0.1", WorkerState.WAITING),
        (2, "lr=0.2", WorkerState.WAITING),
        (3, "wide", WorkerState.WAITING),
    ]
    assert asked.jobs[0][2].values == {"lr": 16, "mode": "fast and loose"}
    assert (folder / "out" / "deep").is_dir()


def test_cards_of_the_command_line_are_every_groups(asked: Asked) -> None:
    spec = _asked(asked, "sweep.toml", "--all", "--gpus", "1,3", "--best", "fps")
    assert spec.sweep is not None
    assert [batch.gpus for batch in spec.sweep.batches] == ["1,3", "1,3"]
    assert spec.sweep.best == "fps"
    spec = _asked(asked, "sweep.toml", "--all", "--cpu", "2")
    assert spec.sweep is not None
    assert ([batch.gpus for batch in spec.sweep.batches], spec.gpus, spec.cpu) == ([None, None], None, 2)
    assert spec.sweep.best is None


def test_a_session_is_named_by_the_option_the_file_or_after_the_file(asked: Asked, folder: Path) -> None:
    assert _asked(asked, "sweep.toml", "--name", "own").name == "own"
    (folder / "sweep.toml").write_text('name = "bench.v2"\n' + _FILE)
    assert _asked(asked, "sweep.toml").name == "bench.v2"
    assert _asked(asked, "sweep.toml").name == "bench.v2-1"
    assert _asked(asked, "--script", "sim.py").name == "sim-1"
    (folder / "sweep.toml").write_text('name = "a/b"\n' + _FILE)
    assert _sweep("sweep.toml") == 2


def _earlier(asked: Asked, *words: str, ended: bool = True) -> RunSpec:
    """A sweep that an engine has begun, and left: jobs in many states."""
    spec = _asked(asked, "sweep.toml", "--name", "old", *words)
    session = Session(spec, (), 1, time.time(), "0")
    sessions.write_record(sessions.Record(session, (), time.time() if ended else None))
    return spec


def _ends(spec: RunSpec, **states: WorkerState) -> None:
    asyncio.run(_put(spec, states))


async def _put(spec: RunSpec, states: dict[str, WorkerState]) -> None:
    path = Path(spec.folder) / STORE
    writer = StoreWriter(path, lambda text: pytest.fail(text) if text else None)
    writer.start()
    for job in reader.load_jobs(path):
        state = states.get(f"job{job.number}", job.state)
        writer.job(structs.replace(job, state=state, attempts=1, reason="exit code 3", exit_code=3, ended=9.0))
    await writer.close()


def test_a_sweep_goes_on_with_what_it_had_and_what_the_command_line_says_instead(asked: Asked, folder: Path) -> None:
    old = _earlier(
        asked,
        "--env",
        "A=1",
        "--interval",
        "2",
        "--log-max",
        "2G",
        "--gpus",
        "0",
        "--timeout",
        "1h",
        "--python",
        sys.executable,
    )
    assert _asked(asked, "--resume", "old") == old
    words = (
        "--env B={lr} --max-restarts 9 --restart failure --start together --per-gpu 3 --timeout none --gpus 4 --best x"
    )
    spec = _asked(asked, "--resume", "old", *words.split(), "--results", "elsewhere")
    assert spec.log_max_bytes == 2 << 30
    assert (spec.env, spec.interval_s, spec.max_restarts) == ({"A": "1", "B": "{lr}"}, 2.0, 9)
    assert (spec.restart, spec.start) == (RestartMode.FAILURE, StartMode.TOGETHER)
    assert old.sweep is not None
    assert spec.sweep == structs.replace(
        old.sweep,
        batches=(
            structs.replace(
                old.sweep.batches[0],
                env={"MODE": "{mode}", "A": "1", "B": "{lr}"},
                per_gpu=3,
                timeout_s=None,
                gpus="4",
            ),
        ),
        results=str(folder / "elsewhere"),
        best="x",
    )
    assert (spec.folder, spec.name, asked.fresh) == (old.folder, "old", [True, False, False])
    cpu = _asked(asked, "--resume", "old", "--cpu", "2")
    assert cpu.cpu == 2
    assert cpu.sweep is not None
    assert cpu.sweep.batches[0].gpus is None


def test_ended_jobs_stay_ended_and_the_others_are_listed(asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    old = _earlier(asked)
    _ends(old, job1=WorkerState.FINISHED, job2=WorkerState.FAILED, job3=WorkerState.RUNNING)
    _asked(asked, "--resume", "old")
    states = [job.state.value for job in asked.jobs[-1]]
    assert states == ["finished", "failed", "running"]
    capsys.readouterr()
    assert _sweep("--resume", "old", "--dry-run") == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "  3  wide  0,2   MODE='fast and loose' python sim.py --lr 16 --out {out_dir}",
        "1 job",
    ]


def test_the_engine_is_asked_to_run_failed_jobs_again_this_time_only(asked: Asked) -> None:
    old = _earlier(asked)
    _ends(old, job1=WorkerState.FINISHED, job2=WorkerState.FAILED, job3=WorkerState.STOPPED)
    again = _asked(asked, "--resume", "old", "--retry-failed")
    assert [job.state for job in asked.jobs[-1]] == [WorkerState.FINISHED, WorkerState.FAILED, WorkerState.STOPPED]
    sessions.write_record(sessions.Record(Session(again, (), 1, 0.0, "0"), (), 1.0))
    _ends(old, job3=WorkerState.RUNNING)
    later = _asked(asked, "--resume", "old")
    assert again.sweep is not None
    assert later.sweep is not None
    assert (again.sweep.retry_failed, later.sweep.retry_failed) == (True, False)


def test_a_sweep_whose_jobs_have_all_ended_prints_its_results(asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    old = _earlier(asked)
    capsys.readouterr()
    ended = dict.fromkeys(("job1", "job2", "job3"), WorkerState.FINISHED)
    for states, status, more in (
        (ended, 0, ""),
        ({**ended, "job2": WorkerState.FAILED}, 1, "; --retry-failed runs the failed ones again"),
        ({**ended, "job2": WorkerState.STOPPED}, 130, ""),
    ):
        _ends(old, **states)
        assert _sweep("--resume", "old") == status
        out, err = capsys.readouterr()
        assert err == f"every job of old has ended{more}\n"
        assert "lr=0.1" in out
        assert "wide" in out
    assert len(asked.specs) == 1


def test_what_an_interrupted_sweep_has_left_is_told(asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    old = _earlier(asked)
    _ends(old, job1=WorkerState.FINISHED, job2=WorkerState.FAILED)
    capsys.readouterr()
    assert sweep.conclude(old, 130) == 130
    out, err = capsys.readouterr()
    assert err == "1 job left; continue with: gmg-tui sweep --resume old\n"
    assert "wide" in out
    assert sweep.conclude(old, 0) == 1
    (Path(old.folder) / STORE).write_bytes(b"no database at all, though it is as long as one" * 99)
    capsys.readouterr()
    assert (sweep.conclude(old, 0), sweep.conclude(old, 130)) == (1, 130)
    assert "cannot be read" in capsys.readouterr().err


def test_what_cannot_go_on_says_why(
    asked: Asked, capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path
) -> None:
    old = _earlier(asked)
    capsys.readouterr()
    lock = sessions.lock(Path(old.folder))
    assert _complaint(capsys, "--resume", "old", status=1) == "old is running; open it with: gmg-tui attach old"
    os.close(lock)
    (folder / "sim.py").rename(tmp_path / "gone.py")
    assert "no script" in _complaint(capsys, "--resume", "old")
    folder.rename(tmp_path / "moved")
    os.chdir(tmp_path)
    assert "which is gone; create it again" in _complaint(capsys, "--resume", "old", status=1)
    (Path(old.folder) / STORE).unlink()
    assert "old has no store" in _complaint(capsys, "--resume", "old", status=1)
    session = Session(structs.replace(old, sweep=None), (), 1, 0.0, "0")
    sessions.write_record(sessions.Record(session, (), 1.0))
    assert _complaint(capsys, "--resume", "old") == "old is not a sweep; start it again with: gmg-tui sim.py"


def test_a_lost_sweep_is_cleared_away_and_goes_on(asked: Asked) -> None:
    old = _earlier(asked, ended=False)
    assert _asked(asked, "--resume", "old").sweep == old.sweep
    found = sessions.inspect(Path(old.folder))
    assert found is not None
    assert found.record.loss is not None


def test_a_refused_resume_keeps_the_folder(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prestart, "_BOOT", """print('{"ok": false, "error": "no such GPU", "exit_code": 2}')""")
    assert _complaint(capsys, "sweep.toml", "--name", "old") == "no such GPU"
    assert _nothing_is_left()
    asked = Asked()
    with monkeypatch.context() as patch:
        patch.setattr(run, "launch", asked.launch)
        old = _earlier(asked)
    capsys.readouterr()
    before = {path.name: path.read_bytes() for path in Path(old.folder).iterdir() if path.is_file()}
    assert _complaint(capsys, "--resume", "old") == "no such GPU"
    after = {path.name: path.read_bytes() for path in Path(old.folder).iterdir() if path.name in before}
    assert after == before
    assert [job.number for job in reader.load_jobs(Path(old.folder) / STORE)] == [1, 2, 3]


def test_a_job_that_is_shown_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    batch = Batch(script="sim.py", args=("{a}",))
    sweep.show_jobs((batch,), (Job(1, "x", values={"a": "one\ntwo\x1b[2J"}),), total=1, cpu=None)
    assert capsys.readouterr().out.count("\n") == 3
