"""Screens that change nothing: of a read-only client, and of a session that has ended."""

from pathlib import Path

import pytest
from msgspec import structs
from msgspec.structs import replace
from textual.binding import BindingsMap

from gmg_tui.model import Session, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.session import LOGS, STORE
from gmg_tui.session.ended_session import EndedSession
from gmg_tui.session.protocol import Action
from gmg_tui.session.store.database import JobAttempt, MetricsRow
from gmg_tui.session.store.writer import StoreWriter
from gmg_tui.ui import keys
from gmg_tui.ui.app import GmgApp
from gmg_tui.ui.pages.queue import QueuePage
from gmg_tui.ui.pages.tried import TriedPage
from gmg_tui.ui.pages.tuning import TuningPage
from tests import tunings
from tests.rates import rate
from tests.ui import play, sessions, sweeps
from tests.ui.fake_engine import FakeEngine
from tests.ui.pages import test_tried, test_tuning
from tests.ui.play import asked, click, press
from tests.workers import changed, reached

WIDE = (150, 44)


def _only_looks(engine: FakeEngine) -> FakeEngine:
    engine.welcome = replace(engine.welcome, readonly=True)
    return engine


def _engine(of: str) -> FakeEngine:
    match of:
        case "queue":
            return _only_looks(sweeps.engine())
        case "tuning":
            return _only_looks(test_tuning.engine_of(tunings.EDGE))
        case "tried":
            return _only_looks(test_tried.engine())
        case _:
            return _only_looks(play.edited_engine())


@pytest.mark.parametrize(
    ("of", "opening"), [("main", ()), ("main", ("enter",)), ("tried", ("a",)), ("queue", ("Q",)), ("tuning", ())]
)
async def test_no_key_of_any_screen_changes_anything(of: str, opening: tuple[str, ...]) -> None:
    engine = _engine(of)
    bindings = BindingsMap([*keys.MAIN, *QueuePage.BINDINGS, *TuningPage.BINDINGS, *TriedPage.BINDINGS])
    steering = {
        key
        for key, binding in bindings
        if binding.action.removeprefix("app.").partition("(")[0] in keys.CHANGING_ACTIONS
    } - {"enter"}
    assert {"r", "x", "X", "e"} <= steering
    app = play.app_of(engine)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, *opening)
        here = app.screen
        for key in sorted(steering):
            await press(pilot, key)
            if app.screen is not here:  # it looks at something, as `c` does and `s` on another screen
                await press(pilot, "y", "enter")
                while app.screen is not here and len(app.screen_stack) > 1:
                    app.pop_screen()
                    await pilot.pause()
                await press(pilot, *(opening if app.screen is app.main and here is not app.main else ()))
                here = app.screen
            assert asked(engine) == [], (key, opening)
        if of == "tried":
            await press(pilot, "enter")
            await click(pilot, "21,100,000")
            await click(pilot, "21,100,000")
            assert asked(engine) == []
            assert app.screen is here


async def test_headline_footers_help_and_palette_offer_only_allowed_actions() -> None:
    app = play.app_of(_engine("main"))
    async with app.run_test(size=WIDE) as pilot:
        await play.sees(pilot, "read-only", "enter Enlarge", "? Help")
        for text in ("r Restart", "x Stop", "e Edit"):
            assert text not in play.shown(app)
        offered = {command.title for command in app.get_system_commands(app.screen)}
        assert {"Enlarge (enter)", "Search (/)", "Theme: dark"} <= offered
        assert not {title.partition(" ")[0] for title in offered} & {
            "Restart",
            "Stop",
            "Kill",
            "Edit",
            "Mark",
            "Python",
        }
        await press(pilot, "question_mark")
        await press(pilot, "escape", "enter", "tab")
        await play.sees(pilot, "lowest")


async def test_q_leaves_without_asking_and_without_affecting_workers() -> None:
    engine = _engine("main")
    app = play.app_of(engine)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "q")
    assert app.return_value.kind == "detached"
    assert asked(engine) == []


# The screen of a session that has ended: its last snapshot and its logs, read-only


async def _write(folder: Path, *, snapshot: bool = True) -> Session:
    """The folder of a session of two GPUs, of which one has failed."""
    last = sessions.busy_snapshot(2)
    times = {"attempt_started": last.time - 4000, "attempt_ended": last.time - 340}
    workers = [
        changed(worker, state=state, reason=reason, attempt=2, **times)
        for worker, state, reason in zip(
            last.workers, (WorkerState.FINISHED, WorkerState.FAILED), (None, "CUDA out of memory"), strict=True
        )
    ]
    idle = tuple(structs.replace(each, gpu_util_pct=0.0, memory_used_mib=3.0) for each in last.samples)
    last = structs.replace(last, workers=tuple(workers), samples=idle)
    session = sessions.session(2)
    session = changed(session, spec=changed(session.spec, folder=str(folder)))
    (folder / LOGS).mkdir()
    writer = StoreWriter(folder / STORE, lambda text: None)
    writer.start()
    for number, slot in enumerate(("gpu0", "gpu1"), 1):
        metrics = reached(1, ("-B", "4096"), fps=rate(1000.0))
        times = {"pid": 99, "started": last.time - 60, "ended": last.time, "exit_code": 0}
        attempt = changed(metrics, state=WorkerState.FINISHED, **times)
        writer.put(JobAttempt(number, slot, None, attempt, log=f"{LOGS}/{slot}.log"))
        for second in range(61):
            row = MetricsRow(last.time - 60 + second, slot, number, 1000.0 + second, 97.0, 29_696.0, 612.0, 71.0)
            is_last = {"gpu_util_pct": 0.0, "memory_used_mib": 512.0, "state": "stopping"}
            writer.put(row._replace(**is_last if second == 60 else {"state": "running"}))
        (folder / LOGS / f"{slot}.log").write_text(f"first of {slot}\nlast \x1b[2J of {slot}\n")
    if snapshot:
        writer.put(structs.replace(last, elapsed_s=1.0))
        writer.put(last)
    await writer.close()
    return session


async def test_the_last_snapshot_and_the_logs_are_shown_and_nothing_can_be_changed(tmp_path: Path) -> None:
    session = await _write(tmp_path)
    app = GmgApp(await EndedSession.open(tmp_path, session))
    async with app.run_test(size=(120, 30)) as pilot:
        await play.sees(pilot, "ended", "finished", "failed", "last", "of gpu0")
        await press(pilot, "t")
        await play.sees(pilot, "1h 01m", "29.0/79.6", "612", "97")
        await press(pilot, "t")
        assert "\x1b" not in play.shown(app)
        assert "following" not in play.shown(app)
        await press(pilot, "down", "right", "r")
        await play.sees(pilot, "of gpu1")
        await press(pilot, "a")
        await play.sees(pilot, "1 set of arguments", "-B 4096", "1,000")
        await press(pilot, "escape", "enter", "tab")
        await play.sees(pilot, "CUDA out of memory", "failed after 1h 01m", "n/a: not reported by the GPU")
        await press(pilot, "p")
        await play.sees(pilot, "The session has ended, and its processes with it.")
        await press(pilot, "do:screen.show_tab('Events')")
        await play.sees(pilot, "gpu0   finished  has finished", "gpu1   started   has started attempt 1")
        await press(pilot, "escape", "q")
    assert app.return_value.kind == "viewed"


async def test_requests_are_answered_from_the_last_snapshot_or_refused(tmp_path: Path) -> None:
    source = await EndedSession.open(tmp_path, await _write(tmp_path))
    assert [attempt.number for attempt in (await source.details("gpu0")).attempts] == [1, 2]
    with pytest.raises(GmgError, match="cannot be changed"):
        await source.act(Action.RESTART, "gpu0")


async def test_a_session_without_a_snapshot_shows_a_message(tmp_path: Path) -> None:
    session = await _write(tmp_path, snapshot=False)
    with pytest.raises(GmgError, match="no snapshot was recorded"):
        await EndedSession.open(tmp_path, session)
