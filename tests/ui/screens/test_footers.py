"""The last row of every screen that has keys of its own: how to leave, where to find more, and what fits."""

from __future__ import annotations

from typing import cast

import pytest

from gmg_tui.ui import Outcome
from gmg_tui.ui.screens.help import HelpScreen
from tests.ui import play, sweeps
from tests.ui.screens.stage import click, press

SMALL = (80, 24)
SIZES = ((60, 12), SMALL, (120, 36), (160, 48))
OPENED = {"details": ("enter",), "processes": ("p",), "queue": ("Q",), "GPUs": ("Q", "c")}
"""The keys that open each screen."""


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", OPENED)
async def test_a_footer_is_one_row_with_how_to_leave_and_where_to_find_more(name: str, size: tuple[int, int]) -> None:
    app = sweeps.app(sweeps.engine())
    async with app.run_test(size=size) as pilot:
        await press(pilot, *OPENED[name])
        await play.sees(pilot, "esc back", "d detach", "? help")
        assert play.shown(app).count("? help") == (2 if name == "GPUs" else 1)
        row = next(row for row in play.screen(app) if "esc back" in row)
        assert "d detach" in row
        assert "? help" in row


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("details", "r restart  x stop  e edit  esc back  ← h prev  → l next  d detach  ? help"),
        ("processes", "esc back  r refresh  x SIGTERM  X SIGKILL  d detach  q quit  ? help"),
        ("queue", "esc back  s skip  r retry  c GPUs  u up  n down  U top  d detach  ? help"),
        ("GPUs", "space on/off  esc back  d detach  q quit  ? help"),
    ],
)
async def test_on_80_columns_the_keys_that_matter_most_are_there(name: str, keys: str) -> None:
    app = sweeps.app(sweeps.engine())
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, *OPENED[name])
        await play.sees(pilot, keys)


@pytest.mark.parametrize("name", OPENED)
async def test_the_keys_that_every_footer_has_work_and_can_be_clicked(name: str) -> None:
    app = sweeps.app(sweeps.engine())
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, *OPENED[name])
        screen = app.screen
        for ask in ("question_mark", "click"):
            await (click(pilot, "? help") if ask == "click" else press(pilot, ask))
            assert isinstance(app.screen, HelpScreen)
            await press(pilot, "escape")
            assert app.screen is screen
        for key in ("q", "ctrl+c"):
            await press(pilot, key)
            await play.sees(pilot, "Quit sweep-1")
            await press(pilot, "escape")
            assert app.screen is screen
        await press(pilot, "d")
        assert cast("Outcome", app.return_value).how == "detached"


async def test_without_unicode_arrows_are_words() -> None:
    app = sweeps.app(sweeps.engine(), ascii_only=True)
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "enter")
        await play.sees(pilot, "left h prev", "? help")
        assert play.screen(app)[-1].isascii()


async def test_ctrl_c_in_the_palette_asks_as_everywhere() -> None:
    app = sweeps.app(sweeps.engine())
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "ctrl+p")
        await play.sees(pilot, "Search for commands")
        await press(pilot, "ctrl+c")
        await play.sees(pilot, "Quit sweep-1")
        await press(pilot, "escape")
        await play.sees(pilot, "Search for commands")
