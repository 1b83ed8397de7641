"""Searching the log of a group."""

from __future__ import annotations

import pytest

from gmg_tui.protocol import Lines
from tests.ui import play, ranks
from tests.ui.screens.stage import press


@pytest.mark.parametrize("late", [0, 3, 40])
async def test_the_match_stays_on_its_line_when_the_log_is_paused_and_followed_again(late: int) -> None:
    """Rows of a group used to change places on release: another line was highlighted, or an `IndexError` was raised."""
    app = play.app_of(play.engine_of(ranks.whole()))
    async with app.run_test(size=(120, 40)) as pilot:
        await press(pilot, "do:screen.group_log")
        log = app.main.log_view
        slots = tuple(log.source[1])
        for number, slot in enumerate(slots):
            log.take(Lines(slot, 10_000, (f"needle {number}", *["other"] * 5)))
        await press(pilot, "slash", *"needle", "enter")
        await play.until(pilot, lambda: log.line.startswith("needle"), "a match")
        before = log.line
        for slot in reversed(slots):
            log.take(Lines(slot, 10_006, tuple("late" for _ in range(late))))
        await pilot.pause()
        assert log.line == before
        await press(pilot, "n", "N")
        assert log.line == before
