"""The search in the log: what is marked, scrolled to and said, and where the rest of the log is."""

from __future__ import annotations

from typing import Any

from rich.cells import cell_len
from textual.app import App
from textual.pilot import Pilot

from gmg_tui.protocol import Lines
from gmg_tui.ui import Outcome
from gmg_tui.ui.drawing.log_line import log_line
from gmg_tui.ui.log_buffer import LogRow
from gmg_tui.ui.widgets.log_bars import SearchBar
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


async def test_a_match_right_of_the_edge_is_scrolled_to_and_one_at_the_left_comes_back() -> None:
    app = _app("needle at the left", *["nothing"] * 30, "x" * 300 + "needle" + "y" * 50)
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "32 lines")
        await _search(pilot, "needle")
        await play.sees(pilot, "match 2 of 2", "xneedley", "from column")
        await press(pilot, "enter", "n")
        await play.sees(pilot, "match 1 of 2", "needle at the left")
        assert "from column" not in play.shown(app)
        await press(pilot, "N", "escape")
        await play.sees(pilot, "following", "nothing")
        assert "from column" not in play.shown(app)


async def test_a_match_behind_wide_characters_is_scrolled_to() -> None:
    app = _app("世" * 60 + "needle")
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "1 line")
        await _search(pilot, "needle")
        await play.sees(pilot, "世needle")


async def test_the_present_match_looks_unlike_the_others() -> None:
    app = _app("one needle", "two needle", "three needle")
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "3 lines")
        await _search(pilot, "needle")
        await play.sees(pilot, "match 3 of 3")
        styles = _styles(app, "needle")
        assert styles[0] == styles[1] != styles[2]
        await press(pilot, "enter", "N")
        await play.sees(pilot, "match 2 of 3")
        assert _styles(app, "needle") == [styles[0], styles[2], styles[1]]


async def test_the_field_says_how_it_searches_and_there_is_one_however_often_it_is_asked_for() -> None:
    app = play.busy()
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "slash")
        await play.sees(pilot, "literal, any case")
        await app.run_action("search")
        await app.run_action("search")
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
        assert not app.main.query(SearchBar)


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


def test_a_wide_character_is_scrolled_out_by_its_cells() -> None:
    look = play.busy().appearance
    row = LogRow("世界 " * 20)
    for offset in range(60):
        text = log_line(row, row.text, 30, offset, "", look).text
        assert cell_len(text) == 30
        assert text[:1] == {0: "世", 1: " ", 2: "界", 3: " ", 4: " "}[offset % 5]
