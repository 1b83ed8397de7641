"""The page of a tuning: the answer, the curve and the trials."""

import pytest
from msgspec.structs import replace

from gmg_tui.model import QueueAction, TrialState, Tuning
from gmg_tui.ui.pages.tuning import TuningPage
from tests import tunings
from tests.ui import play
from tests.ui.fake_engine import FakeEngine
from tests.ui.pages import tables
from tests.ui.play import FakedApp, asked, press

SMALL, LARGE = (80, 24), (160, 48)


def engine_of(tuning: Tuning) -> FakeEngine:
    log = {slot.name: [f"line of {slot.name}"] for slot in tunings.session(tuning).slots}
    return FakeEngine(tunings.session(tuning), tunings.snapshot(tuning), log=log)


def app_of(tuning: Tuning, *, ascii_only: bool = False) -> FakedApp:
    return play.app_of(engine_of(tuning), ascii_only=ascii_only)


async def test_a_tuning_opens_on_its_page_and_a_key_returns_there() -> None:
    app = app_of(tunings.LADDER)
    async with app.run_test(size=LARGE) as pilot:
        await play.sees(pilot, "step 1 of 5  ladder: up to 16,384", "R recommended", "about 5:12 left", "8 trials")
        await press(pilot, "escape")
        await play.sees(pilot, "Q Queue")
        await press(pilot, "Q")
        await play.sees(pilot, "FPS over n_envs")
        app.engine.push(tunings.snapshot(tunings.CONFIRMING, 1.0))
        await play.sees(pilot, "confirming 17,000 and 18,000", "00:11:21")


async def test_answer_curve_and_trials_are_shown_together() -> None:
    app = app_of(tunings.EDGE)
    async with app.run_test(size=LARGE) as pilot:
        await play.sees(pilot, "FPS over n_envs", "recommended")
        text = play.shown(app)
        assert "20,000 did not run: CUDA out of memory" in text
        assert "$ gmg-tui franka.py -B 16384 --seed '{seed}'" in text
        assert "n_envs also affects what is learned, not just how" in text
        assert "gpu5 −8.0 %" in text
        assert "gpu6 was throttled: measured again" in text
        assert tables.headings(app).startswith("# n_envs slot for state FPS ±")


@pytest.mark.parametrize("size", [(60, 15), SMALL])
async def test_a_small_terminal_shows_the_answer_the_curve_and_some_trials(size: tuple[int, int]) -> None:
    app = app_of(tunings.EDGE)
    async with app.run_test(size=size) as pilot:
        await play.sees(pilot, "recommended", "$ gmg-tui", "n_envs  slot", "#15 n_envs=15,000 on gpu0")
        assert ("FPS over n_envs" in play.shown(app)) is (size == SMALL)
        assert "warning" in play.shown(app)


async def test_a_long_reason_of_the_selected_trial_is_shown_to_its_end() -> None:
    trials = (replace(trial, reason=f"{'cut ' * 30}end") for trial in tunings.EDGE.trials)
    async with app_of(replace(tunings.EDGE, trials=tuple(trials))).run_test(size=SMALL) as pilot:
        await play.sees(pilot, "cut end")


async def test_before_the_first_rate_there_is_no_answer() -> None:
    app = app_of(tunings.FIRST)
    async with app.run_test(size=LARGE) as pilot:
        await play.sees(pilot, "doubled values", "No rate yet", "none yet")
        await press(pilot, "do:screen.copy")
        await play.sees(pilot, "There is no command line yet")
        await press(pilot, "tab", "up", "end")
        assert isinstance(app.screen, TuningPage)


async def test_the_command_line_of_the_selected_value_is_copied_from_the_palette() -> None:
    app = app_of(tunings.EDGE)
    async with app.run_test(size=LARGE) as pilot:
        await press(pilot, "do:screen.copy")
        assert app.clipboard == "gmg-tui franka.py -B 16384 --seed '{seed}'"
        await press(pilot, "tab", "down", "ctrl+p", *"copy")
        await play.sees(pilot, "Copy command line")
        await press(pilot, "enter")
        await play.until(pilot, lambda: app.clipboard == "gmg-tui franka.py -B 17000 --seed '{seed}'")


async def test_a_running_trial_opens_its_details_and_is_stopped_after_a_confirmation() -> None:
    app = app_of(tunings.EDGE)
    async with app.run_test(size=LARGE) as pilot:
        trial = next(trial for trial in tunings.EDGE.trials if trial.state is TrialState.RUNNING)
        table = tables.table(app)
        table.move_to(table._keys.index(str(trial.number)))
        await press(pilot, "enter")
        await play.sees(pilot, f"{trial.slot} · H100", "Metrics")
        await press(pilot, "Q", "x")
        await play.sees(pilot, f"Stop trial {trial.number} (")
        await press(pilot, "y")
        assert asked(app.engine)[-1] == (QueueAction.STOP, trial.number)


async def test_every_size_is_filled_and_nothing_overflows() -> None:
    app = app_of(tunings.CUSTOM)
    async with app.run_test(size=LARGE) as pilot:
        for size in ((60, 12), (97, 17), (200, 60)):
            await play.resize(pilot, *size)
