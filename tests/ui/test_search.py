"""The search in the log: what is marked, scrolled to and said, and where the rest of the log is."""

from __future__ import annotations

from typing import Any

from textual.app import App
from textual.pilot import Pilot

from gmg_tui.protocol import Lines
from gmg_tui.ui import Outcome
from gmg_tui.ui.line_bar import LineBar
from tests.ui import play
from tests.ui.play import FakedApp
from tests.ui.screens.stage import press

SMALL = (80, 24)


def _app(*lines: str) -> FakedApp:
    app = play.busy()
    app.engine.log = {slot: list(lines) for slot in app.engine.log}
    return app


def _styles(app: App[Any], text: str) -> list[str]:
    """How each occurrence of `text` is drawn, from the top, as its attributes."""
    found = []
    for strip in app.screen._compositor.render_strips():
        for segment in strip:
            if segment.text == text and segment.style is not None:
                found.append(str(segment.style.without_color))
    return found


async def _search(pilot: Pilot[Outcome], text: str) -> None:
    await press(pilot, "slash", *text)


async def test_the_present_match_looks_unlike_the_others() -> None:
    app = _app("one needle", "two needle", "three needle")
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "3 lines")
        await _search(pilot, "needle")
        await play.until(pilot, lambda: len(_styles(app, "needle")) >= 3, "the search for the whole word")
        styles = _styles(app, "needle")[:3]
        assert styles[0] == styles[1] != styles[2]
        await press(pilot, "enter", "N")
        await play.sees(pilot, "match 2 of 3")
        assert _styles(app, "needle") == [styles[0], styles[2], styles[1]]


async def test_the_field_says_how_it_searches_and_there_is_one_however_often_it_is_asked_for() -> None:
    app = play.busy()
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "slash")
        await play.sees(pilot, "search the log")
        await app.run_action("screen.search")
        await app.run_action("screen.search")
        await press(pilot, "a")
        assert [bar.value for bar in app.main.query(SearchBar)] == ["a"]
        await press(pilot, "escape")
        assert not app.main.query(SearchBar)


async def test_keys_by_the_thousand_are_searched_for_a_few_times_only() -> None:
    app = play.busy()
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "400 lines")
        await press(pilot, "slash")
        buffer, searched = app.main.log_view.buffer, 0

        def search(query: str) -> None:
            nonlocal searched
            searched += 1
            type(buffer).search(buffer, query)

        buffer.search = search  # type: ignore[method-assign]
        play.burst(pilot, *["a"] * 2000, "z")
        await play.sees(pilot, "aaz", "no match")
        assert buffer.query == "a" * 2000 + "z"
        assert searched < 500


async def test_enter_at_once_keeps_all_that_was_typed() -> None:
    app = play.busy()
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "400 lines")
        await press(pilot, "slash")
        play.burst(pilot, *"Compiling", "enter")
        await play.sees(pilot, "match 1 of 1")
        assert app.main.log_view.buffer.query == "compiling"
        await play.until(pilot, lambda: not app.main.query(SearchBar))


async def test_f_holds_a_log_that_is_shorter_than_the_view() -> None:
    app = _app("one", "two")
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "2 lines", "following")
        await press(pilot, "f")
        await play.sees(pilot, "gpu0 log paused")
        app.engine.push(Lines("gpu0", 2, tuple(f"later {i}" for i in range(40))))
        await play.sees(pilot, "42 lines", "lines below", "one")
        await press(pilot, "f")
        await play.sees(pilot, "following", "later 39")


async def test_where_scrolling_ends_the_command_for_the_rest_is_named() -> None:
    app = play.busy()
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "400 lines")
        await press(pilot, "home")
        await play.sees(pilot, "Genesis initialized")
        assert "gmg-tui logs" not in play.shown(app)
        await press(pilot, "end")  # what is held stays
        app.engine.push(Lines("gpu0", 90_400, ("after the gap",)))
        await play.sees(pilot, "after the gap")
        app.main.log_view.buffer.extend(90_401, ["x"] * 6000)
        await press(pilot, "home")
        await play.sees(pilot, "above: gmg-tui logs franka-1 gpu0")
        await press(pilot, "pagedown")
        assert "gmg-tui logs" not in play.shown(app)
