"""Sorting, filtering and looking for trouble, from the keys to the screen."""

from __future__ import annotations

import pytest
from textual import events
from textual.pilot import Pilot

from gmg_tui.model import Fps, Snapshot
from gmg_tui.protocol import Action
from gmg_tui.ui import Outcome
from gmg_tui.ui.arrangement import CALM_S, Arrangement, Filter, Order, Placed
from gmg_tui.ui.drawing import words, worker_table
from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.row import Row
from tests.ui import play, sessions
from tests.ui.play import FakedApp, press

WIDE = (160, 48)


def _rates(*millions: float | None, second: float = 0.0) -> Snapshot:
    """As many workers, each with its rate."""
    snapshot = sessions.busy_snapshot(len(millions), second)
    workers = tuple(
        sessions.changed(
            worker, fps=None if rate is None else Fps(rate * 1e6, rate * 1e6, rate * 1e6, 9, settled=rate * 1e6)
        )
        for worker, rate in zip(snapshot.workers, millions, strict=True)
    )
    return sessions.changed(snapshot, workers=workers)


async def _push(pilot: Pilot[Outcome], app: FakedApp, snapshot: Snapshot) -> None:
    app.engine.push(snapshot)
    await play.until(pilot, lambda: app.view.snapshot is snapshot)
    await pilot.pause()


def _placed(snapshot: Snapshot) -> list[Placed]:
    slots = sessions.session(len(snapshot.workers)).slots
    return [Placed(*each) for each in zip(slots, snapshot.workers, snapshot.samples, strict=True)]


@pytest.mark.parametrize("size", [(60, 12), (80, 24), WIDE])
async def test_sorting_by_fps_keeps_the_selection_and_the_same_again_reverses_it(size: tuple[int, int]) -> None:
    app = play.app_of(play.engine_of(_rates(5, 9, None, 7)))
    async with app.run_test(size=size) as pilot:
        await press(pilot, "do:screen.sort_by('FPS')")
        assert app.view.slots == ("gpu1", "gpu3", "gpu0", "gpu2")
        assert app.view.selected == "gpu0"
        assert "↓ by FPS, highest first" in play.shown(app)
        await press(pilot, "do:screen.sort_by('FPS')")
        assert app.view.slots == ("gpu0", "gpu3", "gpu1", "gpu2")
        assert "↑ by FPS, lowest first" in play.shown(app)
        await press(pilot, "do:screen.sort_by('slot')")
        assert app.view.slots == app.view.present
        assert "first" not in play.shown(app)


async def test_sorting_shows_the_first_ones_and_an_arrow_returns_to_the_selection() -> None:
    app = play.busy(64)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "do:screen.sort_by('FPS')")
        assert app.main.grid._slots()[0] == app.view.slots[0] != "gpu0"
        assert app.view.selected == "gpu0"
        await press(pilot, "left")
        assert app.view.selected in app.main.grid._slots()


async def test_the_table_has_the_sign_of_the_direction_at_its_column() -> None:
    app = play.busy()
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "t")
        for order, title in {
            "FPS": "↓FPS",
            "state": "↑state",
            "GPU %": "↓GPU %",
            "VRAM": "↓VRAM GiB",
            "°C": "↓°C",
            "envs": "↓envs",
        }.items():
            await press(pilot, f"do:screen.sort_by({order!r})")
            assert title in play.shown(app)


async def test_the_list_rests_under_the_cursor_and_small_changes_move_nothing() -> None:
    app = play.app_of(play.engine_of(_rates(5, 9, 7)))
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "do:screen.sort_by('FPS')")
        assert app.view.slots == ("gpu1", "gpu2", "gpu0")
        await _push(pilot, app, _rates(20, 9, 7, second=CALM_S - 1))
        assert app.view.slots == ("gpu1", "gpu2", "gpu0")
        await press(pilot, "left")
        await _push(pilot, app, _rates(20, 9, 7, second=CALM_S + 1))
        assert app.view.slots == ("gpu1", "gpu2", "gpu0"), "the selection was moved just now"
        await _push(pilot, app, _rates(20, 9, 7, second=2 * CALM_S))
        assert app.view.slots == ("gpu0", "gpu1", "gpu2")
        await _push(pilot, app, _rates(20, 9, 9.1, second=4 * CALM_S))
        assert app.view.slots == ("gpu0", "gpu2", "gpu1")
        await _push(pilot, app, _rates(20, 9.2, 9.1, second=6 * CALM_S))
        assert app.view.slots == ("gpu0", "gpu2", "gpu1"), "2 % is no reason to move"


def test_the_worst_are_first_and_the_unknown_last_both_ways() -> None:
    arrangement = Arrangement()
    arrangement.sort_by(Order.STATE)
    placed = _placed(sessions.varied_snapshot())
    first = arrangement.arrange(placed, 0.0)
    assert first[:3] == ("gpu3", "gpu4", "gpu7"), "failed, stuck, lost"
    arrangement.sort_by(Order.FPS, reverse=True)
    rates = _placed(_rates(None, 2, 1))
    assert arrangement.arrange(rates, 0.0) == ("gpu2", "gpu1", "gpu0")
    arrangement.sort_by(Order.FPS)
    assert arrangement.arrange(rates, 0.0) == ("gpu1", "gpu2", "gpu0")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("failed", {"gpu3"}),
        ("state:failed", {"gpu3"}),
        ("MEMORY cuda", {"gpu3"}),
        ("stuck", {"gpu4"}),
        ("state:stuck gpu3", set()),
        ("slot:gpu[12]", {"gpu1", "gpu2"}),
        ("slot:gpu", set()),
        ("reason:thermal", {"gpu1"}),
        ("http://x", set()),
        ("slot:[", set()),
        ("   ", {f"gpu{i}" for i in range(8)}),
    ],
)
def test_a_filter_shows_what_holds_all_its_words(text: str, shown: set[str]) -> None:
    sought = Filter(text)
    assert {one.slot.name for one in _placed(sessions.varied_snapshot()) if sought.holds(one)} == shown


@pytest.mark.parametrize("size", [(60, 12), (80, 24), WIDE])
async def test_the_filter_is_seen_and_esc_ends_it(size: tuple[int, int]) -> None:
    app = play.varied()
    async with app.run_test(size=size) as pilot:
        await press(pilot, "do:screen.filter_workers", *"failed", "enter")
        await play.sees(pilot, "1 of 8 shown")
        assert app.view.slots == (app.view.selected,) == ("gpu3",)
        assert app.main.log_view.source[0] == "gpu3"
        await press(pilot, "escape")
        assert app.view.slots == app.view.present
        assert "shown ·" not in play.shown(app)


async def test_a_filter_that_shows_nobody_says_so_and_keys_act_on_nobody() -> None:
    app = play.busy()
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "do:screen.filter_workers", *"nobody", "enter")
        await play.sees(pilot, "No worker matches the filter.", "0 of 8 shown")
        await press(
            pilot,
            "x",
            "X",
            "r",
            "e",
            "space",
            "enter",
            "p",
            "do:stacks",
            "down",
            "exclamation_mark",
            "do:screen.sort_by('FPS')",
            "t",
        )
        assert not [request for request in app.engine.asked if request[0] != "follow"]
        await press(pilot, "escape")
        assert app.view.selected == "gpu0"


async def test_what_keys_act_on_does_not_vanish_from_a_filter_by_itself() -> None:
    app = play.varied()
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "do:screen.filter_workers", *"failed", "enter", "space")
        await _push(pilot, app, sessions.busy_snapshot(second=2 * CALM_S))
        assert app.view.slots == ("gpu3",), "it runs again, but is selected and marked"
        await press(pilot, "do:screen.filter_workers", *["backspace"] * 6, *"slot:gpu6", "enter")
        assert app.view.slots == ("gpu3", "gpu6")
        await press(pilot, "x")
        assert app.engine.asked[-1] == (Action.STOP, "gpu3")


async def test_restarting_all_that_failed_asks_where_the_filter_hides_some() -> None:
    app = play.varied()
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "do:screen.filter_workers", *"failed", "enter", "do:restart_failed")
        await play.sees(pilot, "2 workers have failed or are stuck; the filter hides 1 of them.", "Restart")
        await press(pilot, "n")
        assert not [request for request in app.engine.asked if request[0] is Action.RESTART]
        await press(pilot, "do:restart_failed", "y")
        assert app.engine.asked[-1] == (Action.RESTART, "gpu3", "gpu4")


async def test_trouble_is_gone_through_in_the_order_of_the_screen_and_round() -> None:
    app = play.varied()
    async with app.run_test(size=WIDE) as pilot:
        seen = []
        for _ in range(5):
            await press(pilot, "exclamation_mark")
            seen.append(app.view.selected)
        assert seen == ["gpu1", "gpu3", "gpu4", "gpu7", "gpu1"]
        await press(pilot, "do:screen.filter_workers", *"state:failed", "enter", "exclamation_mark")
        await play.sees(pilot, "No other worker has problems.")
        await press(pilot, "do:screen.filter_workers", *["backspace"] * 12, *"slot:gpu0", "enter", "exclamation_mark")
        await play.sees(pilot, "No visible worker has problems.")
        await press(pilot, "escape")
        await _push(pilot, app, sessions.busy_snapshot(second=9.0))
        await press(pilot, "exclamation_mark")
        await play.sees(pilot, "No worker has problems.")


@pytest.mark.parametrize("view", ["tiles", "table"])
async def test_the_wheel_scrolls_and_what_is_in_sight_can_be_clicked(view: str) -> None:
    app = play.busy(64)
    async with app.run_test(size=WIDE) as pilot:
        if app.main.grid.plan.tiles is not (view == "tiles"):
            await press(pilot, "t")
        grid = app.main.grid
        first = grid._slots()[0]
        for _ in range(3):
            grid.post_message(events.MouseScrollDown(grid, 4, 4, 0, 0, 0, False, False, False))
        await pilot.pause()
        scrolled = grid._slots()[0]
        assert scrolled != first
        assert app.view.selected == "gpu0"
        await _push(pilot, app, sessions.busy_snapshot(64, second=3.0))
        assert grid._slots()[0] == scrolled, "a snapshot does not scroll back"
        await pilot.click(grid, offset=(2, 1))
        assert app.view.selected == scrolled
        await press(pilot, "up")
        assert app.view.selected in grid._slots()


async def test_a_key_draws_as_many_of_512_workers_as_are_in_sight(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    draw_row = worker_table.row

    def row(shown: words.Shown, layout: worker_table.Columns, appearance: Appearance) -> Row:
        drawn.append(shown.slot.name)
        return draw_row(shown, layout, appearance)

    monkeypatch.setattr(worker_table, "row", row)
    app = play.busy(512)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "t")
        for key in ("down", "do:screen.sort_by('FPS')", "down"):
            drawn.clear()
            await press(pilot, key)
            assert len(drawn) <= 4 * WIDE[1]
