"""How the main screen shares out its rows."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from tests.ui import play


@pytest.mark.parametrize("size", [(60, 12), (80, 24), (120, 36), (160, 48), (200, 60)])
async def test_headline_workers_log_and_keys_fill_the_screen(size: tuple[int, int]) -> None:
    app = play.varied()
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        rows = play.screen(app)
        assert len(rows) == size[1]
        assert {cell_len(row) for row in rows} == {size[0]}
        assert "franka-1" in rows[0]
        assert "r Restart" in rows[-1]
        assert "? Help" in rows[-1]
        title = next(y for y, row in enumerate(rows) if "gpu0 log" in row)
        assert any("Running at" in row for row in rows[title:])
        assert len(rows) - 1 - title >= 4


@pytest.mark.parametrize("size", [(59, 24), (80, 11), (10, 3)])
async def test_too_small_a_terminal_is_told_and_a_larger_one_is_filled_again(size: tuple[int, int]) -> None:
    app = play.busy()
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        text = play.shown(app)
        assert "x".join(map(str, size)) in text
        assert "gpu0" not in text
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert "too small" not in play.shown(app)
        assert "q Quit" in play.screen(app)[-1]


async def test_tiles_that_are_out_of_sight_are_counted() -> None:
    app = play.busy()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("t")
        await play.sees(pilot, "1-2 of 8")
        await pilot.press("j")
        await play.sees(pilot, "3-4 of 8", "gpu2")
        await pilot.press("t")
        await play.sees(pilot, "gpu7")
        assert "of 8" not in play.shown(app)
