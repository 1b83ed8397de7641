"""The log of the chosen worker: how it is followed, paused and searched."""

from __future__ import annotations

import pytest

from gmg_tui.protocol import Lines
from gmg_tui.ui.log.buffer import KEPT_ROWS as KEPT_LINES
from gmg_tui.ui.log import view as log_view
from tests.ui import play, sessions
from tests.ui.play import FakedApp, press

SMALL = (80, 24)


def _more(app: FakedApp, number: int, text: str = "later") -> None:
    first = app.main.log_view.buffer.known
    app.engine.push(Lines("gpu0", first, tuple(f"{text} {i}" for i in range(number))))


def _plain() -> FakedApp:
    """An app with logs without progress lines, of which none are folded."""
    app = play.busy()
    app.engine.log = {
        slot: [f"Compiling {i}" if i == 50 else f"step {i}" for i in range(400)] for slot in app.engine.log
    }
    return app


def _log(app: FakedApp) -> list[str]:
    """The log's title and the rows under it."""
    rows = play.screen(app)
    begin = next(y for y, row in enumerate(rows) if " log " in row and row.startswith("─"))
    return rows[begin:-1]


async def test_the_log_follows_until_a_page_up_and_again_after_end() -> None:
    app = _plain()
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "following", "400 lines")
        _more(app, 3)
        await play.sees(pilot, "later 2", "403 lines")
        await press(pilot, "pageup")
        held = _log(app)[1:]
        assert "later" not in "".join(held)
        below = app.main.log_view._page - 1
        assert f"paused, {below} lines below" in _log(app)[0]
        _more(app, 5)
        await play.sees(pilot, f"paused, {below + 5} lines below", "408 lines")
        assert _log(app)[1:] == held
        await press(pilot, "end")
        assert "following" in _log(app)[0]
        _more(app, 1, "newest")
        await play.sees(pilot, "newest 0")


async def test_held_lines_stay_under_a_flood_and_the_newest_are_sent_when_they_are_let_go() -> None:
    app = _plain()
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "following", "400 lines")
        await press(pilot, "home")
        held = _log(app)[1:]
        lines = 400 + 3 * KEPT_LINES
        for first in range(400, lines, 1000):
            app.engine.push(Lines("gpu0", first, ("flood",) * 1000))
        app.engine.log["gpu0"] = ["older"] * (lines - 1) + ["the newest of all"]
        await play.sees(pilot, f"{lines - app.main.log_view._page:,} lines below", f"{lines:,} lines")
        assert _log(app)[1:] == held
        await press(pilot, "end")
        await play.sees(pilot, "following", "the newest of all")
        _more(app, 1, "and on")
        await play.sees(pilot, "and on 0")
        assert app.main.log_view.buffer.kept <= KEPT_LINES * 9 / 8


async def test_f_holds_and_follows_and_paging_down_to_the_end_follows_again() -> None:
    app = play.busy()
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "400 lines")
        await press(pilot, "f")
        await play.sees(pilot, "gpu0 log paused")
        await press(pilot, "f")
        await play.sees(pilot, "following")
        await press(pilot, "home")
        await play.sees(pilot, "Genesis initialized")
        play.burst(pilot, *["pagedown"] * 60)
        await play.sees(pilot, "following", "400 lines")


async def test_the_wheel_scrolls() -> None:
    app = _plain()
    async with app.run_test(size=(60, 24)) as pilot:
        await play.sees(pilot, "400 lines")
        await pilot._post_mouse_events([_wheel_up()], app.main.log_view)
        await play.sees(pilot, "paused, 3 lines below")


def _wheel_up() -> type:
    from textual.events import MouseScrollUp

    return MouseScrollUp


async def test_search_marks_counts_and_goes_from_place_to_place() -> None:
    app = _plain()
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "400 lines")
        await press(pilot, "slash", *"Compiling")
        await play.sees(pilot, "match 1 of 1", "Compiling 50", "paused")
        await press(pilot, "escape")
        await play.sees(pilot, "following")
        assert "match " not in _log(app)[0]
        await press(pilot, "slash", *"step", "enter")
        count = len(app.main.log_view.buffer.matches)
        await play.sees(pilot, f"of {count}")
        await press(pilot, "N", "N")
        await play.sees(pilot, f"match {count - 2} of {count}")
        await press(pilot, "n", "n", "n")
        await play.sees(pilot, f"match 1 of {count}")
        await press(pilot, "slash", *"zzz")
        await play.sees(pilot, "no match")
        await press(pilot, "enter", "escape")
        await play.sees(pilot, "following", "400 lines")


async def test_letters_that_are_keys_are_text_while_searching() -> None:
    app = play.busy()
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "400 lines")
        await press(pilot, "slash", *"xXrqd")
        await play.until(pilot, lambda: len(app.main.log_view.buffer.query) == 5)
        assert [name for name, *_ in app.engine.asked if name != "follow"] == []
        assert app.return_value is None
        assert app.main.log_view.buffer.query == "xxrqd"


async def test_lines_of_another_worker_that_come_late_are_not_shown() -> None:
    app = play.busy()
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "400 lines")
        await press(pilot, "down")
        app.engine.push(Lines("gpu0", 400, ("a line of gpu0",)))
        app.engine.push(Lines("gpu1", 400, ("a line of gpu1",)))
        await play.sees(pilot, "a line of gpu1", "401 lines")
        assert "a line of gpu0" not in play.shown(app)


async def test_a_slow_line_shows_that_lines_are_missing() -> None:
    app = play.busy()
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "400 lines")
        app.engine.push(Lines("gpu0", 90_400, ("after the gap",)))
        await play.sees(pilot, "… 90,000 lines skipped", "after the gap", "90,401 lines")


async def test_progress_lines_may_wait_and_keep_no_other_line_waiting() -> None:
    app = play.busy(1)
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "400 lines", "q Quit")  # the footer comes after the first frame
        app.main.log_view.pace.period_s = 1e6
        number = app.main.log_view.buffer.next_line
        assert number is not None
        drawn = play.screen(app)
        app.engine.push(Lines("gpu0", number, (sessions.fps_line(0, 24e6),) * 20))
        while app.main.log_view.buffer.next_line != number + 20:
            await pilot.pause()
        assert play.screen(app) == drawn
        app.main.log_view.pace.period_s = 0.0
        app.engine.push(Lines("gpu0", number + 20, ("something else",)))
        await play.sees(pilot, "something else", "421 lines")


async def test_the_newest_line_of_a_worker_that_prints_only_progress_is_there_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_view, "_PROGRESS_PERIODS", 10**9)
    app = play.busy(2)
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "400 lines")
        app.main.log_view.pace.period_s = 0.01
        app.main.log_view.open("gpu9")
        app.main.log_view.take(Lines("gpu9", 0, ("the scene", "the visualizer")))
        app.main.log_view.take(Lines("gpu9", 5000, (sessions.fps_line(0, 24e6),) * 20))
        await play.sees(pilot, "the visualizer", "Running at 24,000,000.00 FPS", "5,020 lines")
