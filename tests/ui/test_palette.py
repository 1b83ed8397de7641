"""The palette offers what works on the screen beneath, and nothing else."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from gmg_tui.ui import Outcome
from tests.ui import play
from tests.ui.play import FakedApp, press

EVERYWHERE = {"Help (?)", "Detach (d)", "Quit (q)", "Redraw"}
ON_A_WORKER = {"Restart (r)", "Stop (x)", "Kill (X)", "Edit (e)", "Processes (p)"}
MAIN_ONLY = {"View (t)", "Follow (f)", "Search (/)", "Log start (Home)", "Open log in pager"}


async def _offered(app: FakedApp, pilot: Pilot[Outcome]) -> set[str]:
    """What the palette offers once it has been opened over the screen."""
    beneath = app.screen
    await press(pilot, "ctrl+p")
    return {command.title for command in app.get_system_commands(beneath) if ": " not in command.title}


@pytest.mark.parametrize(
    ("keys", "there", "missing"),
    [
        ("", EVERYWHERE | ON_A_WORKER | MAIN_ONLY, {"Queue (Q)", "Next match (n)", "Back (esc)"}),
        ("enter", {"Redraw", "Kill (X)", "Processes (p)"}, MAIN_ONLY | {"Queue (Q)", "Next match (n)"}),
        ("p", {"Redraw"}, MAIN_ONLY | {"Restart (r)", "Edit (e)", "Queue (Q)", "Python stacks"}),
        ("slash B enter", EVERYWHERE | MAIN_ONLY | {"Next match (n)", "Back (esc)"}, {"Queue (Q)"}),
    ],
)
async def test_the_palette_offers_only_what_works_on_the_current_screen(
    keys: str, there: set[str], missing: set[str]
) -> None:
    app = play.edited()
    async with app.run_test(size=(100, 30)) as pilot:
        await press(pilot, *keys.split())
        offered = await _offered(app, pilot)
        assert there <= offered
        assert not missing & offered
