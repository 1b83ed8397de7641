"""The screen shows a session as it was, and steers nothing then."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from gmg_tui.model import RankGroup, Session, Snapshot, WorkerState
from gmg_tui.past.source import PastSource
from gmg_tui.protocol import Action, Bye
from gmg_tui.session import STORE
from gmg_tui.store import moments
from gmg_tui.store.moments import Moment
from gmg_tui.store.writer import StoreWriter
from gmg_tui.ui.app import GmgApp
from gmg_tui.ui.permissions import STEERING
from tests import tunings
from tests.past import lives
from tests.past.lives import lived, snapshot_at
from tests.ui import play
from tests.ui.fake_engine import FakeEngine
from tests.ui.play import FakedApp
from tests.ui.screens.stage import press

WIDE = (150, 40)
NARROW = (80, 24)


async def _ended(folder: Path, *, sweep: bool = False, loss: str = "") -> GmgApp:
    past = await PastSource.open(folder, await lived(folder, sweep=sweep), loss=loss)
    return GmgApp(past, pace_s=0.0, past=past)


async def _running(folder: Path, *, sweep: bool = False) -> FakedApp:
    """A session that runs, at 75 s, with its past on the disk."""
    session = await lived(folder, sweep=sweep)
    log = {slot: [f"now {number} of {slot}" for number in range(30)] for slot in lives.SLOTS}
    return play.app_of(FakeEngine(session, _now(75, sweep=sweep), log=log))


def _fake(app: FakedApp) -> FakeEngine:
    assert isinstance(app.live, FakeEngine)
    return app.live


def _now(second: int, *, sweep: bool = False) -> Snapshot:
    snapshot = snapshot_at(50, sweep=sweep)
    return replace(snapshot, time=lives.START + second, elapsed_s=float(second))


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_an_ended_session_is_shown_as_it_ended_and_as_it_was(tmp_path: Path, size: tuple[int, int]) -> None:
    app = await _ended(tmp_path)
    async with app.run_test(size=size) as pilot:
        await play.sees(pilot, "past", "00:01:00", "finished", "stopped", "line 20 of cpu0", "the end")
        await press(pilot, "left_square_bracket")
        await play.sees(pilot, "00:00:50", "running", "10 s before the end")
        await press(pilot, *["left_square_bracket"] * 2)
        await play.sees(pilot, "00:00:30", "restarting")
        await press(pilot, "0")
        await play.sees(pilot, "00:00:00", "building", "1 of 7 moments" if size == WIDE else "past")
        await press(pilot, "right_square_bracket")
        await play.sees(pilot, "00:00:10")
        await press(pilot, "9")
        await play.sees(pilot, "00:00:50")
        await press(pilot, "escape")
        await play.sees(pilot, "00:01:00", "the end")
        await press(pilot, "q")
    assert app.return_value is not None
    assert app.return_value.how == "looked"


async def test_keys_come_faster_than_the_disk(tmp_path: Path) -> None:
    app = await _ended(tmp_path)
    async with app.run_test(size=WIDE) as pilot:
        for _ in range(40):
            app.action_time_step(-1)
        await play.sees(pilot, "00:00:00")
        for _ in range(3):
            app.action_time_step(1)
        await play.sees(pilot, "00:00:30")
        await press(pilot, "d")
    assert app.return_value is not None
    assert app.return_value.how == "looked"


async def test_no_key_changes_anything_and_why_is_said(tmp_path: Path) -> None:
    app = await _ended(tmp_path, sweep=True)
    async with app.run_test(size=WIDE) as pilot:
        for key in "rxXes":
            await press(pilot, key)
            await play.sees(pilot, "The past cannot be changed; continue with: gmg-tui sweep --resume life.")
            await press(pilot, "t", "t")
        await press(pilot, "p")
        await play.sees(pilot, "The processes on the GPUs are not kept.")
        assert app.screen is app.main
        await play.sees(pilot, "[ back", "] forward", "0-9 jump", "Q queue")
        for text in ("r restart", "x stop", "e edit", "p processes"):
            assert text not in play.shown(app)
        offered = {command.title for command in app.get_system_commands(app.screen_stack[-1])}
        assert not offered & {"restart", "stop", "kill", "edit", "mark", "processes"}
        helped = {command.title: command.help for command in app.get_system_commands(app.screen_stack[-1])}
        assert helped["detach"] == "Close the screen; the session is not touched. (d)"  # no worker keeps running
        for name in STEERING:
            assert app.permissions.why_not(name)


async def test_queue_and_details_are_those_of_the_moment(tmp_path: Path) -> None:
    app = await _ended(tmp_path, sweep=True)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "3")
        await play.sees(pilot, "0/4 jobs", "2 running", "line 20 of cpu0")
        await press(pilot, "Q")
        await play.sees(pilot, "job1", "running", "waiting")
        await press(pilot, "escape", "enter")
        await play.sees(pilot, "attempt 1", "job1", "FPS 1,010", "50 s before the end")
        await press(pilot, "2")
        await play.sees(pilot, "running")
        await press(pilot, "escape", "8")
        await play.sees(pilot, "2/4 jobs")


async def test_the_queue_says_that_it_is_of_the_past(tmp_path: Path) -> None:
    app = await _ended(tmp_path, sweep=True)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "3", "Q")
        await play.sees(pilot, "50 s before the end", "1 of 4")
        await press(pilot, "5")  # which looks at no other moment here
        await play.sees(pilot, "50 s before the end", "1 of 4")
        await press(pilot, "escape", "a")
        await play.sees(pilot, "50 s before the end", "set of arguments")


async def test_a_tuning_is_looked_back_on_where_its_answer_is_shown(tmp_path: Path) -> None:
    session = tunings.session(tunings.ENDED)
    writer = StoreWriter(tmp_path / STORE, lambda text: None)
    writer.start()
    writer.session(session)
    for second, tuning in ((0.0, tunings.FIRST), (60.0, tunings.ENDED)):
        writer.moment(Moment.of(tunings.snapshot(tuning, second)))
    await writer.close()
    past = await PastSource.open(tmp_path, session)
    app = GmgApp(past, pace_s=0.0, past=past)
    async with app.run_test(size=WIDE) as pilot:
        await play.sees(pilot, "Answer", "past", "the end", "2 of 2 moments")
        await press(pilot, "left_square_bracket")
        await play.sees(pilot, "Answer so far", "past", "1 of 2 moments")
        await press(pilot, "right_square_bracket", "enter")
        await play.sees(pilot, "2 of 2 moments", "The past cannot be changed")
        await press(pilot, "escape")
        await play.sees(pilot, "past", "2 of 2 moments")
        assert app.screen is app.main


async def test_a_lost_session_says_how_it_was_lost(tmp_path: Path) -> None:
    app = await _ended(tmp_path, loss="life was lost: its engine died unexpectedly")
    async with app.run_test(size=WIDE) as pilot:
        await play.sees(pilot, "life was lost: its engine died unexpectedly")


async def test_a_running_session_has_a_past_and_a_present(tmp_path: Path) -> None:
    app = await _running(tmp_path)
    async with app.run_test(size=WIDE) as pilot:
        await play.sees(pilot, "00:01:15", "now 29 of cpu0")
        assert "past" not in play.shown(app)
        await press(pilot, "right_square_bracket")
        await play.sees(pilot, "]: this is the present; [ looks back.")
        await press(pilot, "left_square_bracket")
        await play.sees(pilot, "past", "00:01:00", "finished", "line 20 of cpu0", "esc present")
        _fake(app).push(_now(90))
        await press(pilot, "left_square_bracket", "left_square_bracket")
        await play.sees(pilot, "past", "00:00:40")
        await press(pilot, "x")
        await play.sees(pilot, "The past cannot be changed; esc returns to the present.")
        await press(pilot, "escape")
        await play.sees(pilot, "00:01:30", "now 29 of cpu0", "x stop")
        assert "past" not in play.shown(app)
        await press(pilot, "x")
        await play.until(pilot, lambda: any(one[0] is Action.STOP for one in _fake(app).asked), "a stop")


async def test_the_footer_says_what_esc_ends_first(tmp_path: Path) -> None:
    app = await _running(tmp_path)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "left_square_bracket")
        await play.sees(pilot, "esc present")
        await press(pilot, "slash", *"line", "enter")
        await play.sees(pilot, "esc end search")
        await press(pilot, "ampersand", *"line", "enter")
        await press(pilot, "escape")
        await play.sees(pilot, "esc end filter")
        await press(pilot, "escape")
        await play.sees(pilot, "esc present")
        await press(pilot, "escape")
        await play.until(pilot, lambda: app.state.looked is None, "the present")
        await press(pilot, "space", "slash", *"now", "enter")
        await play.sees(pilot, "1 marked", "esc end search")
        await press(pilot, "escape")
        await play.sees(pilot, "1 marked", "esc unmark")


async def test_the_graphs_of_the_present_go_on_while_the_past_is_shown(tmp_path: Path) -> None:
    app = await _running(tmp_path)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "2")
        await play.sees(pilot, "past")
        for second in range(76, 90):
            _fake(app).push(_now(second))
        await play.until(pilot, lambda: app.state.newest.elapsed_s == 89, "the newest")
        assert app.state.snapshot == snapshot_at(10)
        await press(pilot, "escape")
        await play.sees(pilot, "00:01:29")
        assert len(app.state.histories["cpu0"].fps) == 15


async def test_to_quit_is_asked_of_the_present(tmp_path: Path) -> None:
    app = await _running(tmp_path)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "1")
        await play.sees(pilot, "past")
        await press(pilot, "q")
        await play.sees(pilot, "2 workers are running", "leave them running")
        assert "past" not in play.shown(app)


async def test_an_engine_that_is_lost_meanwhile_is_said(tmp_path: Path) -> None:
    app = await _running(tmp_path)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "1")
        await play.sees(pilot, "past")
        _fake(app).push(Bye("it ended without a word"))
        await play.until(pilot, lambda: app.return_value is not None, "its end")
    assert app.return_value is not None
    assert (app.return_value.how, app.return_value.reason) == ("lost", "it ended without a word")


async def test_a_past_that_cannot_be_read_is_one_line_and_the_present_stays(tmp_path: Path) -> None:
    app = await _running(tmp_path)
    (tmp_path / "store.sqlite").unlink()
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "left_square_bracket")
        await play.sees(pilot, "[: ", "there is no store")
        assert app.state.looked is None
        await lived(tmp_path)
        await press(pilot, "left_square_bracket")
        await play.sees(pilot, "past")


async def test_whoever_is_back_in_the_present_stays_there(tmp_path: Path) -> None:
    app = await _running(tmp_path)
    async with app.run_test(size=WIDE) as pilot:
        for _ in range(20):
            play.burst(pilot, "left_square_bracket", "escape")
        await pilot.pause()
        await press(pilot, "escape")
        await play.until(pilot, lambda: app.state.looked is None and app.engine is app.live, "the present")
        await play.sees(pilot, "00:01:15")


@pytest.mark.parametrize("seed", range(3))
async def test_a_storm_of_keys_in_and_out_of_the_past(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    app = await _running(tmp_path, sweep=True)
    keys = ["left_square_bracket", "right_square_bracket", "left_curly_bracket", "right_curly_bracket", "escape"]
    keys += ["0", "5", "9", "enter", "Q", "t", "a", "down", "up", "question_mark", "f", "home", "slash", "x"]
    async with app.run_test(size=chance.choice((WIDE, NARROW))) as pilot:
        for step in range(150):
            play.burst(pilot, *chance.choices(keys, k=chance.randint(1, 6)))
            if chance.random() < 0.3:
                _fake(app).push(_now(76 + step, sweep=True))
            await pilot.pause()
            assert (app.engine is app.live) == (app.state.looked is None)
        while len(app.screen_stack) > 1:
            app.pop_screen()
            await pilot.pause()
        app.main.set_focus(None)
        await press(pilot, "escape", "escape", "escape", "escape", "escape")
        await play.until(pilot, lambda: app.state.looked is None, "the present")


async def test_what_is_told_at_the_end_is_of_the_end_whatever_is_looked_at(tmp_path: Path) -> None:
    app = await _running(tmp_path)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "q")
        await play.sees(pilot, "2 workers are running")
        await press(pilot, "s")
        await play.sees(pilot, "stopping: 2 workers left")
        await press(pilot, "0")
        await play.sees(pilot, "past", "building", "stopping: 2 workers left")
        last = replace(snapshot_at(60), time=lives.START + 80, elapsed_s=80.0)
        _fake(app).push(replace(last, workers=(last.workers[0], snapshot_at(50).workers[1])))
        await play.until(pilot, lambda: app.state.newest.elapsed_s == 80, "the newest")
        await press(pilot, "1")
        await play.sees(pilot, "stopping: 1 worker left")
        _fake(app).push(last)
        await play.until(pilot, lambda: app.return_value is not None, "its end")
    assert app.return_value is not None
    assert (app.return_value.how, app.return_value.snapshot) == ("stopped", last)


async def test_once_the_engine_has_exited_there_is_no_present_to_return_to(tmp_path: Path) -> None:
    app = await _running(tmp_path)
    last = replace(snapshot_at(60), time=lives.START + 80, elapsed_s=80.0)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "3")
        await play.sees(pilot, "past", "before the newest", "esc present")
        _fake(app).push(last)
        _fake(app).push(Bye("it ended"))
        await play.sees(pilot, "The engine has exited: it ended")
        await press(pilot, "x")
        await play.sees(pilot, "The past cannot be changed.")
        assert "present" not in play.shown(app)
        await press(pilot, "escape")
        await play.sees(pilot, "the end", "line 20 of cpu0", "finished")
        await press(pilot, "d")
    assert app.return_value is not None
    assert (app.return_value.how, app.return_value.snapshot) == ("looked", last)


async def test_to_detach_from_an_engine_that_has_exited_does_not_promise_that_it_runs(tmp_path: Path) -> None:
    app = await _running(tmp_path)
    async with app.run_test(size=WIDE) as pilot:
        _fake(app).push(snapshot_at(60))
        _fake(app).push(Bye("it ended"))
        await play.sees(pilot, "The engine has exited: it ended")
        await press(pilot, "d")
    assert app.return_value is not None
    assert app.return_value.how == "ended"


class _SlowDisk:
    """Has the past be opened no sooner than it may."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers = asyncio.Event()
        opening = PastSource.open

        async def slow(*where: Path | Session) -> PastSource:
            await self.answers.wait()
            return await opening(*where)  # type: ignore[arg-type]

        monkeypatch.setattr(PastSource, "open", slow)


async def test_the_past_does_not_appear_under_what_was_opened_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = _SlowDisk(monkeypatch)
    app = await _running(tmp_path)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "left_square_bracket", "q")
        await play.sees(pilot, "2 workers are running")
        disk.answers.set()
        await play.until(pilot, lambda: app.past is not None and not app._stepping, "the past")
        assert app.state.looked is None
        await press(pilot, "s")
        await play.until(pilot, lambda: ("end", False) in _fake(app).asked, "the end")


async def test_esc_ends_waiting_for_the_past(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = _SlowDisk(monkeypatch)
    app = await _running(tmp_path)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "left_square_bracket", "escape")
        disk.answers.set()
        await play.until(pilot, lambda: app.past is not None and not app._stepping, "the past")
        assert app.state.looked is None
        await press(pilot, "left_square_bracket")
        await play.sees(pilot, "past")


async def test_the_log_of_a_group_is_that_of_the_time(tmp_path: Path) -> None:
    session = await lived(tmp_path)
    group = RankGroup("g", lives.SLOTS, WorkerState.RUNNING)
    with closing(sqlite3.connect(tmp_path / STORE)) as db:
        later = replace(snapshot_at(50), time=lives.START + 65, groups=(group,))
        moments.put(db, [moments.Moment.of(later)])
        db.commit()
    log = {slot: [f"now {number} of {slot}" for number in range(30)] for slot in lives.SLOTS}
    app = play.app_of(FakeEngine(session, replace(_now(75), groups=(group,)), log=log))
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "g")
        await play.sees(pilot, "2 ranks", "now 29 of cpu1")
        await press(pilot, "left_square_bracket")
        await play.sees(pilot, "past", "2 ranks", "line 20 of cpu1")
        assert "now 29" not in play.shown(app)
        await press(pilot, "escape")
        await play.sees(pilot, "now 29 of cpu1")
        assert "line 20" not in play.shown(app)


async def test_workers_on_slots_of_before_a_resume_are_shown(tmp_path: Path) -> None:
    session = await lived(tmp_path, sweep=True)
    resumed = replace(session, slots=session.slots[:1])
    present = replace(_now(75, sweep=True), workers=_now(75, sweep=True).workers[:1])
    app = play.app_of(FakeEngine(resumed, present))
    async with app.run_test(size=WIDE) as pilot:
        await play.sees(pilot, "cpu0")
        assert "cpu1" not in play.shown(app)
        await press(pilot, "3")
        await play.sees(pilot, "past", "2 running", "cpu0", "cpu1")
        await press(pilot, "right")
        await play.sees(pilot, "line 20 of cpu1")
        _fake(app).push(replace(present, time=lives.START + 76))
        await press(pilot, "escape")
        await play.until(pilot, lambda: app.state.looked is None, "the present")
        assert "cpu1" not in play.shown(app)
        assert app.state.chosen == "cpu0"
    ended = await PastSource.open(tmp_path, resumed)
    app_of_ended = GmgApp(ended, pace_s=0.0, past=ended)
    async with app_of_ended.run_test(size=WIDE) as pilot:
        await press(pilot, "3")
        await play.sees(pilot, "2 running", "cpu0", "cpu1")


@pytest.mark.parametrize("width", range(60, 100, 5))
async def test_the_row_of_the_time_keeps_its_parts_apart(tmp_path: Path, width: int) -> None:
    app = await _ended(tmp_path, sweep=True)
    async with app.run_test(size=(width, 24)) as pilot:
        await press(pilot, "3", "x")
        await play.sees(pilot, "2 running", "The past cannot be changed")
        row = play.shown(app).splitlines()[1]
        times = [time.strftime("%H:%M:%S", time.localtime(lives.START + second)) for second in (0, 10, 60)]
        assert [word for word in row.split() if ":" in word] == [times[1], times[0], times[2]]
        if width >= 80:
            assert "sweep --resume life." in play.shown(app)
