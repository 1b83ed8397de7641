"""How the main screen shares out its rows."""

from __future__ import annotations

import pyte
import pytest
from rich.console import Console

from tests.pseudo_terminal import text_of
from tests.ui import play


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
