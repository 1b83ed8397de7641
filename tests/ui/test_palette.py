"""The palette offers what works on the screen beneath, and nothing else."""

from __future__ import annotations

import pytest

from tests.ui import play, sweeps
from tests.ui.play import FakedApp
from tests.ui.screens import stage
from tests.ui.screens.stage import press

EVERYWHERE = {"help", "detach", "quit", "redraw", "suspend"}
ON_A_WORKER = {"restart", "restart failed", "edit"}
MAIN_ONLY = {"view", "follow", "search", "details", "log up", "log start"}


def _offered(app: FakedApp) -> set[str]:
    return {command.title for command in app.get_system_commands(app.screen) if ": " not in command.title}


@pytest.mark.parametrize(
    ("keys", "there", "missing"),
    [
        ("", EVERYWHERE | ON_A_WORKER | MAIN_ONLY | {"processes", "stop", "kill"}, {"queue", "next", "leave"}),
        ("enter", EVERYWHERE | ON_A_WORKER | {"processes", "stop", "kill"}, MAIN_ONLY | {"queue", "next"}),
        ("p", EVERYWHERE, MAIN_ONLY | {"processes", "stop", "kill", "queue"}),
        ("slash B enter", EVERYWHERE | MAIN_ONLY | {"next", "previous", "leave"}, {"queue"}),
    ],
)
async def test_only_what_works_on_the_screen_beneath_is_offered(keys: str, there: set[str], missing: set[str]) -> None:
    app = stage.app()
    async with app.run_test(size=(100, 30)) as pilot:
        await press(pilot, *keys.split())
        offered = _offered(app)
        assert there <= offered
        assert not missing & offered


async def test_a_queue_is_offered_where_there_is_one_and_acts_on_no_worker() -> None:
    app = sweeps.app()
    async with app.run_test(size=(100, 30)) as pilot:
        assert "queue" in _offered(app)
        await press(pilot, "Q")
        assert _offered(app) == EVERYWHERE


async def test_what_is_offered_on_the_details_is_listed_and_runs() -> None:
    app = stage.app()
    async with app.run_test(size=(100, 30)) as pilot:
        await press(pilot, "enter", "ctrl+p")
        await play.sees(pilot, "Kill the worker at once")
        assert "Switch between tiles and table" not in play.shown(app)
