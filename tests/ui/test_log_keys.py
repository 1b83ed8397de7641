"""The keys by which the log is folded, wrapped, filtered, copied and opened elsewhere."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest
from textual.pilot import Pilot

from gmg_tui.errors import GmgError
from gmg_tui.protocol import Lines
from gmg_tui.ui import Outcome
from gmg_tui.ui.terminal import pager
from tests.ui import play, sessions, sweeps
from tests.ui.play import FakedApp
from tests.ui.screens.stage import press

SMALL, WIDE = (80, 24), (160, 48)
WARNING = "[Genesis] [07:00:34] [WARNING] Neutral robot position (qpos0) exceeds joint limits."


def _app(*lines: str, ascii_only: bool = False) -> FakedApp:
    engine = play.engine_of(sessions.busy_snapshot(1))
    engine.log = {slot: list(lines) for slot in engine.log}
    return play.app_of(engine, ascii_only=ascii_only)


def _log(app: FakedApp) -> list[str]:
    """The log's title and the rows under it, without the blank ones."""
    rows = play.screen(app)
    begin = next(y for y, row in enumerate(rows) if " log " in row and row[0] in "─-")
    return [row.rstrip() for row in rows[begin:-1] if row.strip()]


def _style(app: FakedApp, text: str) -> str:
    """How a row that begins with `text` is drawn."""
    for strip in app.screen._compositor.render_strips():
        if strip.text.startswith(text):
            return str(next(iter(strip)).style)
    raise AssertionError(f"{text} is not on the screen")


async def _filter(pilot: Pilot[Outcome], text: str) -> None:
    await press(pilot, "do:screen.filter_log", *("space" if letter == " " else letter for letter in text), "enter")


async def test_rows_that_are_held_stay_as_they_are_while_progress_goes_on() -> None:
    app = play.busy(1)
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "400 lines", "×392")
        await press(pilot, "f")
        held = _log(app)[1:]
        app.engine.push(Lines("gpu0", 400, (sessions.fps_line(32, 1e6), sessions.fps_line(33, 2e6))))
        await play.sees(pilot, "402 lines", "2,000,000.00", "×2")
        assert _log(app)[1 : len(held) + 1] == held
        await press(pilot, "f")
        await play.sees(pilot, "following", "×394")


async def test_heads_are_shortened_to_the_time_and_the_level_of_what_is_wrong() -> None:
    lines = (WARNING, "[Genesis] [07:01:00] [INFO] Compiling", "[Genesis] [07:01:01] [ERROR] ValueError: x", "other")
    app = _app(*lines)
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "4 lines")
        assert _log(app)[1:] == [
            "07:00:34 WARNING Neutral robot position (qpos0) exceeds joint limits.",
            "07:01:00 Compiling",
            "07:01:01 ERROR ValueError: x",
            "other",
        ]
        styles = [_style(app, text) for text in ("07:00:34", "07:01:00", "07:01:01", "other")]
        assert styles[1] == styles[3]
        assert len(set(styles)) == 3


async def test_long_lines_are_wrapped_and_pages_go_by_rows_of_the_screen() -> None:
    long = "".join(f"<{number:04d}>" for number in range(100))
    app = _app("first", long, "世" * 120, "last")
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "4 lines", "last")
        await press(pilot, "home", "end")
        rows = _log(app)[1:]
        assert (
            rows == ["first", *(long[at : at + 80] for at in range(0, 600, 80)), *["世" * 40] * 3, "last"][-len(rows) :]
        )
        await press(pilot, "home")
        assert _log(app)[1] == "first"
        await press(pilot, "slash", *"<0090>", "enter")
        await play.sees(pilot, "match 1 of 1", "<0090>")
        await press(pilot, "escape")
        await play.sees(pilot, "following", "last")


async def test_a_wrapped_log_longer_than_the_view_is_scrolled_by_its_rows() -> None:
    app = _app(*(f"{number} " + "x" * 150 for number in range(30)))
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "30 lines")
        await press(pilot, "home")
        page = app.main.log_view._page
        seen: list[str] = []
        for _ in range(200):
            seen.append(_log(app)[1])
            if "following" in _log(app)[0]:
                break
            app.main.log_view.scroll_by(1)
            await pilot.pause()
        assert len(seen) == 60 - page + 1
        assert seen[:4] == ["0 " + "x" * 78, "x" * 72, "1 " + "x" * 78, "x" * 72]
        assert _log(app)[page] == "x" * 73


async def test_a_filter_shows_lines_that_hold_a_text_and_says_how_many() -> None:
    app = play.busy(1)
    async with app.run_test(size=WIDE) as pilot:
        await play.sees(pilot, "400 lines")
        await press(pilot, "do:screen.filter_log")
        await play.sees(pilot, "show only lines that contain this")
        await press(pilot, *"Warning")
        await play.sees(pilot, "1 of 400 lines", "filter: warning")
        assert len(_log(app)) == 2 + 1  # title, line and the filter's own row
        await press(pilot, "enter")
        app.engine.push(Lines("gpu0", 400, ("nothing", WARNING)))
        await play.sees(pilot, "2 of 402 lines")
        await press(pilot, "slash", *"qpos0", "enter")
        await play.sees(pilot, "match 2 of 2")
        await press(pilot, "escape")
        await play.sees(pilot, "2 of 402 lines")
        await press(pilot, "escape")
        await play.sees(pilot, "402 lines", "following", "×392")
        await _filter(pilot, "running at")
        await play.sees(pilot, "392 of 402 lines")


async def test_another_worker_keeps_the_filter_beside_a_search() -> None:
    app = play.busy(2)
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "400 lines")
        await press(pilot, "do:screen.filter_log", "w", "a", "r", "n", "enter", "right")
        await play.sees(pilot, "gpu1 log", "1 of 400 lines")
        await press(pilot, "slash")
        await play.sees(pilot, "search the log")
        assert "show only lines that contain this" not in play.shown(app)
        await press(pilot, "escape")
        assert app.main.log_view.buffer.filter == "warn"


async def test_y_copies_the_match_else_the_newest_line_in_view() -> None:
    app = _app("first", WARNING, "世 last")
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "3 lines")
        await press(pilot, "do:screen.copy_line")
        assert app.clipboard == "世 last"
        await play.sees(pilot, "Copied the line.")
        await press(pilot, "slash", *"Neutral", "enter", "do:screen.copy_line")
        assert app.clipboard == WARNING


async def test_y_without_a_line_says_so_and_capital_y_copies_the_path() -> None:
    app = _app()
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "do:screen.copy_line")
        await play.sees(pilot, "There is no line to copy.")
        await press(pilot, "do:screen.copy_log_path")
        await play.sees(pilot, "Copied the path of gpu0.log")
        assert app.clipboard == f"{app.view.session.spec.folder}/logs/gpu0.log"


# The pager


def _with_log(app: FakedApp, folder: Path, text: str = "all of it\n") -> Path:
    spec = sessions.changed(app.view.session.spec, folder=str(folder))
    app.view.session = sessions.changed(app.view.session, spec=spec)
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
async def test_o_opens_the_whole_log_in_the_pager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_in_a_sweep_it_is_the_log_of_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = sweeps.app()
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "do:screen.copy_log_path")
        await play.sees(pilot, "Copied the path of")
        worker = app.view.worker
        assert worker is not None
        job = next(job for job in app.engine.jobs if job.number == worker.job)
        assert app.clipboard == f"{app.view.session.spec.folder}/{job.log}"


@pytest.mark.process
@pytest.mark.parametrize(
    ("code", "said"), [("raise SystemExit(3)", "exit status 3"), ("os.kill(os.getpid(), 9)", "killed by signal 9")]
)
async def test_a_pager_that_fails_or_is_killed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, said: str
) -> None:
    app = _app("one")
    _with_log(app, tmp_path)
    monkeypatch.setenv("PAGER", shlex.join([sys.executable, "-c", f"import os; {code}"]))
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "do:screen.log_pager")
        await play.sees(pilot, said)


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("/no/such/pager -R", "PAGER names /no/such/pager"),
        ("'unclosed", "cannot be read"),
        ("", "less is not installed"),
    ],
)
async def test_a_missing_pager_is_told_in_one_sentence(
    named: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = _app("a line")
    _with_log(app, tmp_path)
    monkeypatch.setenv("PAGER", named)
    monkeypatch.setenv("PATH", str(tmp_path))
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "do:screen.log_pager")
        await play.sees(pilot, said)


async def test_a_log_that_is_not_there_or_not_readable_is_told_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = _app("a line")
    path = _with_log(app, tmp_path)
    command, note = _pager(tmp_path)
    monkeypatch.setenv("PAGER", command)
    path.unlink()
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "do:screen.log_pager")
        await play.sees(pilot, "nothing has been written yet to ")
        path.mkdir()
        await press(pilot, "do:screen.log_pager")
        await play.sees(pilot, "Is a directory")
    assert not note.exists()


async def test_a_disk_that_does_not_answer_is_told_and_keeps_nothing_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "hangs"
    os.mkfifo(path)  # opening one waits for a writer, as reading does for a disk that hangs
    monkeypatch.setattr(pager, "ANSWER_S", 0.05)
    with pytest.raises(GmgError, match="the disk does not answer"):
        await pager.check(path)
    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))  # lets the thread go
