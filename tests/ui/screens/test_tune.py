"""The screen of a tuning: what it shows, what its keys do, and how it leaves."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gmg_tui.model import Edge, Snapshot, Trial, TrialKind, TrialState, Tuning
from gmg_tui.ui.drawing.appearance import safe
from gmg_tui.ui.screens.tune.screen import TuneScreen
from tests import tunings
from tests.ui import play
from tests.ui.fake_engine import FakeEngine
from tests.ui.play import FakedApp
from tests.ui.screens.stage import EVIL, asked, click, press

SMALL, LARGE = (80, 24), (160, 48)


def engine_of(tuning: Tuning) -> FakeEngine:
    """An engine that tunes."""
    log = {slot.name: [f"line of {slot.name}"] for slot in tunings.session(tuning).slots}
    return FakeEngine(tunings.session(tuning), tunings.snapshot(tuning), log=log)


def app_of(tuning: Tuning, *, ascii_only: bool = False) -> FakedApp:
    """The interface on it."""
    return play.app_of(engine_of(tuning), ascii_only=ascii_only)


async def test_a_session_that_tunes_opens_on_it_and_the_workers_are_a_key_away() -> None:
    app = app_of(tunings.LADDER)
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "n_envs with the most FPS", "ladder: up to 16,384", "about 5:12 left", "6/24 trials")
        await press(pilot, "T")
        await play.sees(pilot, "line of gpu4", "tune franka.py -B", "T tuning")
        assert app.screen is app.main
        await press(pilot, "T")
        await play.sees(pilot, "Answer so far")
        await press(pilot, "escape")
        assert app.screen is app.main


async def test_the_headline_says_that_it_is_simulated_and_read_only() -> None:
    engine = engine_of(tunings.LADDER)
    session = engine.welcome.session
    engine.welcome = replace(
        engine.welcome, readonly=True, session=replace(session, spec=replace(session.spec, simulate=8))
    )
    app = play.app_of(engine)
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "Answer so far")
        row = play.screen(app)[0]
        assert row.startswith(" simulated ")
        assert "read-only" in row


async def test_all_is_shown_at_once_where_there_is_room() -> None:
    app = app_of(tunings.EDGE)
    async with app.run_test(size=LARGE) as pilot:
        await play.sees(pilot, "FPS over n_envs", "edge 20,000", "memory 19,200", "▸ F fastest")
        text = play.shown(app)
        assert "refine    █████▎░░░░  11.0M FPS  ±3.8 % → 2 %  9 s of 30 s" in text
        assert "20,000 did not run: CUDA out of memory" in text
        assert "$ gmg-tui franka.py -B 17000 --seed '{seed}'" in text
        assert "n_envs changes what is learned too, not only how" in text
        assert "gpu5 −8.0 %" in text
        assert "gpu6 was throttled: measured again" in text
        await press(pilot, "t")
        await play.sees(pilot, "are all shown")


async def test_a_small_screen_has_the_answer_and_one_part_by_turns() -> None:
    app = app_of(tunings.EDGE)
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "FPS over n_envs", "▸ F fastest  17,000")
        await press(pilot, "t")
        await play.sees(pilot, "#15 n_envs=15,000 on gpu0", "15 of 15", "▸ F fastest  17,000")
        assert "FPS over n_envs" not in play.shown(app)
        await press(pilot, "t")
        await play.sees(pilot, "15,000  refine    █████▎░░░░", "▸ F fastest  17,000")
        await press(pilot, "t")
        await play.sees(pilot, "FPS over n_envs")


async def test_the_smallest_screen_still_has_the_answer_the_command_and_the_curve() -> None:
    app = app_of(tunings.EDGE)
    async with app.run_test(size=(60, 12)) as pilot:
        await play.sees(pilot, "▸ F fastest  17,000", "command    $ gmg-tui", "FPS over n_envs", "q quit")


async def test_while_a_slot_starts_its_phase_is_shown() -> None:
    app = app_of(tunings.FIRST)
    async with app.run_test(size=LARGE) as pilot:
        await play.sees(pilot, "first run, alone", "no rate yet", "none yet")
        assert "compiling kernels 21 s, usually 34 s, 13 s left" in play.shown(app)


def _values(app: FakedApp, column: int) -> list[str]:
    """A column of the trials, as the screen has it."""
    rows = play.screen(app)
    start = next(at for at, row in enumerate(rows) if " slot " in row and " state " in row)
    return [row[1:].split()[column] for row in rows[start + 1 : -2] if row.strip()]


async def test_the_trials_sort_by_a_key_and_by_the_mouse_and_the_selected_one_stays() -> None:
    app = app_of(tunings.EDGE)
    async with app.run_test(size=LARGE) as pilot:
        await play.sees(pilot, "15 of 15")
        await press(pilot, "home", "right")
        values = [int(text.replace(",", "")) for text in _values(app, 1)]
        assert values == sorted(values)
        await play.sees(pilot, "#1 n_envs=64 on gpu0")
        await press(pilot, "s", "end", "s")
        await play.sees(pilot, "#1 n_envs=64 on gpu0")
        await press(pilot, "s")
        values = [int(text.replace(",", "")) for text in _values(app, 1)]
        assert values == sorted(values, reverse=True)
        await click(pilot, " SM % ")
        await play.sees(pilot, "SM %↑")
        await click(pilot, "SM %↑")
        await play.sees(pilot, "SM %↓")
        await click(pilot, " 8,192  gpu4")
        await play.sees(pilot, "#5 n_envs=8,192 on gpu4")


async def test_what_is_not_known_sorts_last_whichever_way() -> None:
    app = app_of(tunings.EDGE)
    async with app.run_test(size=LARGE) as pilot:
        await press(pilot, *["right"] * 5)
        await play.sees(pilot, "FPS↑")
        assert _values(app, 5)[-2:] == ["–", "–"]
        await press(pilot, "s")
        await play.sees(pilot, "FPS↓")
        assert _values(app, 5)[-2:] == ["–", "–"]


async def test_the_command_line_of_the_selected_value_is_copied() -> None:
    app = app_of(tunings.EDGE)
    async with app.run_test(size=LARGE) as pilot:
        await press(pilot, "y")
        assert app.clipboard == "gmg-tui franka.py -B 17000 --seed '{seed}'"
        await press(pilot, "tab")
        await play.sees(pilot, "▸ K knee")
        await press(pilot, "y")
        assert app.clipboard == "gmg-tui franka.py -B 16384 --seed '{seed}'"
        await press(pilot, "shift+tab", "shift+tab")
        await play.sees(pilot, "▸ L largest")


async def test_nothing_is_copied_and_nothing_run_before_there_is_an_answer() -> None:
    app = app_of(tunings.FIRST)
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "y")
        await play.sees(pilot, "y: there is no command line yet")
        await press(pilot, "enter")
        await play.sees(pilot, "enter: there is no answer yet")
        await press(pilot, "tab", "up", "end", "s", "right", "m")
        assert isinstance(app.screen, TuneScreen)


async def test_enter_asks_and_then_ends_the_tuning_for_a_plain_run() -> None:
    app = app_of(tunings.EDGE)
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "tab", "enter")
        await play.sees(pilot, "Run franka.py with n_envs = 16,384 on all 8 slots?", "its answer so far is kept")
        await press(pilot, "n")
        assert asked(app.engine) == []
        await press(pilot, "enter", "y")
        await play.sees(pilot, "stopping: 1 worker left")
        assert asked(app.engine) == [("end", False)]
        app.engine.push(tunings.snapshot(replace(tunings.ENDED)))
        await pilot.pause()
    assert app.return_value is not None
    assert (app.return_value.how, app.return_value.after) == ("stopped", 16_384)


async def test_the_slots_of_the_question_are_those_that_are_tuned_on() -> None:
    engine = engine_of(tunings.ENDED)
    answer = replace(tunings.ENDED.answers[0], slots=("gpu2", "gpu5"))
    snapshot = replace(engine.snapshot, tuning=replace(tunings.ENDED, answers=(answer,)))
    engine.snapshot, engine.welcome = snapshot, replace(engine.welcome, snapshot=snapshot)
    app = play.app_of(engine)
    async with app.run_test(size=LARGE) as pilot:
        await press(pilot, "enter")
        await play.sees(pilot, "on all 2 slots?")


async def test_enter_after_the_end_needs_no_stop() -> None:
    app = app_of(tunings.ENDED)
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "enter")
        await play.sees(pilot, "n_envs = 17,000 on all 8 slots?")
        await press(pilot, "y")
    assert asked(app.engine) == []
    assert app.return_value is not None
    assert (app.return_value.how, app.return_value.after) == ("ended", 17_000)


async def test_an_engine_that_refuses_to_stop_is_heard() -> None:
    app = app_of(tunings.EDGE)
    app.engine.refuse = "no"
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "enter", "y")
        await play.sees(pilot, "▸ no")
        assert not app.state.stopping


async def test_quit_keeps_the_answer_or_leaves_it_running() -> None:
    app = app_of(tunings.EDGE)
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "q")
        await play.sees(pilot, "stop the tuning and quit", "leave them running", "1 trial is running")
        await play.sees(pilot, "The answer so far is kept (gmg-tui report tune-1)", "--resume tune-1 goes on.")
        await press(pilot, "s")
        assert asked(app.engine) == [("end", False)]
        app.engine.push(tunings.snapshot(tunings.ENDED))
        await pilot.pause()
    assert app.return_value is not None
    assert (app.return_value.how, app.return_value.after) == ("stopped", None)


async def test_each_model_of_gpu_has_its_own_answer_curve_and_trials() -> None:
    app = app_of(tunings.TWO_MODELS)
    async with app.run_test(size=LARGE) as pilot:
        await play.sees(pilot, "H100 80GB HBM3, 6 slots  1 of 2 models (m)")
        await press(pilot, "m")
        await play.sees(pilot, "A100-SXM4-40GB, 2 slots  2 of 2 models (m)", "memory 12,000", "3 of 3")
        assert "▲ gpu6" not in play.shown(app)
        await press(pilot, "m")
        await play.sees(pilot, "1 of 2 models")


async def test_the_newest_snapshot_is_drawn() -> None:
    app = app_of(tunings.LADDER)
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "ladder: up to 16,384")
        app.engine.push(tunings.snapshot(tunings.CONFIRMING, 1.0))
        await play.sees(pilot, "confirming 17,000 and 18,000", "00:11:21")


def _evil() -> Snapshot:
    failed = Trial(99, 3, "gpu0", TrialKind.REFINE, TrialState.FAILED, reason=EVIL)
    answer = replace(tunings.EDGE.answers[0], edge=Edge(30, EVIL), warnings=(EVIL,), model=EVIL)
    spec = replace(tunings.SPEC, variable=EVIL, metric=EVIL)
    trials = (*tunings.EDGE.trials, failed)
    tuning = Tuning(spec, EVIL, trials, (answer,), command=("gmg-tui", EVIL, "-B", "17000"))
    return replace(tunings.snapshot(tunings.EDGE), tuning=tuning)


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("ascii_only", [False, True])
async def test_hostile_texts_are_shown_and_do_nothing(size: tuple[int, int], ascii_only: bool) -> None:
    engine = FakeEngine(tunings.session(tunings.EDGE), _evil())
    engine.welcome = replace(engine.welcome, snapshot=_evil())
    app = play.app_of(engine, ascii_only=ascii_only)
    seen: list[str] = []
    async with app.run_test(size=size) as pilot:
        for key in ("t", "t", "t", "enter"):
            seen += play.screen(app)
            await press(pilot, key)
        seen += play.screen(app)
    for row in seen:
        assert safe(row) == row
    assert sum("[bold]" in row for row in seen) >= 4
    if ascii_only:
        assert "".join(seen).isascii()


@pytest.mark.parametrize(("columns", "rows"), [(60, 12), (97, 17), (129, 30), (130, 30), (200, 60)])
@pytest.mark.parametrize("name", ["FIRST", "MINIMUM", "TWO_MODELS"])
async def test_every_size_is_filled_and_nothing_overflows(columns: int, rows: int, name: str) -> None:
    app = app_of(getattr(tunings, name))
    async with app.run_test(size=(columns, rows)) as pilot:
        await pilot.pause()
        for _ in range(3):
            drawn = play.screen(app)
            assert len(drawn) == rows
            assert {len(row) for row in drawn} == {columns}
            assert "? help" in drawn[-1]
            await press(pilot, "t")


@pytest.mark.parametrize("key", ["enter", "enter enter", "y"])
async def test_of_keys_typed_ahead_none_asks_again_or_copies(key: str) -> None:
    app = app_of(tunings.EDGE)
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "Answer so far")
        play.burst(pilot, "enter", *key.split())
        await pilot.pause()
        await pilot.pause()
        assert len(app.screen_stack) <= 3
        while not isinstance(app.screen, TuneScreen):
            await press(pilot, "n")
        assert app.clipboard == ""
        assert len(asked(app.engine)) <= (key == "y")
