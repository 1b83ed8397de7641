"""The main screen in a sweep: the queue's row, the jobs on their slots, and slots that come and go."""

import pytest
from textual.pilot import Pilot

from gmg_tui.model import Details, Snapshot, WorkerState
from gmg_tui.session.protocol import Welcome
from gmg_tui.ui import Outcome
from gmg_tui.ui.view import View
from tests.ui import play, sessions, sweeps
from tests.ui.fake_engine import FakeEngine
from tests.ui.play import asked, press
from tests.workers import changed

SMALL, WIDE = (80, 24), (160, 48)


async def _shows(pilot: Pilot[Outcome], engine: FakeEngine, snapshot: Snapshot) -> None:
    engine.push(snapshot)
    await pilot.pause()
    await pilot.pause()


def _with(snapshot: Snapshot, *slots: int) -> Snapshot:
    """`snapshot` with the workers of these slots only."""
    names = {f"gpu{index}" for index in slots}
    return changed(snapshot, workers=tuple(w for w in snapshot.workers if w.slot in names))


# The state


def _state(*slots: int, of: int = 8) -> View:
    engine = sweeps.engine(slots=of, used=of)
    return View(Welcome(engine.welcome.session, _with(engine.snapshot, *slots), ()))


def test_a_sweep_shows_slots_with_a_worker_and_a_plain_run_shows_all() -> None:
    assert _state(0, 2, 5).slots == ("gpu0", "gpu2", "gpu5")
    session = sessions.session(4)
    plain = Snapshot(0.0, 0.0, sessions.busy_snapshot(4).workers[:2])
    assert View(Welcome(session, plain, ())).slots == ("gpu0", "gpu1", "gpu2", "gpu3")


@pytest.mark.parametrize(
    ("left", "chosen"), [((0, 1, 3), "gpu3"), ((0, 6, 7), "gpu6"), ((2, 7), "gpu2"), ((5,), "gpu5"), ((), "")]
)
def test_the_nearest_slot_is_selected_when_the_selected_one_disappears(left: tuple[int, ...], chosen: str) -> None:
    state = _state(*range(8))
    state.choose("gpu4")
    full = sweeps.engine(slots=8, used=8).snapshot
    state.apply(_with(full, *left))
    assert state.selected == chosen


# The screen


@pytest.mark.parametrize("size", [(60, 12), (120, 36)])
async def test_the_queue_has_a_row_that_is_shortened_to_the_width(size: tuple[int, int]) -> None:
    app = sweeps.app()
    async with app.run_test(size=size) as pilot:
        await play.sees(pilot, "12/30 jobs", "1 failed", "00:04:12 left")
        row = play.screen(app)[1]
        assert ("3 active" in row) is (size[0] >= 80)
        full, rest = row.count("█"), row.count("░")
        assert full / (full + rest) == pytest.approx(12 / 30, abs=0.08)


async def test_a_job_is_shown_beside_its_slot() -> None:
    app = sweeps.app()
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "gpu0 #13 met", "#13 method=ode-b8", "waiting for")
        await pilot.resize_terminal(*WIDE)
        await play.sees(pilot, "gpu0 #13 method", "waiting for 8.0 GiB of free VRAM")
        await pilot.resize_terminal(200, 60)
        app.engine.push(_with(app.engine.snapshot, 0, 3))
        await play.sees(pilot, "gpu0 #13 method=ode-b8 · H100 80GB HBM3", "gpu3 · H100 80GB HBM3")


async def test_a_long_name_of_a_job_is_cut_to_leave_room_for_the_figures() -> None:
    engine = sweeps.engine(slots=8, used=8)
    long = tuple(changed(worker, job_name="learning_rate=0.0003,horizon=24") for worker in engine.snapshot.workers)
    app = sweeps.app(engine)
    async with app.run_test(size=SMALL) as pilot:
        await _shows(pilot, engine, changed(engine.snapshot, workers=long))
        await play.sees(pilot, "notes", "GPU %  VRAM GiB   W °C", " lea", "…")


async def test_the_end_shows_counts_and_the_time() -> None:
    engine = sweeps.engine()
    app = sweeps.app(engine)
    async with app.run_test(size=(120, 36)) as pilot:
        await _shows(pilot, engine, sweeps.ended_snapshot(sweeps.jobs(30, 30)))
        texts = ("30/30 jobs", "1 failed", "ended after 00:41:07")
        await play.sees(pilot, *texts)
        assert "all have ended" not in play.shown(app)
        await pilot.resize_terminal(60, 12)
        await play.sees(pilot, "30/30 jobs", "1 failed", "ended after 00:41:07")


async def test_the_selection_and_its_log_follow_slots_that_come_and_go() -> None:
    engine = sweeps.engine()
    app = sweeps.app(engine)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "right", "right")
        assert app.view.selected == "gpu2"
        await _shows(pilot, engine, _with(engine.snapshot, 0, 3))
        assert app.view.selected == "gpu3"
        await play.sees(pilot, "gpu3 log")
        assert "gpu1" not in play.shown(app)
        await _shows(pilot, engine, _with(sweeps.engine().snapshot, 0, 1, 2, 3))
        await play.sees(pilot, "gpu1", "gpu2")
        assert app.view.selected == "gpu3"


async def test_without_slots_keys_show_a_message() -> None:
    engine = sweeps.engine()
    app = sweeps.app(engine)
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "enter")
        await _shows(pilot, engine, _with(engine.snapshot))
        await play.sees(pilot, "gpu0 is no longer in use")
        await press(pilot, "right", "left", "1", "escape")
        await play.sees(pilot, "No job is running. Q shows the queue.")
        before = asked(engine)
        for key in ("r", "x", "X", "e", "enter", "down", "right", "t"):
            await press(pilot, key)
            assert app.screen is app.main
        assert asked(engine) == before
        await _shows(pilot, engine, _with(sweeps.engine().snapshot, 1))
        await play.sees(pilot, "gpu1 log")


async def test_the_details_follow_the_slot_to_its_next_job() -> None:
    engine = sweeps.engine()
    app = sweeps.app(engine)
    async with app.run_test(size=(120, 36)) as pilot:
        await press(pilot, "enter")
        await play.sees(pilot, "#13 method=ode-b8")
        engine.jobs = sweeps.jobs(30, 15)
        await _shows(pilot, engine, sweeps.snapshot(engine.jobs, version=2))
        await play.sees(pilot, "#16 method=sde-b2")


async def test_editing_names_the_job_and_applies_to_running_jobs() -> None:
    engine = sweeps.engine()
    engine.details_of["gpu1"] = Details("gpu1", (), "/", {}, (), "", (), args=("-m", "{method}", "-n", "{job}/{n}"))
    app = sweeps.app(engine)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "right", "e")
        await play.sees(pilot, "Edit gpu1, job 14 (method=sde-b16)", "unchanged")
        await press(pilot, "backspace", "9", "ctrl+s", "y")
        assert engine.asked[-1] == ("edit", ("gpu1",), ("-m", "{method}", "-n", "{job}/{n9"), {})


# Keys that are for a queue


async def test_the_palette_benches_gpus_and_enables_them_again() -> None:
    engine = sweeps.engine()
    app = sweeps.app(engine)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "space", "right", "space", "ctrl+p", *"do not use this gpu")
        await play.sees(pilot, "Do not use this GPU for jobs")
        await press(pilot, "enter")
        await play.sees(pilot, "No more jobs will start on gpu0, gpu1.")
        await press(pilot, "do:use_gpu(True)")
        await play.sees(pilot, "Jobs can start again on gpu0, gpu1.")
        requests = [request for request in engine.asked if request[0] == "use_slot"]
        assert requests == [("use_slot", f"gpu{gpu}", used) for used in (False, True) for gpu in (0, 1)]
        engine.refuse = "no slot [gpu0]; there are none"
        await press(pilot, "do:use_gpu(True)")
        await play.sees(pilot, "no slot [gpu0]; there are none")
    plain = play.busy()
    async with plain.run_test(size=WIDE):
        assert not plain.check_action("use_gpu", ())


async def test_a_key_on_a_slot_without_a_job_shows_a_message() -> None:
    engine = sweeps.engine()
    app = sweeps.app(engine)
    async with app.run_test(size=WIDE) as pilot:
        app.view.choose("gpu3")
        worker = app.view.worker_on(app.view.selected)
        assert worker.job is None
        for key in ("r", "x", "X", "e"):
            app.clear_notifications()
            await press(pilot, key)
            await play.sees(pilot, "Nothing is running on gpu3.")
        assert asked(engine) == []


async def test_a_job_that_has_ended_can_only_be_run_again() -> None:
    engine = sweeps.engine()
    app = sweeps.app(engine)
    async with app.run_test(size=WIDE) as pilot:
        first, *others = engine.snapshot.workers
        for key, message in (("x", "Nothing is running on gpu0."), ("e", "Nothing is running on gpu0."), ("r", "")):
            ended = changed(first, state=WorkerState.FAILED)
            await _shows(pilot, engine, changed(engine.snapshot, workers=(ended, *others)))
            await press(pilot, key)
            await play.sees(pilot, message)
        assert asked(engine) == [("restart", "gpu0")]


async def test_quitting_shows_how_to_continue_and_counts_jobs() -> None:
    app = sweeps.app()
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "q")
        await play.sees(pilot, "3 jobs are running, 15 waiting.", "Stop the jobs", "Leave them running")
        await play.sees(pilot, "gmg-tui sweep --resume sweep-1")
        await press(pilot, "x")
        assert asked(app.engine) == [("end", False)]
        await play.sees(pilot, "Stopping: 3 workers left")
        ended = sweeps.queue_of(sweeps.jobs(30, 15, running=0), ended=True)
        app.engine.push(changed(app.engine.snapshot, workers=(), queue=ended))
        await pilot.pause()
    assert app.return_value.kind == "stopped"
