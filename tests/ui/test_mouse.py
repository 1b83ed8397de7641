"""What the mouse does: tabs, rows, headings and lines answer it as the keys do."""

from __future__ import annotations

from textual.pilot import Pilot

from gmg_tui.ui import Outcome
from tests.ui import play
from tests.ui.screens.stage import press

SMALL, WIDE = (80, 24), (132, 40)


async def _click_twice(pilot: Pilot[Outcome], text: str) -> None:
    row = next(number for number, line in enumerate(play.screen(pilot.app)) if text in line)
    await pilot.click(offset=(play.screen(pilot.app)[row].index(text), row), times=2)
    await pilot.pause()


async def test_a_double_click_shows_the_details_of_a_tile_and_of_a_row() -> None:
    for size in (SMALL, (160, 48)):
        app = play.busy(4)
        async with app.run_test(size=size) as pilot:
            await _click_twice(pilot, "gpu2 ")
            await play.sees(pilot, " 0│", " gpu2 ·")


async def test_a_click_on_a_column_heading_sorts_and_a_second_click_reverses() -> None:
    app = play.busy(4)
    async with app.run_test(size=(160, 24)) as pilot:
        await press(pilot, "t")
        await play.sees(pilot, "slot state")
        for heading in ("state", "FPS", "envs", "GPU %", "VRAM GiB", "W", "°C", "slot"):
            head = next(number for number, row in enumerate(play.screen(app)) if "slot" in row and "VRAM" in row)
            await pilot.click(offset=(play.screen(app)[head].rindex(heading), head))
            await pilot.pause()
            order, reverse = app.view.order, app.view.reverse
            names = {"GPU %": "utilisation", "VRAM GiB": "memory", "W": "power", "°C": "temperature"}
            assert order.name.lower() == names.get(heading, heading.lower()), heading
            head = next(number for number, row in enumerate(play.screen(app)) if "slot" in row and "VRAM" in row)
            await pilot.click(offset=(play.screen(app)[head].rindex(heading), head))
            await pilot.pause()
            assert (app.view.order, app.view.reverse) == (order, not reverse)
        assert app.view.selected == "gpu0"
