"""What else the terminal is used for: the log's file in the pager, and notifications."""

import shlex
import sys
from pathlib import Path

import pytest

from gmg_tui.model import Occurrence, OccurrenceKind
from gmg_tui.ui.terminal import run_pager, sequences
from tests.ui import play, ranks, sessions, sweeps
from tests.ui.play import FakedApp, press
from tests.ui.sessions import busy_snapshot
from tests.workers import changed

SMALL, WIDE = (80, 24), (160, 48)
WARNING = "[Genesis] [07:00:34] [WARNING] Neutral robot position (qpos0) exceeds joint limits."


def _app(*lines: str) -> FakedApp:
    engine = play.engine_of(sessions.busy_snapshot(1))
    engine.log = {slot: list(lines) for slot in engine.log}
    return play.app_of(engine)


# The pager


def _with_log(app: FakedApp, folder: Path, *names: str) -> Path:
    """Give the session this folder with logs. Returns the first one's path."""
    spec = changed(app.view.session.spec, folder=str(folder))
    app.view.session = changed(app.view.session, spec=spec)
    (folder / "logs").mkdir()
    paths = [folder / "logs" / name for name in names or ("gpu0.log",)]
    for path in paths:
        path.write_text("all of it\n")
    return paths[0]


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
        await press(pilot, "do:log_pager")
        await play.until(pilot, lambda: note.exists() and bool(note.read_text()))
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
        await press(pilot, "do:log_pager")
        await play.sees(pilot, why, "a line")


@pytest.mark.process
async def test_enter_on_a_job_that_has_left_its_slot_opens_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It only said that the job is on no slot now."""
    app = sweeps.app()
    path = _with_log(app, tmp_path, "0005-a.log", "0005-a.rank1.log", "0006-a.log")
    command, note = _pager(tmp_path)
    monkeypatch.setenv("PAGER", command)
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "Q")
        await play.sees(pilot, "#13 ")
        await press(pilot, *["up"] * 8, "enter")
        await play.until(pilot, lambda: note.exists() and bool(note.read_text()))
        assert note.read_text().startswith(f"{path} ")
        await press(pilot, "down", "down", "enter")
        await play.sees(pilot, "There is no log")


@pytest.mark.process
async def test_the_pager_opens_the_log_of_the_selected_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = tuple(changed(ranks.rank(i, i, "g0", 2), job=5, job_name="a") for i in range(2))
    app = play.app_of(play.engine_of(ranks.snapshot_of(workers)))
    _with_log(app, tmp_path, "0005-a.log", "0005-a.rank1.log")
    command, note = _pager(tmp_path)
    monkeypatch.setenv("PAGER", command)
    async with app.run_test(size=SMALL) as pilot:
        app.view.choose("gpu1")
        await press(pilot, "do:log_pager")
        await play.until(pilot, lambda: note.exists() and "0005-a.rank1.log" in note.read_text())


@pytest.mark.process
async def test_nothing_leaves_the_suspended_screen_by_an_exception() -> None:
    assert await run_pager(["false"]) == "false: exit status 1"
    secure = ["sh", "-c", 'test "$LESSSECURE" = 1']
    assert (await run_pager(secure, readonly=True), await run_pager(secure)) == ("", "sh: exit status 1")
    assert await run_pager(["/absent"]) == "/absent: No such file or directory"


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
        await press(pilot, "do:log_pager")
        await play.sees(pilot, message)


# Sequences sent to the terminal for notifications


def _happened(number: int, text: str = "gpu3 has failed: out of memory") -> Occurrence:
    return Occurrence(number, 0.0, OccurrenceKind.FAILED, text, "gpu3")


@pytest.mark.parametrize(
    ("ways", "tmux", "expected"),
    [
        (("bell",), False, "\a"),
        (("osc9",), False, "\x1b]9;gpu3 has failed: out of memory\a"),
        (("osc777",), False, "\x1b]777;notify;gmg-tui;gpu3 has failed: out of memory\a"),
        (("osc9",), True, "\x1bPtmux;\x1b\x1b]9;gpu3 has failed: out of memory\a\x1b\\"),
        (("bell", "osc9", "bell"), True, "\a\x1bPtmux;\x1b\x1b]9;gpu3 has failed: out of memory\a\x1b\\"),
        (("mail -s x me",), False, ""),
        ((), False, ""),
    ],
)
def test_each_notification_method_has_its_sequence(ways: tuple[str, ...], tmux: bool, expected: str) -> None:
    assert sequences(ways, (_happened(1),), tmux=tmux) == expected
    assert sequences(ways, (), tmux=tmux) == ""


def test_simultaneous_events_are_one_notification_with_a_count() -> None:
    several = tuple(_happened(number) for number in range(3))
    assert sequences(("osc9",), several, tmux=False) == "\x1b]9;gpu3 has failed: out of memory (and 2 more)\a"


def test_script_text_cannot_end_the_sequence_and_is_truncated() -> None:
    evil = _happened(1, "x\a\x1b]0;title\x1b\\;; \u202e " + "y" * 1000)
    sequence = sequences(("osc777",), (evil,), tmux=False)
    head, body, end = (
        sequence[: len("\x1b]777;notify;gmg-tui;")],
        sequence[len("\x1b]777;notify;gmg-tui;") : -1],
        sequence[-1],
    )
    assert (head, end) == ("\x1b]777;notify;gmg-tui;", "\a")
    assert len(body) == 200
    assert not set(body) & set("\a\x1b;\u202e\n")


async def test_only_events_while_attached_are_notified(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = changed(busy_snapshot(1), occurred=(_happened(1), _happened(2)))
    engine = play.engine_of(snapshot)
    session = engine.welcome.session
    engine.welcome = changed(engine.welcome, session=changed(session, spec=changed(session.spec, notify=("osc9",))))
    app, sent = play.app_of(engine), list[str]()
    monkeypatch.setattr(app, "write_to_terminal", sent.append)
    monkeypatch.delenv("TMUX", raising=False)
    async with app.run_test() as pilot:
        for _ in range(2):
            engine.push(changed(snapshot, occurred=(_happened(2), _happened(3))))
            await pilot.pause()
    assert [text for text in sent if text] == [sequences(("osc9",), (_happened(3),), tmux=False)]
