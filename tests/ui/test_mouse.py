"""The mouse selects workers."""

from __future__ import annotations

from tests.ui import play

SMALL, WIDE = (80, 24), (160, 48)


async def test_a_click_selects_a_worker_in_tiles_and_in_the_table() -> None:
    for size in (SMALL, WIDE):
        app = play.busy(4)
        async with app.run_test(size=size) as pilot:
            row = next(number for number, line in enumerate(play.screen(app)) if "gpu2 " in line)
            await pilot.click(offset=(play.screen(app)[row].index("gpu2 "), row))
            await play.sees(pilot, "gpu2 log")
