"""Where the edit dialog begins, and how it gives earlier settings back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot

from gmg_tui.model import Attempt, AttemptMetrics, Settings, WorkerState
from gmg_tui.ui.screens.edit import arguments, numbers
from gmg_tui.ui.screens.edit.earlier import earlier
from gmg_tui.ui.screens.edit.fields import Field
from gmg_tui.ui.screens.edit.screen import EditScreen
from tests.ui import play
from tests.ui.play import FakedApp
from tests.ui.screens import stage
from tests.ui.screens.stage import asked, press, write


def _with_cursor(args: tuple[str, ...], edited: str = "") -> str:
    line, at = arguments.join(args), numbers.cursor(args, edited)
    return f"{line[:at]}|{line[at:]}"


@pytest.mark.parametrize(
    ("args", "edited", "shown"),
    [
        (("-B", "4096", "--seed", "7"), "", "-B 4096| --seed 7"),
        (("--seed", "7", "--n_envs", "64", "x"), "", "--seed 7 --n_envs 64| x"),
        (("--num-envs=8_192", "-v"), "", "--num-envs=8_192| -v"),
        (("task=go2", "env.num_envs=2048", "a b"), "", "task=go2 env.num_envs=2048| 'a b'"),
        (("-B", "4", "--lr", "3e-4", "-v"), "--lr", "-B 4 --lr 3e-4| -v"),
        (("-B", "4", "lr=0.5", "-v"), "lr=", "-B 4 lr=0.5| -v"),
        (("two words", "5", "-B", "4"), "1", "'two words' 5| -B 4"),
        (("-B", "4", "size=[1, 2]", "-v"), "size=", "-B 4 'size=[1, 2|]' -v"),
        (("-B", "4", "-v"), "--lr", "-B 4| -v"),
        (("-B", "4", "--lr", "auto"), "--lr", "-B 4| --lr auto"),
        (("-B", "{n}", "-v"), "", "-B {n} -v|"),
        (("-B", "4"), "7", "-B 4|"),
        ((), "", "|"),
    ],
)
def test_the_cursor_begins_behind_the_number_that_matters(args: tuple[str, ...], edited: str, shown: str) -> None:
    assert _with_cursor(args, edited) == shown


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        ("-B 1 --lr 3", "-B 2 --lr 3", "-B"),
        ("-B 1 --lr 3", "-B 1 --lr 4", "--lr"),
        ("-B 1 lr=3", "-B 1 lr=4", "lr="),
        ("-B 1", "-B 1 --lr 4", "--lr"),
        ("5 6", "5 7", "1"),
        ("-B 1", "-B 1 -v", ""),
        ("-B 1", "-B 1", ""),
        ("-B 1 -e 2", "-B 1", ""),
    ],
)
def test_what_was_edited_is_named_so_that_it_is_found_again(before: str, after: str, name: str) -> None:
    assert numbers.edited_name(before.split(), after.split()) == name


ATTEMPTS: tuple[tuple[int, tuple[str, ...], dict[str, str], float | None, WorkerState, str | None], ...] = (
    (1, ("-B", "1024"), {}, 13e6, WorkerState.STOPPED, None),
    (2, ("-B", "2048"), {"A": "{i}"}, 17e6, WorkerState.STOPPED, None),
    (3, ("-B", "2048"), {"A": "{i}"}, None, WorkerState.STOPPED, None),
    (4, ("-B", "65536"), {}, None, WorkerState.FAILED, "out of memory"),
    (5, ("-B", "4096"), {}, 24e6, WorkerState.RUNNING, None),
)


def _attempt(number: int, args: tuple[str, ...], fps: float | None, state: WorkerState, reason: str | None) -> Attempt:
    metrics = AttemptMetrics(number, args, fps)
    return Attempt(number, args, 100 + number, stage.NOW - 900, stage.NOW - 800, 0, state, reason, metrics)


@asynccontextmanager
async def staged(*keys: str, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Pilot[Any]]:
    """The app on a worker with five attempts, after some keys."""
    engine = stage.engine()
    engine.details_of["gpu0"] = msgspec.structs.replace(
        stage.details("gpu0"),
        attempts=tuple(_attempt(number, args, fps, state, why) for number, args, _, fps, state, why in ATTEMPTS),
        settings=tuple(Settings(args, env) for _, args, env, *_ in ATTEMPTS),
        args=("-B", "4096"),
        extra_env={},
    )
    app = stage.app(engine)
    async with app.run_test(size=size) as pilot:
        await press(pilot, *keys)
        yield pilot


def written(pilot: Pilot[Any]) -> tuple[str, str]:
    args, env = pilot.app.screen.query(Field)
    return args.text, env.text


def _engine_asked(pilot: Pilot[Any]) -> list[tuple[object, ...]]:
    assert isinstance(pilot.app, FakedApp)
    return asked(pilot.app.engine)


async def test_ctrl_z_undoes_what_was_typed_then_gives_the_settings_before_each_once() -> None:
    async with staged("e") as pilot:
        await write(pilot, "0")
        assert written(pilot) == ("-B 40960", "")
        await press(pilot, "ctrl+z")
        assert written(pilot) == ("-B 4096", "")
        await press(pilot, "ctrl+z")
        assert written(pilot) == ("-B 65536", "")
        await play.sees(pilot, "gpu0 will restart with these settings. From attempt 4: failed, out of", "memory.")
        await press(pilot, "ctrl+z")
        assert written(pilot) == ("-B 2048", "A={i}")
        await play.sees(pilot, "From attempt 3: stopped.")
        await press(pilot, "ctrl+z")
        assert written(pilot) == ("-B 1024", "")
        await play.sees(pilot, "From attempt 1: 13,000,000 FPS.")
        await press(pilot, "ctrl+z")
        assert written(pilot) == ("-B 1024", "")
        await play.sees(pilot, "There are no earlier settings.")
        await press(pilot, "ctrl+y", "enter")
        assert _engine_asked(pilot)[-1] == ("edit", ("gpu0",), ("-B", "2048"), {"A": "{i}"})


async def test_nothing_typed_is_lost_on_the_way_back_and_forth() -> None:
    async with staged("e") as pilot:
        await press(pilot, "tab")
        await write(pilot, "X=1")
        await press(pilot, "shift+tab", "ctrl+z")
        assert written(pilot) == ("-B 65536", "")
        await write(pilot, "9")
        await press(pilot, "ctrl+y", "ctrl+y")
        assert written(pilot) == ("-B 4096", "X=1")
        await press(pilot, "tab", "ctrl+z", "ctrl+z")
        assert written(pilot) == ("-B 655369", "")
        await press(pilot, "ctrl+y", "ctrl+y")
        assert written(pilot) == ("-B 4096", "X=1")


async def test_ctrl_z_goes_back_wherever_the_focus_is() -> None:
    async with staged("e", "tab", "tab") as pilot:
        await press(pilot, "ctrl+z")
        assert written(pilot) == ("-B 65536", "")
        assert isinstance(pilot.app.screen, EditScreen)


async def test_the_number_that_was_edited_last_is_under_the_cursor_of_every_worker() -> None:
    async with staged("right", "e") as pilot:
        await press(pilot, "end", *["backspace"] * len("{seed}"))
        await write(pilot, "5")
        await press(pilot, "enter", "e")
        await play.sees(pilot, "Edit gpu1")
        assert _engine_asked(pilot)[-1][2] == ("-B", "4096", "-e", "run-{i}", "--seed", "5")
        await press(pilot, "escape", "left", "e")
        await play.sees(pilot, "Edit gpu0")  # has no --seed
        await press(pilot, "alt+up")
        assert written(pilot)[0] == "-B 8192"
        app = pilot.app
        assert isinstance(app, FakedApp)
        await press(pilot, "escape")
        app.engine.details_of["gpu0"] = msgspec.structs.replace(stage.details("gpu0"), args=("-B", "4", "--seed", "7"))
        await press(pilot, "e", "alt+up")
        assert written(pilot)[0] == "-B 4 --seed 14"


async def test_enter_applies_but_in_the_environment_it_begins_a_line() -> None:
    async with staged("e") as pilot:
        await press(pilot, "alt+up", "tab")
        await write(pilot, "A=1")
        await press(pilot, "enter")
        await write(pilot, "B=2")
        assert written(pilot) == ("-B 8192", "A=1\nB=2")
        await press(pilot, "tab", "enter")
        assert _engine_asked(pilot) == [("edit", ("gpu0",), ("-B", "8192"), {"A": "1", "B": "2"})]
        assert pilot.app.screen is pilot.app.screen_stack[0]


async def test_both_ways_to_double_are_shown() -> None:
    async with staged("e") as pilot:
        await play.sees(pilot, "ctrl/alt+↑ double", "ctrl/alt+↓ halve", "enter ctrl+s apply", "ctrl+z undo, earlier")


def test_settings_of_another_worker_to_start_with_stand_behind_the_present_ones() -> None:
    present, other = Settings(("-B", "1"), {}), Settings(("-B", "9"), {"A": "1"})
    details = msgspec.structs.replace(stage.details(), args=present.args, extra_env=present.env, attempts=())
    assert [one.settings for one in earlier(details, other)] == [present, other]
    assert [one.settings for one in earlier(details, present)] == [present]
