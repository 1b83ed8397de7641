"""The manual: its commands are right, its reference is that of the declared options, and it opens on a terminal."""

import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from gmg_tui.cli import app as cli
from gmg_tui.cli import config
from gmg_tui.cli.app import GUIDE, TOPICS
from gmg_tui.model import SweepSpec
from gmg_tui.session.options import CONFIG, LINE, RUN, SWEEP_ONLY, TUNE_ONLY
from gmg_tui.ui.pages.help import GuideApp
from tests.cli.conftest import Asked, Gmg
from tests.results.report import stored
from tests.session.store.records import finished
from tests.ui import play

_ROOT = GUIDE.parent.parent
_PAGES = [GUIDE / f"{topic}.md" for topic in TOPICS]


def _blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


def test_every_page_is_a_topic() -> None:
    assert {page.stem for page in GUIDE.glob("*.md")} == {*TOPICS}


def _reference() -> str:
    """The tables of `options.md`, made from the declared options."""
    lines = []
    for title, options in (
        ("Options of run, demo, tune and sweep", RUN),
        ("Further options of tune", TUNE_ONLY),
        ("Further options of sweep", SWEEP_ONLY),
    ):
        lines += ["", f"## {title}", "", "| option | meaning | default |", "|---|---|---|"]
        for opt in options:
            value = "" if opt.is_flag else f" {opt.metavar}"
            marks = f"{' *' if LINE in opt.marks else ''}{' †' if CONFIG in opt.marks else ''}"
            default = opt.default if opt.default not in (None, False, ()) else "–"
            default = f"{default:g}" if isinstance(default, float) else default
            meaning = opt.help.partition(" [default")[0].replace("|", "\\|")
            lines.append(f"| `{opt.long}{value}`{marks} | {meaning} | {default} |")
    return "\n".join(lines) + "\n"


def test_the_reference_matches_the_declared_options() -> None:
    """If it does not, write `_reference()` below the head of `options.md`."""
    text = (GUIDE / "options.md").read_text()
    assert text[text.index("\n## ") :] == _reference()


@pytest.mark.process
@pytest.mark.parametrize("page", [*_PAGES, _ROOT / "README.md"], ids=lambda page: page.stem)
def test_commands_in_the_manual_run(
    page: Path, folder: Path, gmg: Gmg, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to the start of an engine; where they need a session, up to its search."""
    monkeypatch.setattr("gmg_tui.scripts.interpreter.check_python", lambda path: path)
    (folder / "train.py").write_text("")
    (folder / "sweep.toml").write_text(_blocks(GUIDE / "sweeps.md", "toml")[0])
    for name in ("doctor", "gpus", "guide", "metrics", "serve"):
        monkeypatch.setattr(cli._group.commands[name], "callback", lambda **_: 0)
    for words in (words for block in _blocks(page, "sh") for line in block.splitlines() for words in _commands(line)):
        done = gmg(*words)
        expected = ("far enough", "there is no session", "no session", "no running session", "there is no such session")
        assert not done.returncode or any(text in done.stderr for text in expected), (words, done.stderr)


def _commands(line: str) -> list[list[str]]:
    """The calls of gmg-tui in a line of shell, without the programs around them."""
    commands = []
    for part in re.split(r"&&|;", line):
        words = shlex.split(part, comments=True)
        if words and Path(words[0]).name == "gmg-tui":
            commands.append(words[1:])
    return commands


def test_settings_in_the_manual_are_valid(tmp_path: Path) -> None:
    (block,) = _blocks(GUIDE / "options.md", "toml")
    file = tmp_path / "config.toml"
    file.write_text(block)
    settings = config.read(file, "sweep")
    assert settings.options == {"theme": "light", "sigint_wait": 30, "env": ("WANDB_MODE=offline",), "per_gpu": 2}
    assert settings.keys == {"restart": ("f5",)}


async def test_examples_that_read_a_session_print_its_figures(tmp_path: Path) -> None:
    jobs = [
        finished(number, values={"n_envs": 1024 * number}, n_envs=1024 * number, result={"loss": 1 + number / 1e5})
        for number in (1, 2, 3)
    ]
    folder = await stored.session("sweep-1", jobs, spec={"sweep": SweepSpec()}, snapshot=stored.snapshot(cpu0=90.0))

    def printed(*command: str) -> str:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            command, cwd=folder, env={**os.environ, "PATH": path}, check=True, capture_output=True, text=True
        ).stdout

    python = [block for page in _PAGES for block in _blocks(page, "python")]
    assert python
    for block in python:
        out = printed(sys.executable, "-c", block)
        assert all(str(value) in out for job in jobs for value in (job.values["n_envs"], job.last.rate, job.name))
        assert "1.00003" in out
    queries = [
        line for page in _PAGES for block in _blocks(page, "sh") for line in block.splitlines() if "SELECT" in line
    ]
    assert queries
    for program, file, query in map(shlex.split, queries):
        assert program == "sqlite3"
        with closing(sqlite3.connect(folder / file)) as db:
            rows = db.execute(query).fetchall()
        assert [row[:3] for row in rows] == [(job.number, "finished", job.last.rate) for job in jobs]
    (example,) = map(json.loads, _blocks(GUIDE / "files.md", "json"))
    summary = json.loads((folder / "summary.json").read_text())
    assert example.keys() <= summary.keys()
    assert example["workers"][0].keys() <= summary["workers"][0].keys()


def test_the_readme_is_short() -> None:
    assert (_ROOT / "README.md").stat().st_size <= 10_000


@pytest.mark.parametrize("topic", ["tuning", None])
def test_without_a_terminal_the_manual_is_printed(topic: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["guide", *([topic] if topic else [])])
    assert not caught.value.code
    printed = capsys.readouterr().out
    assert "# Tuning\n" in printed
    assert ("# Sweeps\n" in printed) is (topic is None)


async def test_on_a_terminal_it_opens_with_whole_commands_and_closes() -> None:
    app = GuideApp((GUIDE / "running.md").read_text(), contents=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await play.sees(pilot, "Running a script", "gmg-tui --headless --summary out.json", "# one worker per GPU")
        await pilot.press("q")
    assert app.return_code == 0
