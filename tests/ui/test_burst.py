"""Keys are obeyed in their order by those they are meant for, and act on what is seen."""

import asyncio
from typing import cast

import pytest
from textual.events import Key, Resize
from textual.geometry import Size
from textual.pilot import Pilot

from gmg_tui.session.protocol import Action, Seen
from gmg_tui.ui import Outcome
from gmg_tui.ui.view import Tab
from tests.patience import LONG_S
from tests.ui import play, sweeps
from tests.ui.fake_engine import FakeEngine
from tests.ui.play import FakedApp, burst, busy, sees, until
from tests.workers import changed


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
    await app.on_event(Resize(Size(80, 24), Size(80, 24)))


async def test_keys_after_the_quit_key_are_dropped() -> None:
    app = busy()
    async with app.run_test(size=(120, 36)) as pilot:
        _burst(pilot, "d")
        await pilot.pause()
    await app.on_event(Key("x", "x"))  # which had been on its way through the screen
    assert app.return_value.kind == "detached"


async def test_a_key_behind_the_one_that_leaves_a_page_opens_nothing() -> None:
    app = busy()
    async with app.run_test(size=(120, 36)) as pilot:
        await play.press(pilot, "enter")
        _burst(pilot, "d", "e", "tab")
        await pilot.pause()
    assert app.return_value.kind == "detached"


async def test_deleting_keys_apply_before_the_keys_typed_after_them() -> None:
    app = busy()
    async with app.run_test(size=(120, 36)) as pilot:
        _burst(pilot, "slash", *"xep", "ctrl+u", *"ab", "backspace", "c")
        await pilot.pause()
        await until(pilot, lambda: app.main.log_view.search.query.text == "ac")


async def test_enter_after_an_unknown_command_does_not_run_the_first_one() -> None:
    async with busy().run_test(size=(120, 36)) as pilot:
        await pilot.press("ctrl+p")
        await sees(pilot, "Restart (r)")
        _burst(pilot, *"xyzzy", "enter")
        await sees(pilot, "No matches found")


async def test_page_keys_work_in_a_palette_that_is_not_drawn_yet() -> None:
    app = busy()
    async with app.run_test(size=(120, 36)) as pilot:
        _burst(pilot, "ctrl+p", "pageup", *"log", "pagedown", "pageup")
        await sees(pilot, "Show log")


async def test_keys_after_the_edit_key_do_not_act_on_workers() -> None:
    async with busy().run_test(size=(120, 36)) as pilot:
        engine = _burst(pilot, "e", "space", "x", "X", "y", "ctrl+s")
        await sees(pilot, "Edit gpu0", "unchanged")
        assert {request[0] for request in engine.asked} <= {"watch", "details"}


async def test_an_answer_typed_ahead_goes_to_the_dialog() -> None:
    async with busy().run_test(size=(120, 36)) as pilot:
        engine = _burst(pilot, "X", "y")
        assert await _asks(pilot, engine, Action.KILL) == (Action.KILL, "gpu0")


async def test_a_key_before_the_one_that_opens_a_dialog_does_not_affect_the_dialog() -> None:
    app = busy()
    async with app.run_test(size=(120, 36)) as pilot:
        free, opened = asyncio.Event(), asyncio.Event()
        app.screen_change_signal.subscribe(app, lambda _: opened.set(), immediate=True)
        app.main.call_later(free.wait)  # the main screen is at work while its keys wait
        _burst(pilot, "tab", "e")  # in the dialog `tab` would go to another field
        await asyncio.wait_for(opened.wait(), LONG_S)
        free.set()
        await sees(pilot, "Edit gpu0")
        assert app.view.tab is Tab.CHARTS
        first = app.screen.focused
        assert first is not None
        await pilot.press("tab")
        assert app.screen.focused is not first
        await pilot.press("shift+tab")
        assert app.screen.focused is first


# Requests name the job or attempt that was shown when a key was pressed or a dialog opened

WIDE = (160, 48)


async def _goes_on(pilot: Pilot[Outcome], engine: FakeEngine) -> None:
    """All jobs that ran have ended, and the next ones run."""
    engine.jobs = sweeps.jobs(30, 16)
    engine.push(sweeps.snapshot(engine.jobs, version=2))
    await pilot.pause()
    await pilot.pause()


async def test_an_edit_applies_to_the_job_on_which_the_dialog_was_opened() -> None:
    engine = sweeps.engine()
    app = sweeps.app(engine)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("right", "e")
        await play.sees(pilot, "Edit gpu1, job 14 (method=sde-b16)")
        await _goes_on(pilot, engine)
        engine.refuse = "job 14 has ended; job 18 is running on gpu1 now"
        await pilot.press("9", "ctrl+s")
        await play.sees(pilot, "─ Confirm")
        await pilot.press("y")
        await play.sees(pilot, engine.refuse)
        assert engine.seen == {"gpu1": Seen(14)}


async def test_a_kill_applies_to_the_attempt_that_was_confirmed() -> None:
    engine = sweeps.engine()
    app = sweeps.app(engine)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("right", "X")
        await play.sees(pilot, "on gpu1 now?")
        attempt = engine.snapshot.workers[1].attempt
        await _goes_on(pilot, engine)
        await pilot.press("y")
        await pilot.pause()
        assert engine.asked[-1] == (Action.KILL, "gpu1")
        assert engine.seen == {"gpu1": Seen(14, attempt)}


async def test_a_stop_and_a_restart_apply_to_the_job_on_the_screen() -> None:
    engine = sweeps.engine()
    app = sweeps.app(engine)
    async with app.run_test(size=WIDE) as pilot:
        attempt = engine.snapshot.workers[0].attempt
        for key, action in (("x", Action.STOP), ("r", Action.RESTART)):
            await pilot.press(key)
            await play.sees(pilot, f"{action.value.capitalize()} job 13 (")
            await pilot.press("y")
            await pilot.pause()
            assert (action, "gpu0") in engine.asked
            assert engine.seen == {"gpu0": Seen(13, attempt)}


async def test_a_key_acts_on_the_worker_that_is_drawn_as_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Job 14 has ended, and gpu1 with it has left the screen, which is not drawn yet."""
    engine = sweeps.engine()
    app = sweeps.app(engine)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("right")
        monkeypatch.setattr(app, "REDRAW_INTERVAL_S", LONG_S)
        left = tuple(worker for worker in engine.snapshot.workers if worker.slot != "gpu1")
        fps = list(app.view.histories["gpu0"].fps.values())
        for _ in range(2):
            engine.push(changed(engine.snapshot, time=engine.snapshot.time + 1, workers=left))
        await pilot.pause()
        await pilot.press("X")
        await play.sees(pilot, "Kill job 14")
        await pilot.press("y")
        await play.until(pilot, lambda: (Action.KILL, "gpu1") in engine.asked)
        assert engine.seen["gpu1"].job == 14
        app.publish()
        assert list(app.view.histories["gpu0"].fps.values())[len(fps) :] == [fps[-1]] * 2, "each snapshot is remembered"
