"""Sorting, filtering and looking for trouble, from the keys to the screen; what keys act on is always shown."""

import random
import re
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from gmg_tui.machine.gpu.health import judge
from gmg_tui.model import Fps, GpuHealth, Snapshot, Worker, WorkerState
from gmg_tui.session.protocol import Action
from gmg_tui.ui import Outcome, worker_text
from gmg_tui.ui.drawing import Row
from gmg_tui.ui.slots import ORDERS, History, SlotView, in_trouble
from gmg_tui.ui.view import MIN_SORT_INTERVAL_S, Band, View
from gmg_tui.ui.workers.table import WorkerTable
from tests.ui import nodes, play, sessions
from tests.ui.play import FakedApp, asked, press
from tests.workers import alerts, changed, diagnosed

WIDE = (160, 48)


def _rates(*millions: float | None, second: float = 0.0) -> Snapshot:
    """As many workers, each with its rate."""
    snapshot = sessions.busy_snapshot(len(millions), second)
    workers = tuple(
        changed(worker, fps=None if rate is None else Fps(rate * 1e6, rate * 1e6, rate * 1e6, 9, settled=rate * 1e6))
        for worker, rate in zip(snapshot.workers, millions, strict=True)
    )
    return changed(snapshot, workers=workers)


async def _push(pilot: Pilot[Outcome], app: FakedApp, snapshot: Snapshot) -> None:
    app.engine.push(snapshot)
    await play.until(pilot, lambda: app.view.snapshot.time == snapshot.time)
    await pilot.pause()


def _candidates(snapshot: Snapshot) -> list[SlotView]:
    slots = sessions.session(len(snapshot.workers)).slots
    return [
        SlotView(*each, History(), snapshot.time)
        for each in zip(slots, snapshot.workers, snapshot.samples, strict=True)
    ]


def _in_sight(app: FakedApp) -> list[str]:
    rows = play.screen(app)[1 : app.main.grid.plan.height + app.main.grid.plan.tiles]
    return re.findall(r"\bgpu\d+\b", "\n".join(rows))


async def test_sorted_workers_are_reordered_at_a_limited_rate() -> None:
    app = play.app_of(play.engine_of(_rates(5, 9, 7)))
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "t", "do:screen.sort_by('fps')")
        assert app.view.slots == ("gpu1", "gpu2", "gpu0")
        assert "sorted by FPS" in play.shown(app)
        await _push(pilot, app, _rates(20, 9, 7, second=MIN_SORT_INTERVAL_S - 1))
        assert app.view.slots == ("gpu1", "gpu2", "gpu0")
        await _push(pilot, app, _rates(20, 9, 7, second=MIN_SORT_INTERVAL_S))
        assert app.view.slots == ("gpu0", "gpu1", "gpu2")


def test_the_worst_sort_first_and_unknown_values_last() -> None:
    view = View(play.engine_of(sessions.varied_snapshot()).welcome)
    view.sort_by("state")
    assert view.slots[:3] == ("gpu3", "gpu4", "gpu7"), "failed, stuck, lost"
    view = View(play.engine_of(_rates(None, 2, 1)).welcome)
    view.sort_by("fps")
    assert view.slots == ("gpu1", "gpu2", "gpu0")


def test_a_broken_gpu_is_trouble_and_a_slow_link_is_not() -> None:
    broken, link = (judge(GpuHealth(ecc_uncorrected=number, pcie_width=8, pcie_width_max=16)) for number in (2, 0))
    (slot,) = sessions.session(1).slots
    troubled = [
        in_trouble(SlotView(slot, diagnosed(sessions.running(0), sample), sample, History(), sessions.NOW))
        for sample in (changed(sessions.sample(0), health=each) for each in (broken, link))
    ]
    assert troubled == [True, False]


def test_a_slow_worker_is_marked_and_found() -> None:
    (slot,) = sessions.session(1).slots
    worker = diagnosed(sessions.running(0), None, below_median_pct=8.3)
    slow = SlotView(slot, worker, sessions.sample(0), History(), sessions.NOW)
    assert [text for text, _ in worker_text.notes(slow, advice=False)] == ["8 % below the median of equal GPUs"]
    assert in_trouble(slow)
    assert "⚠ running" in str(play.tile(slow, 40)[0])
    assert worker_text.matches(slow, "slow")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("failed", {"gpu3"}),
        ("MEMORY cuda", {"gpu3"}),
        ("stuck", {"gpu4"}),
        ("stuck gpu3", set()),
        ("thermal", {"gpu1"}),
        ("slot:[", set()),
        ("   ", {f"gpu{i}" for i in range(8)}),
    ],
)
def test_a_filter_shows_workers_that_match_all_its_words(text: str, shown: set[str]) -> None:
    assert {
        each.slot.name for each in _candidates(sessions.varied_snapshot()) if worker_text.matches(each, text)
    } == shown


async def test_sorting_by_fps_keeps_the_selection() -> None:
    app = play.app_of(play.engine_of(_rates(5, 9, None, 7)))
    async with app.run_test(size=(60, 12)) as pilot:
        await press(pilot, "do:screen.sort_by('fps')")
        assert app.view.slots == ("gpu1", "gpu3", "gpu0", "gpu2")
        assert app.view.selected == "gpu0"
        assert "sorted by FPS" in play.shown(app)
        await play.click(pilot, "  slot")
        assert app.view.slots == app.view.present
        assert "sorted" not in play.shown(app)


async def test_the_filter_is_shown_and_esc_clears_it() -> None:
    app = play.varied()
    async with app.run_test(size=(60, 12)) as pilot:
        await press(pilot, "do:screen.filter_workers", *"failed", "enter")
        await play.sees(pilot, "1 of 8 shown")
        assert app.view.slots == (app.view.selected,) == ("gpu3",)
        assert app.main.log_view.source.name == "gpu3"
        await press(pilot, "escape")
        assert app.view.slots == app.view.present
        assert "shown ·" not in play.shown(app)


async def test_a_filter_without_matches_shows_a_message_and_keys_do_nothing() -> None:
    app = play.busy()
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "do:screen.filter_workers", *"nobody", "enter")
        await play.sees(pilot, "No worker matches the filter.", "0 of 8 shown")
        keys = ("x", "X", "r", "e", "space", "enter", "p", "do:screen.stacks", "down", "exclamation_mark", "t")
        await press(pilot, *keys, "do:screen.sort_by('fps')")
        assert not asked(app.engine)
        await press(pilot, "escape")
        assert app.view.selected == "gpu0"


async def test_selected_and_marked_workers_stay_visible_when_they_no_longer_match() -> None:
    app = play.varied()
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "do:screen.filter_workers", *"failed", "enter", "space")
        await _push(pilot, app, sessions.busy_snapshot(second=2 * MIN_SORT_INTERVAL_S))
        assert app.view.slots == ("gpu3",), "it runs again, but is selected and marked"
        await press(pilot, "do:screen.filter_workers", *["backspace"] * 6, *"gpu6", "enter")
        assert app.view.slots == ("gpu3", "gpu6")
        await press(pilot, "x")
        assert app.engine.asked[-1] == (Action.STOP, "gpu3")


async def test_the_trouble_key_cycles_in_screen_order() -> None:
    app = play.varied()
    async with app.run_test(size=WIDE) as pilot:
        seen = []
        for _ in range(5):
            await press(pilot, "exclamation_mark")
            seen.append(app.view.selected)
        assert seen == ["gpu1", "gpu3", "gpu4", "gpu7", "gpu1"]
        await press(pilot, "do:screen.filter_workers", *"failed", "enter", "exclamation_mark")
        assert app.view.selected == "gpu1", "hidden until then, as all others are"
        await press(pilot, "do:screen.filter_workers", *["backspace"] * 6, *"gpu0", "enter", "exclamation_mark")
        assert app.view.selected == "gpu1", "hidden until then"
        await press(pilot, "escape")
        await _push(pilot, app, sessions.busy_snapshot(second=9.0))
        await press(pilot, "exclamation_mark")
        await play.sees(pilot, "No worker has problems.")
        fine = sessions.busy_snapshot(second=9.0)
        failed = changed(fine.workers[0], state=WorkerState.FAILED)
        await _push(pilot, app, changed(fine, workers=(failed, *fine.workers[1:])))
        app.select("gpu0")
        await press(pilot, "exclamation_mark")
        await play.sees(pilot, "No other worker has problems.")


@pytest.mark.parametrize("view", ["tiles", "table"])
async def test_the_wheel_scrolls_and_visible_workers_can_be_clicked(view: str) -> None:
    app = play.busy(64)
    async with app.run_test(size=WIDE) as pilot:
        if app.main.grid.plan.tiles is not (view == "tiles"):
            await press(pilot, "t")
        widget, _ = app.screen.get_widget_at(4, 4)
        first = _in_sight(app)[0]
        for _ in range(3):
            widget.post_message(events.MouseScrollDown(widget, 4, 4, 0, 0, 0, False, False, False))
        await pilot.pause()
        scrolled = _in_sight(app)[0]
        assert scrolled != first
        assert app.view.selected == "gpu0"
        await _push(pilot, app, sessions.busy_snapshot(64, second=3.0))
        assert _in_sight(app)[0] == scrolled, "a snapshot does not scroll back"
        await pilot.click(widget, offset=(2, 1))
        await pilot.pause()
        assert app.view.selected == scrolled
        await press(pilot, "up")
        assert app.view.selected in _in_sight(app)


async def test_a_key_draws_only_the_visible_of_512_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    draw = WorkerTable.line

    def line(table: WorkerTable, band: Band, *rest: Any) -> Row:
        drawn.append(band.slots[0])
        return draw(table, band, *rest)

    monkeypatch.setattr(WorkerTable, "line", line)
    app = play.busy(512)
    async with app.run_test(size=WIDE) as pilot:
        for key in ("down", "do:screen.sort_by('fps')", "down"):
            drawn.clear()
            await press(pilot, key)
            assert 0 < len(drawn) <= 6 * WIDE[1]


# Storms of keys that sort, filter, fold and mark, while every snapshot is another: what keys act on is always what is shown

SLOTS = 40
CARDS = 10
"""Slots of each node, where there are several."""
ROUNDS = 10
KEYS = (
    *("up", "down", "left", "right", "h", "j", "k", "l", "space", "exclamation_mark", "t", "escape", "enter", "r", "x"),
    *("do:screen.filter_workers", *"fun1", "backspace", "enter", "slash", "home", "end", "pageup", "question_mark"),
    *("do:screen.fold", *(f"do:screen.sort_by({each!r})" for each in ORDERS)),
)


def _snapshot(chance: random.Random, second: float, *, spread: bool) -> Snapshot:
    """Workers of random states and rates, on one machine or `spread` over several."""
    snapshot = sessions.busy_snapshot(SLOTS, second)
    workers = tuple(_worker(chance, worker) for worker in snapshot.workers)
    snapshot = changed(snapshot, workers=workers)
    if not spread:
        return snapshot
    spread_out = nodes.snapshot(snapshot, SLOTS // CARDS, CARDS)
    return nodes.lost(spread_out, "n3", sessions.NOW) if chance.random() < 0.3 else spread_out


def _worker(chance: random.Random, worker: Worker) -> Worker:
    rate = chance.choice((1e6, 2e6, chance.random() * 3e7))
    kind = chance.choice(["running"] * 4 + ["failed", "stuck", "silent"])
    fields: dict[str, dict[str, object]] = {
        "running": {"fps": Fps(rate, rate, rate, 9, settled=rate)},
        "failed": {"state": WorkerState.FAILED, "reason": "CUDA out of memory"},
        "stuck": {"alerts": alerts(stuck="no output")},
        "silent": {"fps": None, "n_envs": None},
    }
    return changed(worker, **fields[kind])


def _consistent(app: FakedApp) -> None:
    state = app.view
    assert len(set(state.slots)) == len(state.slots)
    assert set(state.slots) <= set(state.present)
    assert state.marked <= set(state.slots)
    if not state.maximized:  # there a worker that has gone stays in sight
        assert state.selected in state.slots or not (state.selected or state.slots)
    if not state.filter:
        assert set(state.slots) == set(state.present)
    for columns in (1, 3):
        drawn = [slot for band in state.bands(columns) for slot in band.slots]
        assert sorted(drawn) == sorted(state.slots), "each is behind one line, or drawn once"


@pytest.mark.parametrize(
    ("size", "seed", "spread"), [((60, 12), 0, True), ((60, 12), 1, False), ((160, 48), 2, True), ((160, 48), 3, False)]
)
async def test_what_keys_act_on_is_always_shown(size: tuple[int, int], seed: int, spread: bool) -> None:
    chance = random.Random(2026 + seed)
    first = _snapshot(chance, 0.0, spread=spread)
    app = nodes.app_of(first, SLOTS // CARDS, CARDS) if spread else play.app_of(play.engine_of(first))
    async with app.run_test(size=size) as pilot:
        await play.sees(pilot, "Running at")
        for number in range(ROUNDS):
            play.burst(pilot, *chance.choices(KEYS, k=12))
            if chance.random() < 0.7:
                app.engine.push(_snapshot(chance, number * chance.choice((0.3, 3.0, -1.0)), spread=spread))
            await pilot.pause()
            _consistent(app)
        for _ in range(20):  # out of pages, dialogs and lines, wherever it ended
            await pilot.press("escape")
            await pilot.pause()
        assert app.screen is app.main
        assert app.view.slots
        assert set(app.view.slots) == set(app.view.present)
        assert not app.view.marked
