"""A GPU that is slower than the others with the same arguments says so wherever it is drawn."""

from __future__ import annotations

import pytest

from gmg_tui import units
from gmg_tui.model import Snapshot
from tests.ui import play, sessions, sweeps
from tests.ui.screens.stage import press

_SLOW = "−8 % of the median"


def _snapshot(slow: int = 1) -> Snapshot:
    workers = [sessions.running(index) for index in range(4)]
    workers[slow] = sessions.changed(workers[slow], below_median_pct=-8.04)
    return sessions.changed(sessions.busy_snapshot(4), workers=tuple(workers))


def test_a_change_has_its_sign() -> None:
    assert [units.percent(pct) for pct in (-8.04, -3.5001, -0.2, 0.4, 12.0)] == [
        "−8 %",
        "−4 %",
        "+0 %",
        "+0 %",
        "+12 %",
    ]


@pytest.mark.parametrize(("ascii_only", "said"), [(False, _SLOW), (True, "-8 % of the median")])
async def test_its_tile_says_so_and_the_others_do_not(ascii_only: bool, said: str) -> None:
    app = play.app_of(play.engine_of(_snapshot()), ascii_only=ascii_only)
    async with app.run_test(size=(160, 48)) as pilot:
        await play.sees(pilot, said)
        rows = [row for row in play.screen(app) if said in row]
        assert len(rows) == 1
        assert rows[0].count("median") == 1


async def test_its_row_says_so_at_any_width_and_the_line_below_in_full() -> None:
    for size, keys, said in (((80, 24), ("down",), "−8 % median"), ((160, 48), ("t", "down"), _SLOW)):
        app = play.app_of(play.engine_of(_snapshot()))
        async with app.run_test(size=size) as pilot:
            await press(pilot, *keys)
            await play.sees(pilot, said, _SLOW)
            row = next(row for row in play.screen(app) if row.startswith("▸ gpu1"))
            assert said in row
            assert "24,127,240" in row


async def test_in_a_sweep_its_tile_says_so() -> None:
    engine = sweeps.engine()
    snapshot = engine.snapshot
    first = sessions.changed(snapshot.workers[0], below_median_pct=-8.04)
    app = sweeps.app(engine)
    async with app.run_test(size=(160, 48)) as pilot:
        engine.push(sessions.changed(snapshot, workers=(first, *snapshot.workers[1:])))
        await play.sees(pilot, _SLOW)


async def test_its_details_say_so() -> None:
    app = play.app_of(play.engine_of(_snapshot(0)))
    async with app.run_test(size=(80, 24)) as pilot:
        await press(pilot, "enter")
        await play.sees(pilot, "attempt 1", _SLOW)
