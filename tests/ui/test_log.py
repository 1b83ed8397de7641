"""The log of the chosen worker: how it is followed, paused and searched."""

import os
import socket
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from textual.app import App

from gmg_tui.ui import terminal
from gmg_tui.ui.dialogs import LineBar
from tests.ui import play
from tests.ui.play import FakedApp, press

SMALL = (80, 24)
WARNING = "[Genesis] [07:00:34] [WARNING] Neutral robot position (qpos0) exceeds joint limits."


def _more(app: FakedApp, number: int, text: str = "later") -> None:
    app.engine.print("gpu0", *(f"{text} {i}" for i in range(number)))


def _plain() -> FakedApp:
    """An app with logs without progress lines, of which none are folded."""
    return _app_of(*(f"Compiling {i}" if i == 50 else f"step {i}" for i in range(400)))


def _app_of(*lines: str) -> FakedApp:
    return play.logged(play.busy(), *lines)


def _log(app: FakedApp) -> list[str]:
    """The log's title and the rows under it, without the blank ones."""
    rows = play.screen(app)
    begin = next(y for y, row in enumerate(rows) if "Log" in row and "Charts" in row)
    return [row.rstrip() for row in rows[begin:-1] if row.strip()]


async def test_the_log_follows_until_a_page_up_and_again_after_end() -> None:
    app = _plain()
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "400 lines")
        _more(app, 3)
        await play.sees(pilot, "later 2", "403 lines")
        await press(pilot, "pageup")
        paused = _log(app)[1:]
        assert "later" not in "".join(paused)
        assert "paused at 97 %" in _log(app)[0]
        _more(app, 5)
        await play.sees(pilot, "paused at 96 %, 5 new lines")
        assert _log(app)[1:] == paused
        await press(pilot, "end")
        await play.sees(pilot, "later 4")
        _more(app, 1, "newest")
        await play.sees(pilot, "newest 0")


async def test_search_highlights_counts_and_steps_through_matches() -> None:
    app = _plain()
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "400 lines")
        await press(pilot, "slash", *"Compiling")
        await play.sees(pilot, "match 1 of 1", "Compiling 50", "paused")
        await press(pilot, "escape")
        await play.sees(pilot)
        assert "match " not in _log(app)[0]
        await press(pilot, "slash", *"step", "enter")
        log = app.main.log_view
        await play.until(pilot, lambda: log.search.query.text == "step" and bool(log.search.matches))
        count = len(log.search.matches)
        await play.sees(pilot, f"of {count}")
        await press(pilot, "N", "N")
        await play.sees(pilot, f"match {count - 2} of {count}")
        await press(pilot, "n", "n", "n")
        await play.sees(pilot, f"match 1 of {count}")
        await press(pilot, "slash", *"zzz")
        await play.sees(pilot, "no match")
        await press(pilot, "enter", "escape")
        await play.sees(pilot, "400 lines")


@pytest.mark.parametrize("late", [0, 40])
async def test_the_match_stays_on_its_line_when_lines_arrive(late: int) -> None:
    app = _app_of("needle 0", *["other"] * 5, "needle 1", *["other"] * 5)
    async with app.run_test(size=(120, 40)) as pilot:
        await play.sees(pilot, "12 lines")
        log = app.main.log_view
        await press(pilot, "slash", *"needle", "enter")
        await play.until(pilot, lambda: log.text == "needle 1", "a match")
        before = log.text
        _more(app, late)
        await pilot.pause()
        assert log.text == before
        await press(pilot, "n", "N")
        await play.until(pilot, lambda: log.text == before, "the match of before")


def _styles(app: App[Any], text: str) -> list[str]:
    """How each occurrence of `text` is drawn, from the top, as its attributes."""
    attributes = []
    for strip in app.screen._compositor.render_strips():
        for segment in strip:
            if segment.text == text and segment.style is not None:
                attributes.append(str(segment.style.without_color))
    return attributes


async def test_the_current_match_is_highlighted_differently() -> None:
    app = _app_of("one needle", "two needle", "three needle")
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "3 lines")
        await press(pilot, "slash", *"needle")
        await play.sees(pilot, "match 3 of 3")
        await play.until(pilot, lambda: len(set(_styles(app, "needle")[:3])) > 1, "the match of the whole word")
        styles = _styles(app, "needle")[:3]
        assert styles[0] == styles[1] != styles[2]
        await press(pilot, "enter", "N")
        await play.sees(pilot, "match 2 of 3")
        assert _styles(app, "needle") == [styles[0], styles[2], styles[1]]


async def test_a_match_that_is_found_while_the_log_is_hidden_is_shown_with_it() -> None:
    app = _app_of(*(f"step {i}: " + "x" * 100 for i in range(200)))
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "200 lines")
        log = app.main.log_view
        log.display = False
        await play.until(pilot, lambda: not log.size)
        log.search_for("step 77: ")
        await play.until(pilot, lambda: log.match is not None)
        log.display = True
        await play.sees(pilot, "step 76: ", "step 77: ", "step 78: ", "match 1 of 1", "paused at")


async def test_the_search_field_opens_only_once_and_an_immediate_enter_keeps_its_text() -> None:
    app = play.busy()
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "400 lines")
        await press(pilot, "slash")
        await app.run_action("screen.search")
        play.burst(pilot, *"Compiling", "enter")
        await play.sees(pilot, "match 1 of 1")
        assert app.main.log_view.search.query.text == "Compiling"
        await play.until(pilot, lambda: not app.main.query(LineBar))


async def test_f_pauses_a_log_that_is_shorter_than_the_view_and_paging_down_to_the_end_follows() -> None:
    app = _app_of("one", "two")
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "2 lines")
        await press(pilot, "f")
        await play.sees(pilot, "paused")
        _more(app, 40)
        await play.sees(pilot, "40 new lines", "one")
        await press(pilot, "f")
        await play.sees(pilot, "later 39")
        await press(pilot, "home")
        await play.sees(pilot, "paused")
        play.burst(pilot, *["pagedown"] * 10)
        await play.sees(pilot, "later 39")


def _style(app: FakedApp, text: str) -> str:
    """How a row that begins with `text` is drawn."""
    for strip in app.screen._compositor.render_strips():
        if strip.text.startswith(text):
            return str(next(iter(strip)).style)
    raise AssertionError(f"{text} is not on the screen")


async def test_line_prefixes_are_shortened_to_the_time_and_the_level_of_problems() -> None:
    lines = (WARNING, "[Genesis] [07:01:00] [INFO] Compiling", "[Genesis] [07:01:01] [ERROR] ValueError: x", "other")
    app = _app_of(*lines)
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


async def test_long_lines_are_wrapped_and_paging_moves_by_screen_rows() -> None:
    long = "".join(f"<{number:04d}>" for number in range(100))
    app = _app_of("first", long, "世" * 120, "last")
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "4 lines", "last")
        await press(pilot, "home", "end")
        await play.sees(pilot, "gpu0 log", "last")
        rows = _log(app)[1:]
        assert (
            rows == ["first", *(long[at : at + 80] for at in range(0, 600, 80)), *["世" * 40] * 3, "last"][-len(rows) :]
        )
        await press(pilot, "home")
        assert _log(app)[1] == "first"
        await press(pilot, "slash", *"<0090>", "enter")
        await play.sees(pilot, "match 1 of 1", "<0090>")
        await press(pilot, "escape")
        await play.sees(pilot, "last")


async def test_y_copies_the_match_else_the_newest_line_in_view(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    app = _app_of("first", WARNING, "世 last")
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "3 lines")
        await press(pilot, "y")
        assert app.clipboard == "世 last"
        await play.sees(pilot, "Sent 1 line to the terminal")
        await press(pilot, "slash", *"Neutral", "enter")
        await play.sees(pilot, "match 1 of 1")
        await press(pilot, "y")
        assert app.clipboard == WARNING


@pytest.mark.process
@pytest.mark.skipif(os.getuid() != 0, reason="makes another user's socket")
async def test_no_text_and_no_environment_reach_another_users_tmux(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after `su` in another user's terminal."""
    ran, path = tmp_path / "ran", tmp_path / "socket"
    (tmp_path / "tmux").write_text(f"#!/bin/sh\ncat > {ran}\n")
    (tmp_path / "tmux").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("TMUX", f"{path},1,0")
    app = _app_of("last")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        async with app.run_test(size=SMALL) as pilot:
            await play.sees(pilot, "1 line")
            os.chown(path, 65534, -1)
            await press(pilot, "y")
            await play.sees(pilot, "Sent 1 line to the terminal")
            assert not ran.exists()
            os.chown(path, 0, -1)
            await press(pilot, "y")
            await play.sees(pilot, "also to tmux")
    assert ran.read_text() == "last"


async def test_text_selected_with_the_mouse_is_highlighted_and_copied_and_the_log_pauses() -> None:
    app = _app_of("first", "second 世界 line", "x" * 100 + "y" * 10, "last")
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "4 lines")
        top = next(y for y, row in enumerate(play.screen(app)) if row.startswith("second"))
        await pilot.mouse_down(offset=(7, top))
        await pilot.hover(offset=(24, top + 2))
        _more(app, 40)
        await play.sees(pilot, "paused")
        await pilot.mouse_up(offset=(24, top + 2))
        await press(pilot, "y")
        assert app.clipboard == "世界 line\n" + "x" * 100 + "y" * 5
        await pilot.click(offset=(3, top))
        await press(pilot, "y")
        assert "\n" not in app.clipboard


async def test_a_long_line_leaves_room_for_others() -> None:
    app = _app_of("before", "x" * 200_000, "after", "w" * 50)
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "before", "after", "characters)", "w" * 50)
        app.main.log_view.search_for("before")
        await play.sees(pilot, "match 1 of 1")


async def test_a_worker_that_has_printed_nothing_says_so() -> None:
    app = play.edited(log_lines=0)
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "gpu0 has printed nothing yet. Setup shows its command line.")


async def test_tabs_left_out_for_the_status_of_a_search_have_a_sign() -> None:
    app = play.busy()
    async with app.run_test(size=(80, 24)) as pilot:
        await press(pilot, "/")
        await play.write(pilot, "nowhere")
        await press(pilot, "enter")
        await play.sees(pilot, "Why Events ", "no match")
        await pilot.resize_terminal(60, 24)
        await play.sees(pilot, "Setup … ", "no match")


async def test_what_is_copied_cannot_control_a_terminal_into_which_it_is_pasted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    app = MagicMock(is_web=False)
    await terminal.copy(app, "rm\x1b[201~ x\x07\n\x9b31my")
    app.copy_to_clipboard.assert_called_once_with("rm x·\n·31my")
