"""Storms of keys that sort, filter, fold and mark, while every snapshot is another: what keys act on is always what is shown."""

from __future__ import annotations

import random

import pytest

from gmg_tui.model import Fps, Snapshot, Worker, WorkerState
from gmg_tui.ui.slots import Order
from tests.ui import nodes, play, sessions
from tests.ui.play import FakedApp
from tests.workers import changed

SLOTS = 40
CARDS = 10
"""Slots of each node, where there are several."""
ROUNDS = 10
KEYS = (
    *("up", "down", "left", "right", "h", "j", "k", "l", "space", "exclamation_mark", "t", "escape", "enter", "r", "x"),
    *(
        "do:screen.filter_workers",
        *"fun1",
        "backspace",
        "enter",
        "slash",
        "home",
        "end",
        "pageup",
        "question_mark",
    ),
    *("do:screen.fold_node", "do:screen.group_log", *(f"do:screen.sort_by({each.value!r})" for each in Order)),
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
        "stuck": {"stuck": "no output"},
        "silent": {"fps": None, "n_envs": None},
    }
    return changed(worker, **fields[kind])


def _consistent(app: FakedApp) -> None:
    state = app.view
    assert len(set(state.slots)) == len(state.slots)
    assert set(state.slots) <= set(state.present)
    assert state.marked <= set(state.slots)
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
        await play.sees(pilot, "following")
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
