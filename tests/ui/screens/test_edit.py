"""The dialog that edits arguments and environment, from the keyboard to the engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
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
from gmg_tui.ui.screens.edit import arguments
from gmg_tui.ui.screens.edit.fields import Field
from gmg_tui.ui.screens.edit.screen import EditScreen
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
        (' "half', "arguments: unclosed quotation mark"),
        (" half\\", "arguments: trailing backslash"),
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
        await play.sees(dialog.pilot, "Nothing has been changed.")


@pytest.mark.parametrize(
    ("typed", "error"),
    [
        ("GS_DEBUG", "environment, line 2: expected KEY=VALUE"),
        ("2FAST=1", "environment, line 2: '2FAST' is not a valid variable name"),
        ("GS_CACHE=1", "environment, line 2: GS_CACHE is set twice"),
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
        await press(dialog.pilot, "end")
        await write(dialog.pilot, " --note 'two words'")
        await press(dialog.pilot, "ctrl+s")
        assert asked(dialog.engine) == [("edit", ("gpu2",), (*stage.ARGS, "--note", "two words"), ENV)]


@pytest.mark.parametrize("how", ["keys", "mouse"])
async def test_all_workers_are_meant_when_that_is_chosen_and_the_button_restarts_them(how: str) -> None:
    async with editing() as dialog:
        await write(dialog.pilot, "0")
        await play.sees(dialog.pilot, "gpu0 will restart with these settings.")
        if how == "keys":
            await press(dialog.pilot, "tab", "tab", "right")
            await play.sees(dialog.pilot, "(*) all 4 workers", "All 4 workers will restart")
            await press(dialog.pilot, "tab", "enter")
        else:
            await click(dialog.pilot, "all 4 workers")
            await play.sees(dialog.pilot, "(*) all 4 workers", "All 4 workers will restart")
            await click(dialog.pilot, "Restart ]")
        assert asked(dialog.engine) == [("edit", stage.SLOTS, ("-B", "40960"), ENV)]


async def test_nothing_changed_is_said_and_not_sent_but_for_all_it_is_a_change() -> None:
    async with editing() as dialog:
        await play.sees(dialog.pilot, "Nothing has been changed.")
        await press(dialog.pilot, "ctrl+s")
        await play.sees(dialog.pilot, "Nothing has been changed. esc closes")
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
        await play.sees(dialog.pilot, "There is no number under the cursor.")
        await press(dialog.pilot, "tab", "tab", "ctrl+down")
        await play.sees(dialog.pilot, "There is no number under the cursor.")


async def test_the_preview_is_what_this_worker_would_get() -> None:
    async with editing("gpu2", stage.ARGS) as dialog:
        await play.sees(dialog.pilot, "-B 4096 -e run-2 --seed 2001", "GS_CACHE=/tmp/cache-2", "{seed} 2001")
        await press(dialog.pilot, "end")
        await write(dialog.pilot, " {gpu}of{n}{{x}}")
        await play.sees(dialog.pilot, "--seed 2001 2of4{x}")


async def test_keys_that_come_together_are_obeyed_in_order() -> None:
    async with editing() as dialog:
        driver = dialog.pilot.app._driver
        assert driver is not None
        for event in XTermParser().feed("\x7f" * 4 + "8192 -v\x7f\x7f\x7f\x13"):
            driver.process_message(event)
        await _until(dialog, lambda: bool(asked(dialog.engine)))
        assert asked(dialog.engine) == [("edit", ("gpu0",), ("-B", "8192"), ENV)]


async def test_what_the_engine_refuses_is_said_and_nothing_typed_is_lost() -> None:
    async with editing() as dialog:
        await write(dialog.pilot, "0")
        dialog.engine.refuse = "gpu0 is held by another"
        await press(dialog.pilot, "ctrl+s")
        await play.sees(dialog.pilot, "gpu0 is held by another", "-B 40960")
        assert dialog.open
        dialog.engine.refuse = ""
        await press(dialog.pilot, "ctrl+s")
        assert asked(dialog.engine)[-1] == ("edit", ("gpu0",), ("-B", "40960"), ENV)
        assert not dialog.open


@pytest.mark.parametrize("apart_s", [0.0, 0.005])
@pytest.mark.parametrize(
    ("typed", "request_"),
    [
        ("0\t\t\x1b[C\x13", ("edit", stage.SLOTS, ("-B", "40960"), ENV)),
        ("0\t\t \x13", ("edit", stage.SLOTS, ("-B", "40960"), ENV)),
        ("\t\x0dA=1\x1b[Z0\t\t\t\x0d", ("edit", ("gpu0",), ("-B", "40960"), ENV | {"A": "1"})),
        ("\x1b[200~0\x1b[201~\x01\x13", ("edit", stage.SLOTS, ("-B", "40960"), ENV)),
        ("\x01" + "\x7f" * 4 + "8\x13", ("edit", stage.SLOTS, ("-B", "8"), ENV)),
        ("0\x0d", ("edit", ("gpu0",), ("-B", "40960"), ENV)),
        ("\x1b[1;3A\x1b[1;5A\x1b[1;3B\x0d", ("edit", ("gpu0",), ("-B", "8192"), ENV)),
        ("9\x1a8\x0d", ("edit", ("gpu0",), ("-B", "40968"), ENV)),
    ],
    ids=["arrow", "space", "button", "pasted", "ctrl+a", "enter", "alt", "ctrl+z"],
)
async def test_keys_are_obeyed_in_order_by_whatever_has_the_focus_when_their_turn_comes(
    typed: str, request_: tuple[object, ...], apart_s: float
) -> None:
    async with editing() as dialog:
        driver = dialog.pilot.app._driver
        assert driver is not None
        parser = XTermParser()
        for event in parser.feed(typed):
            driver.process_message(event)
            if apart_s:
                await asyncio.sleep(apart_s)
        await _until(dialog, lambda: not dialog.open)
        assert asked(dialog.engine) == [request_]


async def _until(dialog: Editing, holds: Callable[[], bool]) -> None:
    await play.until(dialog.pilot, holds)


async def test_every_key_under_the_dialog_can_be_clicked() -> None:
    async with editing() as dialog:
        await click(dialog.pilot, "double")
        await play.sees(dialog.pilot, "-B 8192")
        await click(dialog.pilot, "halve")
        await play.sees(dialog.pilot, "-B 4096")
        await click(dialog.pilot, "one or all")
        await play.sees(dialog.pilot, "(*) all 4 workers")
        await click(dialog.pilot, "next field")
        assert dialog.pilot.app.focused is dialog.pilot.app.screen.query_one("#env")
        await click(dialog.pilot, "esc cancel")
        assert not dialog.open


async def test_the_scope_is_remembered_once_it_was_used() -> None:
    async with editing() as dialog:
        await press(dialog.pilot, "ctrl+a")
        await play.sees(dialog.pilot, "(*) all 4 workers")
        await press(dialog.pilot, "escape", "e")
        await play.sees(dialog.pilot, "(*) this worker")
        await press(dialog.pilot, "ctrl+a", "ctrl+s", "e")
        await play.sees(dialog.pilot, "Edit gpu0", "(*) all 4 workers")


async def test_ctrl_c_in_a_field_asks_to_quit() -> None:
    async with editing() as dialog:
        await press(dialog.pilot, "ctrl+c")
        await play.sees(dialog.pilot, "4 workers are running")


@pytest.mark.parametrize("size", [(60, 12), (60, 15), (80, 24)])
async def test_the_keys_stay_in_view_however_much_is_written(size: tuple[int, int]) -> None:
    async with editing() as dialog:
        await dialog.pilot.resize_terminal(*size)
        await write(dialog.pilot, " --words 'many more of them" + " and more" * 20)
        await play.sees(dialog.pilot, "unclosed quotation mark", "ctrl+s apply", "esc cancel", "[ Restart ]")
        await write(dialog.pilot, "'")
        await play.sees(dialog.pilot, "gpu0 will restart", "ctrl+s apply", "esc cancel", "[ Restart ]")


async def test_the_preview_of_many_words_is_bounded_and_of_an_open_quotation_mark_empty() -> None:
    env = {f"V{number}": "x" for number in range(40)}
    async with editing(args=("-B", *map(str, range(400)))) as dialog:
        rows = [row for row in play.screen(dialog.pilot.app) if row.strip(" │")]
        assert any("…" in row for row in rows)
        await play.sees(dialog.pilot, "expands to    -B 0 1 2")
        await press(dialog.pilot, "tab")
        await dialog.pilot.resize_terminal(80, 48)
        dialog.pilot.app.screen.query_one("#env", Field).text = arguments.join_env(env)
        await play.sees(dialog.pilot, "V2=x", "and 37 more variables", "placeholders")
        dialog.pilot.app.screen.query_one("#args", Field).text = "-B 'half"
        await play.sees(dialog.pilot, "expands to    –", "unclosed quotation mark")


async def test_a_name_in_braces_that_is_no_placeholder_is_told() -> None:
    async with editing() as dialog:
        await write(dialog.pilot, " -e run-{i}")
        await play.sees(dialog.pilot, "gpu0 will restart with these settings.")
        assert "not a placeholder" not in play.shown(dialog.pilot.app)
        await write(dialog.pilot, "-{ii}")
        await play.sees(dialog.pilot, "{ii} is not a placeholder and", "stays as written.")


async def test_no_arguments_and_an_empty_argument_can_be_sent() -> None:
    async with editing(args=("-B",)) as dialog:
        await write(dialog.pilot, " ''")
        await play.sees(dialog.pilot, "expands to    -B ''")
        await press(dialog.pilot, *["backspace"] * 5)
        await play.sees(dialog.pilot, "expands to    no arguments")
        await press(dialog.pilot, "ctrl+s")
        assert asked(dialog.engine) == [("edit", ("gpu0",), (), ENV)]


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
        assert (found[2] if found else None) == wanted


@given(st.lists(st.text(max_size=8), max_size=6))
def test_arguments_that_are_written_are_read_as_they_were(args: list[str]) -> None:
    assert arguments.split(arguments.join(args)) == tuple(args)


def test_placeholders_are_not_quoted_and_nothing_is_expanded() -> None:
    assert arguments.join(("-e", "run-{i}", "$HOME", "a b")) == "-e run-{i} '$HOME' 'a b'"
    assert arguments.split("$HOME *.py\n# no comment") == ("$HOME", "*.py", "#", "no", "comment")


def test_a_broken_environment_names_the_first_line_that_is_wrong() -> None:
    with pytest.raises(GmgError, match="line 3: expected KEY=VALUE"):
        arguments.split_env("A=1\n\nB\nC")
