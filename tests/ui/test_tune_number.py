"""`T` in a plain run: which number is tuned, what is asked first, and what takes the place of the session."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gmg_tui.model import Details, Settings, Tunable, WorkerState
from gmg_tui.ui import actions
from gmg_tui.ui.screens.edit.numbers import tunable
from tests.ui import play, sweeps
from tests.ui.play import FakedApp
from tests.ui.screens.stage import asked, press

SMALL = (80, 24)


@pytest.mark.parametrize(
    ("args", "edited", "variable", "value", "filled"),
    [
        ("-B 4096 --seed {seed}", "", "n_envs", 4096, "-B {n_envs} --seed {seed}"),
        ("--n_envs=4_096", "", "n_envs", 4096, "--n_envs={n_envs}"),
        ("task=go2 env.num_envs=64 x=1", "", "n_envs", 64, "task=go2 env.num_envs={n_envs} x=1"),
        ("--headless -B64", "", "n_envs", 64, "--headless -B{n_envs}"),
        ("-B 64 --num-steps 24", "--num-steps", "num-steps", 24, "-B 64 --num-steps {num-steps}"),
        ("-B 64 agent.steps=24", "agent.steps=", "agent.steps", 24, "-B 64 agent.steps={agent.steps}"),
        ("64 64", "1", "value", 64, "64 {value}"),
        ("--headless -x64", "--headless", "value", 64, "--headless -x{value}"),
        ("-B 64 hidden=[8,16]", "hidden=", "hidden", 16, "-B 64 hidden=[8,{hidden}]"),
        ("-B 64 -n 3", "-n", "n_value", 3, "-B 64 -n {n_value}"),
        ("-B 64 i=3", "i=", "i_value", 3, "-B 64 i={i_value}"),
        ("-B 64 --name 3", "--name", "name_value", 3, "-B 64 --name {name_value}"),
        ("-B 64 --seed 3", "--seed", "seed_value", 3, "-B 64 --seed {seed_value}"),
        ("-B 64 --lr 0.001", "--lr", "n_envs", 64, "-B {n_envs} --lr 0.001"),
        ("-B 64 --lr 1e-3", "--lr", "n_envs", 64, "-B {n_envs} --lr 1e-3"),
        ("-B 64 --lr 1e5", "--lr", "n_envs", 64, "-B {n_envs} --lr 1e5"),
        ("-B 64 --mask 0x40", "--mask", "n_envs", 64, "-B {n_envs} --mask 0x40"),
        ("-B 64 --least -5", "--least", "n_envs", 64, "-B {n_envs} --least -5"),
        ("-B 64 x=-5", "x=", "n_envs", 64, "-B {n_envs} x=-5"),
        ("-B 64 --gone", "--was", "n_envs", 64, "-B {n_envs} --gone"),
        ("-B 64", "7", "n_envs", 64, "-B {n_envs}"),
    ],
)
def test_the_number_edited_last_is_tuned_if_it_is_whole_else_that_of_environments(
    args: str, edited: str, variable: str, value: int, filled: str
) -> None:
    env = {"SIZE": "{n}"}
    found = tunable(Settings(tuple(args.split()), env), edited)
    assert found == Tunable(variable, value, tuple(filled.split()), env)


@pytest.mark.parametrize(
    ("args", "edited"),
    [("", ""), ("-B {n_envs}", ""), ("-B 0", ""), ("-B", ""), ("--lr 1e-3", "--lr"), ("run_3.yaml", "0"), ("7", "")],
)
def test_without_such_a_number_nothing_is_tuned(args: str, edited: str) -> None:
    assert tunable(Settings(tuple(args.split())), edited) is None


def _app(*args: str, env: dict[str, str] | None = None, workers: int = 2) -> FakedApp:
    app = play.busy(workers)
    details = Details("gpu0", ("python", *args), "/", {}, (), "", (), args=args, extra_env=env or {})
    app.engine.details_of = {f"gpu{index}": replace(details, slot=f"gpu{index}") for index in range(workers)}
    return app


async def test_a_question_says_what_ends_and_yes_puts_the_tuning_in_the_place_of_the_session() -> None:
    app = _app("-B", "4096", env={"DEBUG": "1"})
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "T")
        await play.sees(pilot, "Look for the best n_envs (4,096 now) on all slots?", "2 running workers")
        for no in ("n", "escape", "enter"):
            await press(pilot, no)
            assert app.screen is app.main
            assert asked(app.engine) == []
            await press(pilot, "T")
        await press(pilot, "y")
        await play.sees(pilot, "stopping: 2 workers left")
        assert asked(app.engine) == [("end", False)]
        over = tuple(replace(worker, state=WorkerState.STOPPED) for worker in app.engine.snapshot.workers)
        app.engine.push(replace(app.engine.snapshot, workers=over))
        await pilot.pause()
    assert app.return_value is not None
    number = Tunable("n_envs", 4096, ("-B", "{n_envs}"), {"DEBUG": "1"})
    assert (app.return_value.how, app.return_value.after) == ("stopped", number)


async def test_of_one_worker_the_question_speaks_in_the_singular() -> None:
    app = _app("-B", "64", workers=1)
    async with app.run_test(size=(160, 48)) as pilot:
        await press(pilot, "T")
        await play.sees(pilot, "1 running worker")


async def test_keys_typed_ahead_answer_the_question_and_do_nothing_else() -> None:
    app = _app("-B", "4096")
    app.engine.answers.clear()
    async with app.run_test(size=SMALL) as pilot:
        play.burst(pilot, "T", "x", "y")
        await pilot.pause()
        app.engine.answers.set()
        await play.sees(pilot, "stopping: 2 workers left")
    assert asked(app.engine) == [("end", False)]


async def test_a_number_that_was_edited_is_the_one_that_is_asked_about() -> None:
    app = _app("-B", "64", "--steps", "24")
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "e", "end", "8", "enter", "T")
        await play.sees(pilot, "Look for the best steps (24 now)")


async def test_no_number_is_said() -> None:
    app = _app("--seed", "{seed}")
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "T")
        await play.sees(pilot, "T: there is no number of environments among the arguments")
        assert app.screen is app.main


async def test_after_the_end_nothing_has_to_be_stopped() -> None:
    app = _app("-B", "64")
    over = tuple(replace(worker, state=WorkerState.FINISHED) for worker in app.engine.snapshot.workers)
    async with app.run_test(size=SMALL) as pilot:
        app.engine.push(replace(app.engine.snapshot, workers=over))
        await pilot.pause()
        await press(pilot, "T")
        await play.sees(pilot, "Look for the best n_envs (64 now) on all slots? Its answer")
        await press(pilot, "y")
    assert asked(app.engine) == []
    assert app.return_value is not None
    assert (app.return_value.how, app.return_value.after) == ("ended", Tunable("n_envs", 64, ("-B", "{n_envs}")))


async def test_the_jobs_of_a_sweep_cannot_be_tuned() -> None:
    app = sweeps.app()
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "T")
        await play.sees(pilot, "T: the jobs of a sweep cannot be tuned")
        assert app.screen is app.main


async def test_an_engine_that_does_not_answer_is_said_and_keys_work_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gmg_tui.ui.screen_actions.OPENING_S", 0.05)
    monkeypatch.setattr(actions, "OPENING_S", 0.05)
    app = _app("-B", "64")
    app.engine.answers.clear()
    async with app.run_test(size=SMALL) as pilot:
        play.burst(pilot, "T", "y")
        await play.sees(pilot, "T: the engine does not answer")
        await press(pilot, "right")
        assert app.state.chosen == "gpu1"
        app.engine.answers.set()
        await press(pilot, "T")
        await play.sees(pilot, "Look for the best n_envs")


async def test_a_refused_end_lets_nothing_follow_when_the_session_is_left_later() -> None:
    app = _app("-B", "64")
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "T")
        app.engine.refuse = "not now"
        await press(pilot, "y")
        await play.sees(pilot, "not now")
        over = tuple(replace(worker, state=WorkerState.FINISHED) for worker in app.engine.snapshot.workers)
        app.engine.push(replace(app.engine.snapshot, workers=over))
        await pilot.pause()
        await press(pilot, "q")
    assert app.return_value is not None
    assert (app.return_value.how, app.return_value.after) == ("ended", None)


async def test_detaching_while_the_workers_are_stopped_lets_nothing_follow() -> None:
    app = _app("-B", "64")
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "T", "y")
        await play.sees(pilot, "stopping: 2 workers left")
        await press(pilot, "d")
    assert app.return_value is not None
    assert app.return_value.how == "detached"
