"""The help: what it has, on any terminal, and where it begins."""

from typing import Any

import pytest
from textual.pilot import Pilot

from gmg_tui.model import WorkerState
from gmg_tui.ui import keys
from gmg_tui.ui.drawing import STATE_SYMBOLS
from gmg_tui.ui.pages.help import HelpScreen, Scroll
from tests.ui import play
from tests.ui.play import press

SMALL = (80, 24)


async def _read_through(pilot: Pilot[Any]) -> str:
    """All that the help has, each row once, as it reads however it is broken into rows."""
    box = pilot.app.screen.query_one(Scroll)
    rows: dict[int, str] = {}
    await press(pilot, "home")
    while True:
        seen = box.scrollable_content_region
        page = play.screen(pilot.app)[seen.y : seen.bottom]
        rows |= {int(box.scroll_y) + number: row[seen.x : seen.right] for number, row in enumerate(page)}
        if box.scroll_y >= box.max_scroll_y:
            return " ".join(" ".join(rows[number] for number in sorted(rows)).split())
        await press(pilot, "pagedown")


@pytest.mark.parametrize("size", [(60, 12), (160, 48)])
async def test_the_help_lists_every_key_state_and_metric_on_any_terminal(size: tuple[int, int]) -> None:
    app = play.edited()
    async with app.run_test(size=size) as pilot:
        await press(pilot, "question_mark")
        text = await _read_through(pilot)
    for key in keys.MAIN:
        if key.id is not None:
            assert key.tooltip, key
            assert key.tooltip in text, key
    for state in WorkerState:
        assert STATE_SYMBOLS[state] in text
        assert state.value in text
    assert "FPS/W" in text


@pytest.mark.parametrize(
    ("opening", "texts"), [("a", ("Edit the worker's settings, starting from these.",)), ("a", ("Go back one step.",))]
)
async def test_on_a_page_the_help_begins_with_the_keys_of_that_page(opening: str, texts: tuple[str, ...]) -> None:
    app = play.edited()
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, opening, "question_mark")
        rows = play.screen(app)
        assert "Keys of this page" in rows[1]
        first = "\n".join(rows).partition("\nKeys")[0]
        assert all(text in first for text in texts)
        await press(pilot, "escape")
        assert not isinstance(app.screen, HelpScreen)


async def test_the_help_scrolls_and_closes_also_by_the_key_that_the_user_has_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(keys.keymap, "help", "f1,question_mark")
    app = play.edited()
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "question_mark")
        box = app.screen.query_one(Scroll)
        await press(pilot, "end")
        assert box.scroll_y == box.max_scroll_y > 0
        await press(pilot, "k", "pageup")
        assert 0 < box.scroll_y < box.max_scroll_y - 1
        await press(pilot, "home", "down", "j")
        assert box.scroll_y == 2
        for key in ("escape", "ctrl+c", "question_mark", "f1"):
            await press(pilot, key)
            assert app.screen is app.main
            assert app.return_value is None
            await press(pilot, "question_mark")
