"""How the main screen shares out its rows."""

from __future__ import annotations

import pyte
import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.pseudo_terminal import text_of
from tests.ui import play


async def test_headline_workers_log_and_keys_fill_the_screen() -> None:
    app = play.varied()
    async with app.run_test(size=(120, 36)) as pilot:
        for size in ((60, 12), (60, 15), (80, 24), (160, 48), (250, 70)):
            await pilot.resize_terminal(*size)
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


async def test_hidden_tiles_are_counted() -> None:
    app = play.busy()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("t")
        await play.sees(pilot, "1-4 of 8")
        await pilot.press("j", "j")
        await play.sees(pilot, "3-6 of 8", "gpu5")
        await pilot.press("t")
        await play.sees(pilot, "gpu7")
        assert "of 8" not in play.shown(app)


async def test_the_first_frame_shows_all_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not a blank that is filled afterwards."""
    size = (120, 36)
    sent = play.record(monkeypatch, Console(width=size[0], color_system="256"))
    async with play.busy().run_test(size=size):
        terminal = pyte.Screen(*size)
        pyte.Stream(terminal).feed(sent[0])
    assert [word for word in (*map("gpu{}".format, range(8)), "Σ") if word not in text_of(terminal)] == []
