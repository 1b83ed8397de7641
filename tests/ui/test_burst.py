"""Keys that arrive in one piece, as a slow line delivers them, are obeyed in their order by those they are meant for."""

from __future__ import annotations

import asyncio
from typing import cast

from textual.events import Key
from textual.pilot import Pilot

from gmg_tui.protocol import Action
from gmg_tui.ui import Outcome
from tests.patience import LONG_S
from tests.ui.fake_engine import FakeEngine
from tests.ui.play import FakedApp, burst, busy, sees, shown, until


def _burst(pilot: Pilot[Outcome], *keys: str) -> FakeEngine:
    """Put the keys into the app's queue together. Returns the engine."""
    burst(pilot, *keys)
    engine = cast("FakedApp", pilot.app).engine
    assert isinstance(engine, FakeEngine)
    return engine


async def _asks(pilot: Pilot[Outcome], engine: FakeEngine, what: object) -> tuple[object, ...]:
    """Wait until the engine is asked for that."""
    await until(pilot, lambda: any(request[0] == what for request in engine.asked), what)
    return next(request for request in engine.asked if request[0] == what)


async def test_messages_after_the_screens_are_closed_are_ignored() -> None:
    app = busy()
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
    assert not app.screen_stack
    app.publish()


async def test_keys_after_the_quit_key_are_dropped() -> None:
    app = busy()
    async with app.run_test(size=(120, 36)) as pilot:
        _burst(pilot, "d")
        await pilot.pause()
    await app.on_event(Key("x", "x"))  # which had been on its way through the screen
    assert app.return_value is not None
    assert app.return_value.how == "detached"


async def test_keys_after_the_edit_key_do_not_act_on_workers() -> None:
    async with busy().run_test(size=(120, 36)) as pilot:
        engine = _burst(pilot, "e", "space", "x", "X", "y", "ctrl+s")
        await sees(pilot, "Edit gpu0", "unchanged")
        assert {request[0] for request in engine.asked} <= {"follow", "details"}


async def test_an_answer_typed_ahead_goes_to_the_dialog() -> None:
    async with busy().run_test(size=(120, 36)) as pilot:
        engine = _burst(pilot, "X", "y")
        assert await _asks(pilot, engine, Action.KILL) == (Action.KILL, "gpu0")


async def test_an_ignored_key_does_not_affect_the_dialog_that_opens_next() -> None:
    app = busy()
    async with app.run_test(size=(120, 36)) as pilot:
        free, opened = asyncio.Event(), asyncio.Event()
        app.screen_change_signal.subscribe(app, lambda _: opened.set(), immediate=True)
        app.main.call_later(free.wait)  # the main screen is at work while its keys wait
        _burst(pilot, "tab", "enter")  # `tab` goes to another section of what `enter` opens
        await asyncio.wait_for(opened.wait(), LONG_S)
        free.set()
        await sees(pilot, " 0│")
        await pilot.pause()
        assert " 0│" in shown(app)
