"""The dialog that edits arguments and environment, from the keyboard to the engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual._xterm_parser import XTermParser
from textual.pilot import Pilot

from gmg_tui.errors import GmgError
from gmg_tui.ui import Outcome
from gmg_tui.ui.screens import arguments
from gmg_tui.ui.screens.edit import EditScreen
from tests.ui import play
from tests.ui.fake_engine import FakeEngine
from tests.ui.screens import stage
from tests.ui.screens.stage import asked, click, press, write

ARGS, ENV = ("-B", "4096"), {"GS_CACHE": "/tmp/cache-{i}"}


class Editing(NamedTuple):
    """The dialog of a worker, open."""

    pilot: Pilot[Outcome]
    engine: FakeEngine

    @property
    def open(self) -> bool:
        return isinstance(self.pilot.app.screen, EditScreen)


@asynccontextmanager
async def editing(slot: str = "gpu0", args: tuple[str, ...] = ARGS) -> AsyncIterator[Editing]:
    engine = stage.engine()
    engine.details_of[slot] = msgspec.structs.replace(stage.details(slot), args=args, extra_env=ENV)
    app = stage.app(engine)
    async with app.run_test(size=(80, 24)) as pilot:
        app.state.choose(slot)
        await press(pilot, "e")
        await play.sees(pilot, f"Edit {slot}")
        yield Editing(pilot, engine)


@pytest.mark.parametrize(
    ("typed", "error"),
    [
        (' "half', "arguments: a quotation mark is not closed"),
        (" half\\", "arguments: the backslash at the end has nothing after it"),
    ],
)
async def test_arguments_that_cannot_be_read_are_said_in_place_and_not_sent(typed: str, error: str) -> None:
    async with editing() as dialog:
        await write(dialog.pilot, typed)
        await play.sees(dialog.pilot, error)
        await press(dialog.pilot, "ctrl+s")
        await click(dialog.pilot, "Restart ]")
        assert dialog.open
        assert asked(dialog.engine) == []
        dialog.pilot.app.screen.query_one("#args").focus()
        await press(dialog.pilot, *["backspace"] * len(typed))
        assert error not in play.shown(dialog.pilot.app)
        await play.sees(dialog.pilot, "Nothing is changed yet.")


@pytest.mark.parametrize(
    ("typed", "error"),
    [
        ("GS_DEBUG", "environment, line 2: no = in it; write KEY=VALUE"),
        ("2FAST=1", "environment, line 2: '2FAST' is no name of a variable"),
        ("GS_CACHE=1", "environment, line 2: GS_CACHE is there already"),
    ],
)
async def test_a_line_of_the_environment_that_cannot_be_read_is_said_with_its_number(typed: str, error: str) -> None:
    async with editing() as dialog:
        await press(dialog.pilot, "tab", "enter")
        await write(dialog.pilot, typed)
        await press(dialog.pilot, "ctrl+s")
        await play.sees(dialog.pilot, error)
        assert dialog.open
        assert asked(dialog.engine) == []


async def test_the_environment_is_sent_as_it_is_written() -> None:
    async with editing() as dialog:
        await press(dialog.pilot, "tab", "enter", "enter")
        await write(dialog.pilot, "URL=a=b  {x} ")
        await press(dialog.pilot, "ctrl+s")
        assert asked(dialog.engine) == [("edit", ("gpu0",), ARGS, ENV | {"URL": "a=b  {x} "})]
        assert not dialog.open


async def test_ctrl_s_restarts_this_worker_with_the_arguments_as_written() -> None:
    async with editing("gpu2", stage.ARGS) as dialog:
        await write(dialog.pilot, " --note 'two words'")
        await press(dialog.pilot, "ctrl+s")
        assert asked(dialog.engine) == [("edit", ("gpu2",), (*stage.ARGS, "--note", "two words"), ENV)]


@pytest.mark.parametrize("how", ["keys", "mouse"])
async def test_all_workers_are_meant_when_that_is_chosen_and_the_button_restarts_them(how: str) -> None:
    async with editing() as dialog:
        await write(dialog.pilot, "0")
        await play.sees(dialog.pilot, "gpu0 is stopped and started again with this.")
        if how == "keys":
            await press(dialog.pilot, "tab", "tab", "right")
            await play.sees(dialog.pilot, "(*) all 4 workers", "All 4 workers are stopped and started again")
            await press(dialog.pilot, "tab", "enter")
        else:
            await click(dialog.pilot, "all 4 workers")
            await play.sees(dialog.pilot, "(*) all 4 workers", "All 4 workers are stopped and started again")
            await click(dialog.pilot, "Restart ]")
        assert asked(dialog.engine) == [("edit", stage.SLOTS, ("-B", "40960"), ENV)]


async def test_nothing_changed_is_said_and_not_sent_but_for_all_it_is_a_change() -> None:
    async with editing() as dialog:
        await play.sees(dialog.pilot, "Nothing is changed yet.")
        await press(dialog.pilot, "ctrl+s")
        await play.sees(dialog.pilot, "Nothing is changed: esc closes")
        assert dialog.open
        assert asked(dialog.engine) == []
        await press(dialog.pilot, "tab", "tab", "space", "ctrl+s")
        assert asked(dialog.engine) == [("edit", stage.SLOTS, ARGS, ENV)]


@pytest.mark.parametrize("how", ["escape", "button"])
async def test_cancel_sends_nothing(how: str) -> None:
    async with editing() as dialog:
        await write(dialog.pilot, "0")
        if how == "escape":
            await press(dialog.pilot, "escape")
        else:
            await click(dialog.pilot, "Cancel ]")
        assert not dialog.open
        assert asked(dialog.engine) == []


async def test_the_number_under_the_cursor_is_doubled_and_halved() -> None:
    async with editing() as dialog:
        await press(dialog.pilot, "ctrl+up", "ctrl+up", "ctrl+down", "alt+up")
        await play.sees(dialog.pilot, "-B 16384")
        await press(dialog.pilot, "ctrl+down", "ctrl+s")
        assert asked(dialog.engine) == [("edit", ("gpu0",), ("-B", "8192"), ENV)]


async def test_without_a_number_under_the_cursor_that_is_said() -> None:
    async with editing() as dialog:
        await press(dialog.pilot, "home", "ctrl+up")
        await play.sees(dialog.pilot, "There is no number under the cursor to double or halve.")
        await press(dialog.pilot, "tab", "tab", "ctrl+down")
        await play.sees(dialog.pilot, "There is no number under the cursor to double or halve.")


async def test_the_preview_is_what_this_worker_would_get() -> None:
    async with editing("gpu2", stage.ARGS) as dialog:
        await play.sees(dialog.pilot, "-B 4096 -e run-2 --seed 2001", "GS_CACHE=/tmp/cache-2", "{seed} 2001")
        await write(dialog.pilot, " {gpu}of{n}{{x}}")
        await play.sees(dialog.pilot, "--seed 2001 2of4{x}")


async def test_keys_that_come_together_are_obeyed_in_order() -> None:
    async with editing() as dialog:
        driver = dialog.pilot.app._driver
        assert driver is not None
        for event in XTermParser().feed("\x7f" * 4 + "8192 -v\x7f\x7f\x7f\x13"):
            driver.process_message(event)
        for _ in range(20):
            await dialog.pilot.pause()
        assert asked(dialog.engine) == [("edit", ("gpu0",), ("-B", "8192"), ENV)]


async def test_what_the_engine_refuses_is_said_on_the_main_screen() -> None:
    async with editing() as dialog:
        await write(dialog.pilot, "0")
        dialog.engine.refuse = "gpu0 is held by another"
        await press(dialog.pilot, "ctrl+s")
        await play.sees(dialog.pilot, "gpu0 is held by another")


@pytest.mark.parametrize(
    ("line", "column", "doubled", "halved"),
    [
        ("-B 4096", 3, "8192", "2048"),
        ("-B 4096", 7, "8192", "2048"),
        ("-B 4096", 2, None, None),
        ("-B 1", 4, "2", "1"),
        ("-B 0", 4, "0", "0"),
        ("lr=0.5,n=7", 5, "1", "0.25"),
        ("lr=0.5,n=7", 9, "14", "3"),
        ("--lr 3e-4", 9, "0.0006", "0.00015"),
        ("", 0, None, None),
    ],
)
def test_numbers_are_scaled_as_they_are_written(
    line: str, column: int, doubled: str | None, halved: str | None
) -> None:
    for factor, wanted in ((2, doubled), (-2, halved)):
        found = arguments.scaled(line, column, factor)
        assert (found.text if found else None) == wanted


@given(st.lists(st.text(max_size=8), max_size=6))
def test_arguments_that_are_written_are_read_as_they_were(args: list[str]) -> None:
    assert arguments.split(arguments.join(args)) == tuple(args)


def test_placeholders_are_not_quoted_and_nothing_is_expanded() -> None:
    assert arguments.join(("-e", "run-{i}", "$HOME", "a b")) == "-e run-{i} '$HOME' 'a b'"
    assert arguments.split("$HOME *.py\n# no comment") == ("$HOME", "*.py", "#", "no", "comment")


def test_a_broken_environment_names_the_first_line_that_is_wrong() -> None:
    with pytest.raises(GmgError, match="line 3: no ="):
        arguments.split_env("A=1\n\nB\nC")
