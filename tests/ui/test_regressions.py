"""Regression tests: one for each reported bug of the screen."""

import pytest

from gmg_tui.model import Fps
from gmg_tui.ui.slots import History, SlotView
from tests.ui import play, sessions, sweeps
from tests.ui.play import FakedApp, asked, press
from tests.ui.sessions import NOW
from tests.workers import changed

WIDE = (160, 48)


def _long_running() -> FakedApp:
    snapshot = sessions.busy_snapshot(8)
    workers = tuple(changed(worker, attempt_started=NOW - 7200.0) for worker in snapshot.workers)
    return play.app_of(play.engine_of(changed(snapshot, workers=workers)))


async def test_an_edit_of_workers_that_have_run_for_long_asks_first() -> None:
    app = _long_running()
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "e", "1", "ctrl+s")
        await play.sees(pilot, "Restart gpu0?", "2h 00m")
        assert asked(app.engine) == []
        await press(pilot, "y")
        await play.until(pilot, lambda: bool(asked(app.engine)))


async def test_an_edit_after_one_of_marked_workers_is_of_the_selected_one() -> None:
    app = play.busy()
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "space", "right", "space", "e", "1", "ctrl+s")
        await play.until(pilot, lambda: bool(asked(app.engine)))
        assert asked(app.engine)[-1][1] == ("gpu1", "gpu0")
        await press(pilot, "escape", "right", "e", "2", "ctrl+s")
        await play.until(pilot, lambda: len(asked(app.engine)) == 2)
        assert asked(app.engine)[-1][1] == ("gpu2",)


async def test_no_key_affects_another_worker_when_the_slot_of_the_details_is_removed() -> None:
    app = sweeps.app()
    async with app.run_test(size=WIDE) as pilot:
        slot = app.view.selected
        await press(pilot, "enter")
        snapshot = app.view.snapshot
        rest = tuple(worker for worker in snapshot.workers if worker.slot != slot)
        app.engine.push(changed(snapshot, workers=rest))
        await play.sees(pilot, f"{slot} is no longer in use")
        await press(pilot, "x", "r", "e")
        assert asked(app.engine) == []


async def test_a_message_takes_no_row_from_the_workers_and_disappears(monkeypatch: pytest.MonkeyPatch) -> None:
    app = play.busy()
    async with app.run_test(size=(160, 26)) as pilot:
        tiles, rows = app.main.grid.plan.tiles, app.main.grid.region
        await play.sees(pilot, "×392")
        log = play.screen(app)[-3:-1]
        await press(pilot, "exclamation_mark")
        await play.sees(pilot, "No worker has problems.")
        assert play.screen(app)[-3:-1] == log, "it covers the newest lines"
        assert (app.main.grid.plan.tiles, app.main.grid.region) == (tiles, rows)
        monkeypatch.setattr("gmg_tui.ui.session_app.MESSAGE_TIMEOUT_S", 0.05)
        await press(pilot, "exclamation_mark")
        await play.until(pilot, lambda: "No worker has problems." not in play.shown(app))


def test_a_tile_has_one_rate() -> None:
    fps = Fps(24_200_000.0, 23_000_000.0, 24_400_000.0, 9, settled=22_723_000.0)
    snapshot = sessions.edited_snapshot(fps=fps, last_line="Running at 24,188.68 FPS (5.91 FPS per env, 4096 envs).")
    slot = sessions.session(4).slots[0]
    shown = SlotView(slot, snapshot.workers[0], snapshot.samples[0], History(), sessions.NOW)
    text = "\n".join(str(row) for row in play.tile(shown, 60))
    assert "22,723,000 FPS" in text
    assert "printed" not in text
    assert "24.2" not in text
    assert "24,188" not in text


async def test_tiles_or_table_are_chosen_by_the_size_again_in_the_next_session() -> None:
    for _ in range(2):
        app = play.busy()
        async with app.run_test(size=WIDE) as pilot:
            await play.sees(pilot, "┏━ gpu0")
            await press(pilot, "t")
            assert "┏━ gpu0" not in play.shown(app)
