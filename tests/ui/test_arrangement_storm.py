"""Storms of keys that sort, filter and mark, while every snapshot is another: what keys act on is always what is shown."""

from __future__ import annotations

import random

import pytest

from gmg_tui.model import Fps, Snapshot, Worker, WorkerState
from tests.ui import play, sessions
from tests.ui.play import FakedApp

SLOTS = 40
ROUNDS = 15
KEYS = (
    *("S", "f", "S", "w", "S", "S", "S", "s", "S", "escape", "S", "u"),
    *("up", "down", "left", "right", "exclamation_mark", "space", "t", "escape", "R", "n", "x", "g"),
    *("backslash", "f", "a", "i", "l", "backslash", "g", "p", "u", "1", "space", "enter", "backslash", "escape"),
    *("backspace", "enter", "escape", "colon", "slash", "enter", "ampersand", "enter"),
)


def _snapshot(chance: random.Random, second: float) -> Snapshot:
    """Workers of random states and rates."""
    snapshot = sessions.busy_snapshot(SLOTS, second)
    return sessions.changed(snapshot, workers=tuple(_worker(chance, worker) for worker in snapshot.workers))


def _worker(chance: random.Random, worker: Worker) -> Worker:
    rate = chance.choice((1e6, 2e6, chance.random() * 3e7))
    kind = chance.choice(["running"] * 4 + ["failed", "stuck", "silent"])
    fields: dict[str, dict[str, object]] = {
        "running": {"fps": Fps(rate, rate, rate, 9)},
        "failed": {"state": WorkerState.FAILED, "reason": "CUDA out of memory"},
        "stuck": {"stuck": "no output"},
        "silent": {"fps": None, "n_envs": None},
    }
    return sessions.changed(worker, **fields[kind])


def _consistent(app: FakedApp) -> None:
    state = app.state
    assert len(set(state.slots)) == len(state.slots)
    assert set(state.slots) <= set(state.present)
    assert state.marked <= set(state.slots)
    assert state.chosen in state.slots or not (state.chosen or state.slots)
    if not state.arrangement.filter:
        assert set(state.slots) == set(state.present)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("size", [(60, 12), (160, 48)])
async def test_what_keys_act_on_is_always_shown(size: tuple[int, int], seed: int) -> None:
    chance = random.Random(seed)
    app = play.app_of(play.engine_of(_snapshot(chance, 0.0)))
    app.confirm = False
    async with app.run_test(size=size) as pilot:
        for number in range(ROUNDS):
            play.burst(pilot, *chance.choices(KEYS, k=12))
            if chance.random() < 0.7:
                app.engine.push(_snapshot(chance, number * chance.choice((0.3, 3.0, -1.0))))
            await pilot.pause()
            _consistent(app)
        for _ in range(2):  # out of a dialog or a line, wherever it ended
            play.burst(pilot, *["escape"] * 4)
            await pilot.pause()
        assert app.screen is app.main
        assert app.state.slots
        assert set(app.state.slots) == set(app.state.present)
        assert not app.state.marked
