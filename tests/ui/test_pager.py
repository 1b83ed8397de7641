"""The log's file in the pager."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from gmg_tui.ui.terminal import run_pager
from tests.ui import play, sessions, sweeps
from tests.ui.play import FakedApp, press
from tests.workers import changed

SMALL, WIDE = (80, 24), (160, 48)
WARNING = "[Genesis] [07:00:34] [WARNING] Neutral robot position (qpos0) exceeds joint limits."


def _app(*lines: str) -> FakedApp:
    engine = play.engine_of(sessions.busy_snapshot(1))
    engine.log = {slot: list(lines) for slot in engine.log}
    return play.app_of(engine)


# The pager


def _with_log(app: FakedApp, folder: Path, text: str = "all of it\n") -> Path:
    spec = changed(app.view.session.spec, folder=str(folder))
    app.view.session = changed(app.view.session, spec=spec)
    path = folder / "logs" / "gpu0.log"
    path.parent.mkdir()
    path.write_text(text)
    return path


def _pager(tmp_path: Path) -> tuple[str, Path]:
    """A pager that notes what it was given, and the note."""
    note, script = tmp_path / "note", tmp_path / "a pager.py"
    script.write_text(f"import os, sys; open({str(note)!r}, 'w').write(sys.argv[1] + ' ' + os.environ['LESS'])")
    return shlex.join([sys.executable, str(script)]), note


@pytest.mark.process
async def test_the_pager_opens_the_whole_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = _app("a line")
    path = _with_log(app, tmp_path)
    command, note = _pager(tmp_path)
    monkeypatch.setenv("PAGER", command)
    monkeypatch.delenv("LESS", raising=False)
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "do:screen.log_pager")
        while not note.exists():
            await pilot.pause(0.01)
        assert note.read_text() == f"{path} R"
        await play.sees(pilot, "a line")


@pytest.mark.process
@pytest.mark.parametrize(("command", "why"), [("false", "false: exit status 1"), ("/bin/sh/x", "no pager")])
async def test_a_pager_that_fails_is_reported_on_the_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, why: str
) -> None:
    app = _app("a line")
    _with_log(app, tmp_path)
    monkeypatch.setenv("PAGER", command)
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "do:screen.log_pager")
        await play.sees(pilot, why, "a line")


@pytest.mark.process
async def test_nothing_leaves_the_suspended_screen_by_an_exception() -> None:
    assert await run_pager(["false"]) == "false: exit status 1"
    assert await run_pager(["/absent"]) == "/absent: No such file or directory"


async def test_in_a_sweep_it_is_the_log_of_the_job() -> None:
    app = sweeps.app()
    async with app.run_test(size=WIDE):
        worker = app.view.worker_on(app.view.selected)
        assert worker is not None
        job = next(job for job in app.engine.jobs if job.number == worker.job)
        assert str(await app.main._log_path()) == f"{app.view.session.spec.folder}/{job.log}"


@pytest.mark.parametrize(
    ("pager", "message"),
    [
        ("/no/such/pager -R", "/no/such/pager is not installed"),
        ("'unclosed", "cannot be read"),
        ("", "less is not installed"),
    ],
)
async def test_a_missing_pager_is_reported_in_one_sentence(
    pager: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = _app("a line")
    _with_log(app, tmp_path)
    monkeypatch.setenv("PAGER", pager)
    monkeypatch.setenv("PATH", str(tmp_path))
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "do:screen.log_pager")
        await play.sees(pilot, message)
