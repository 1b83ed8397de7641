"""Keys that arrive in one piece, as a slow line delivers them, are obeyed in their order by those they are meant for."""

from __future__ import annotations

from typing import cast

from textual import events
from textual.pilot import Pilot

from gmg_tui.protocol import Action
from gmg_tui.ui import Outcome
from gmg_tui.ui.app import GmgApp
from tests.ui.fake_engine import FakeEngine
from tests.ui.play import busy


def _burst(pilot: Pilot[Outcome], *keys: str) -> FakeEngine:
    """Put the keys into the app's queue together, as the driver does with one read. Returns the engine."""
    for key in keys:
        pilot.app.post_message(events.Key(key, " " if key == "space" else key if len(key) == 1 else None))
    engine = cast("GmgApp", pilot.app).engine
    assert isinstance(engine, FakeEngine)
    return engine


async def _asks(pilot: Pilot[Outcome], engine: FakeEngine, what: object) -> tuple[object, ...]:
    """Wait until the engine is asked for that."""
    for _ in range(500):
        for request in engine.asked:
            if request[0] == what:
                return request
        await pilot.pause(0.01)
    raise AssertionError(f"{what} is not among {engine.asked}")


async def test_what_follows_the_search_key_is_searched_for() -> None:
    app = busy()
    async with app.run_test(size=(120, 36)) as pilot:
        engine = _burst(pilot, "slash", "x", "e", "p")
        await pilot.pause()
        assert app.main.log_view.buffer.query == "xep"
        assert not [request for request in engine.asked if request[0] in (Action.STOP, "details")]


async def test_what_follows_the_edit_key_is_written_into_the_arguments() -> None:
    async with busy().run_test(size=(120, 36)) as pilot:
        engine = _burst(pilot, "e", "space", "x", "backspace", "y", "ctrl+s")
        _, _, args, _ = await _asks(pilot, engine, "edit")
        assert isinstance(args, tuple)
        assert args[-1] == "y"
        assert not [request for request in engine.asked if request[0] is Action.STOP]


async def test_an_answer_typed_ahead_is_the_dialogs() -> None:
    async with busy().run_test(size=(120, 36)) as pilot:
        engine = _burst(pilot, "X", "y")
        assert await _asks(pilot, engine, Action.KILL) == (Action.KILL, "gpu0")


async def test_keys_act_again_when_a_dialog_could_not_be_opened() -> None:
    app = busy()
    async with app.run_test(size=(120, 36)) as pilot:
        assert isinstance(app.engine, FakeEngine)
        app.engine.refuse = "no details of gpu0"
        _burst(pilot, "e", "j")
        await pilot.pause()
        await pilot.pause(0.05)
        assert app.state.chosen != "gpu0"
