"""Terminals that are too small: what stands there, what works there, and what comes back."""

from __future__ import annotations

from textual.events import Resize
from textual.geometry import Size

from tests.ui import play, sweeps
from tests.ui.screens import stage
from tests.ui.screens.stage import asked, press

LARGE = (100, 30)
TINY = [(59, 24), (80, 11), (4, 20), (1, 1)]
SCREENS = {
    "": "? Help",
    "enter": " 0│",
    "p": "Xorg",
    "slash": "search the log",
    "ctrl+p": "Search for",
}


async def test_a_screen_without_room_is_covered_and_restored() -> None:
    app = stage.app()
    async with app.run_test(size=LARGE) as pilot:
        for key, text in SCREENS.items():
            await press(pilot, *key.split())
            await play.sees(pilot, text)
            before = play.screen(app)
            for size in TINY if not key else TINY[:1]:
                await pilot.resize_terminal(*size)
                await press(pilot, "down", "w", "x")
                assert "gpu0" not in play.shown(app)
                await pilot.resize_terminal(*LARGE)
                await play.sees(pilot, text)
                assert play.screen(app) == before
            await press(pilot, "escape")
        assert asked(app.engine) == []


async def test_the_queue_without_room_is_covered_and_restored() -> None:
    app = sweeps.app()
    async with app.run_test(size=LARGE) as pilot:
        await press(pilot, "Q")
        await play.sees(pilot, "method=sde-b16")
        before = play.screen(app)
        await pilot.resize_terminal(30, 8)
        await press(pilot, "x", "r", "escape")
        assert "too small" in play.shown(app)
        await pilot.resize_terminal(*LARGE)
        await pilot.pause()
        assert play.screen(app)[-4:] == before[-4:]  # the table may have scrolled to its selected row
        assert {name for name, *_ in app.engine.asked} <= {"follow", "queue", "details", "series"}


async def test_the_message_wraps_and_names_both_sizes_and_what_works() -> None:
    app = stage.app()
    async with app.run_test(size=(20, 5)) as pilot:
        await play.sees(pilot, "too small")
        text = " ".join(play.shown(app).split())
        assert text == "20x5 is too small, 60x12 is needed. q quit d detach ? help"


async def test_keys_of_a_covered_screen_do_nothing() -> None:
    app = stage.app(stage.engine(stuck="no output and no CPU time for 74 s"))
    async with app.run_test(size=(50, 10)) as pilot:
        await play.sees(pilot, "too small")
        before = play.screen(app)
        for key in ("x", "X", "r", "R", "e", "enter", "t", "p", "slash", "ctrl+p", "f"):
            await press(pilot, key, "y")
            assert play.screen(app) == before
        assert asked(app.engine) == []


async def test_a_stale_size_changes_no_screen() -> None:
    """A screen of Textual sends itself the size that it was laid out for, which may not be the newest by then."""
    app = stage.app()
    async with app.run_test(size=LARGE) as pilot:
        for key in (*SCREENS, "q", "question_mark", "X"):
            await press(pilot, *key.split())
            app.screen.post_message(Resize(Size(120, 40), Size(120, 40)))
            await pilot.pause()
            assert app.screen.size == Size(*LARGE)
            await press(pilot, "escape")


async def test_quit_help_and_detach_work_in_any_size() -> None:
    app = stage.app()
    async with app.run_test(size=(30, 8)) as pilot:
        await press(pilot, "question_mark")
        await play.sees(pilot, "Help")
        await press(pilot, "escape", "q")
        await play.sees(pilot, "Quit franka-1")
        await pilot.resize_terminal(*LARGE)
        await press(pilot, "escape")
        await play.sees(pilot, "gpu0 log")
        await press(pilot, "q")
        await pilot.resize_terminal(30, 8)
        await play.sees(pilot, "Quit franka-1")
        await press(pilot, "escape")
        await play.sees(pilot, "too small")
        await press(pilot, "d")
    assert app.return_value is not None
    assert app.return_value.how == "detached"
