"""The dialog that edits arguments and environment, from the keyboard to the engine."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual._xterm_parser import XTermParser
from textual.pilot import Pilot
from textual.widgets import TextArea

from gmg_tui.jobs.argument_placeholders import join_args
from gmg_tui.ui import Outcome
from gmg_tui.ui.edit import EditScreen, join_env, split_args, split_env
from tests.ui import play, sessions
from tests.ui.fake_engine import FakeEngine
from tests.ui.play import asked, click, press, write

ARGS, ENV = ("-B", "4096"), {"GS_CACHE": "/tmp/cache-{i}"}


class Editing(NamedTuple):
    """The dialog of a worker, open."""

    pilot: Pilot[Outcome]
    engine: FakeEngine

    @property
    def open(self) -> bool:
        return isinstance(self.pilot.app.screen, EditScreen)

    @property
    def fields(self) -> tuple[TextArea, TextArea]:
        args, env = self.pilot.app.screen.query(TextArea)
        return args, env


@asynccontextmanager
async def editing(slot: str = "gpu0", args: tuple[str, ...] = ARGS) -> AsyncIterator[Editing]:
    engine = play.edited_engine()
    engine.details_of[slot] = msgspec.structs.replace(sessions.details(slot), args=args, extra_env=ENV)
    app = play.app_of(engine)
    async with app.run_test(size=(80, 24)) as pilot:
        app.view.choose(slot)
        await press(pilot, "e")
        await play.sees(pilot, f"Edit {slot}", "unchanged")
        yield Editing(pilot, engine)


# Opening


async def test_the_dialog_opens_at_once_and_can_be_cancelled_while_the_engine_is_silent() -> None:
    engine = play.edited_engine()
    engine.answers.clear()
    app = play.app_of(engine)
    async with app.run_test(size=(80, 24)) as pilot:
        await press(pilot, "e")
        await play.sees(pilot, "Edit gpu0", "waiting for the engine")
        await press(pilot, "1", "enter", "ctrl+s")
        assert isinstance(app.screen, EditScreen)
        await press(pilot, "escape")
        assert app.screen is app.main
        engine.answers.set()
        await pilot.pause()
        assert asked(engine) == []


async def test_the_dialog_shows_an_engine_error_and_typed_keys_do_not_reach_workers() -> None:
    engine = play.edited_engine()
    engine.refuse = "gpu0 has no worker [/"
    app = play.app_of(engine)
    async with app.run_test(size=(80, 24)) as pilot:
        await press(pilot, "e")
        await play.sees(pilot, "gpu0 has no worker [/")
        await press(pilot, "x", "r", "ctrl+s")
        assert asked(engine) == []
        await press(pilot, "escape")
        assert app.screen is app.main


# Writing


async def test_what_cannot_be_parsed_is_explained_and_not_sent() -> None:
    async with editing() as dialog:
        await write(dialog.pilot, ' "half')
        await play.sees(dialog.pilot, "arguments: no closing quotation")
        await press(dialog.pilot, "ctrl+s", "enter")
        await click(dialog.pilot, "Restart (ctrl+s)")
        assert dialog.open
        args, env = dialog.fields
        args.text = "-B 4096"
        for typed, error in (
            ("GS_CACHE=1\nGS_DEBUG", "environment, line 2: expected KEY=VALUE"),
            ("GS_CACHE=1\n2FAST=1", "environment, line 2: '2FAST' is not a valid variable name"),
            ("GS_CACHE=1\nGS_CACHE=1", "environment, line 2: GS_CACHE is set twice"),
        ):
            env.text = typed
            await press(dialog.pilot, "ctrl+s")
            await play.sees(dialog.pilot, error)
        assert asked(dialog.engine) == []


async def test_pasted_lines_with_a_scrollbar_can_be_undone_and_come_again() -> None:
    """The interface failed: the cursor was left in a line that was gone."""
    pasted = "\n".join((" ".join(f"--foo bar{number}" for number in range(100)), "--last"))
    async with editing() as dialog:
        dialog.pilot.app.post_message(events.Paste(pasted))
        await play.sees(dialog.pilot, "--last")
        await press(dialog.pilot, "ctrl+z")
        await play.sees(dialog.pilot, "unchanged")
        await press(dialog.pilot, "ctrl+y")
        await play.sees(dialog.pilot, "--last")


# Applying


@pytest.mark.parametrize("how", ["enter", "click"])
async def test_this_worker_restarts_with_the_arguments_as_written(how: str) -> None:
    async with editing("gpu2", sessions.EDITED) as dialog:
        await press(dialog.pilot, "end")
        await write(dialog.pilot, " --note 'two words'")
        await (click(dialog.pilot, "Restart (ctrl+s)") if how == "click" else press(dialog.pilot, how))
        assert asked(dialog.engine) == [("edit", ("gpu2",), (*sessions.EDITED, "--note", "two words"), ENV)]
        assert not dialog.open


async def test_the_environment_is_sent_as_written_and_enter_starts_a_line_in_it() -> None:
    async with editing() as dialog:
        await press(dialog.pilot, "tab", "enter", "enter")
        await write(dialog.pilot, "URL=a=b  {x} ")
        await press(dialog.pilot, "ctrl+s")
        assert asked(dialog.engine) == [("edit", ("gpu0",), ARGS, ENV | {"URL": "a=b  {x} "})]


async def test_unchanged_settings_restart_nothing_and_cancel_sends_nothing() -> None:
    async with editing() as dialog:
        await press(dialog.pilot, "enter")
        await play.sees(dialog.pilot, "Nothing has been changed.")
        assert dialog.open
        await write(dialog.pilot, "0")
        await click(dialog.pilot, "Cancel (esc)")
        assert not dialog.open
        assert asked(dialog.engine) == []


async def test_keys_that_arrive_together_are_handled_in_order() -> None:
    async with editing() as dialog:
        driver = dialog.pilot.app._driver
        for event in XTermParser().feed("\x7f" * 4 + "8192 -v\x7f\x7f\x7f" + "\r"):
            driver.process_message(event)
        await play.until(dialog.pilot, lambda: bool(asked(dialog.engine)))
        assert asked(dialog.engine) == [("edit", ("gpu0",), ("-B", "8192"), ENV)]


async def test_esc_twice_in_one_read_closes_the_dialog_and_nothing_else() -> None:
    """The second escape closed the screen below, and the interface with it."""
    async with editing() as dialog:
        play.burst(dialog.pilot, "escape", "escape")
        await play.until(dialog.pilot, lambda: not dialog.open)
        await press(dialog.pilot, "right")
        await play.sees(dialog.pilot, "gpu1 log")


async def test_a_refusal_is_shown_and_nothing_typed_is_lost() -> None:
    async with editing() as dialog:
        await write(dialog.pilot, "0")
        dialog.engine.refuse = "gpu0 is held by another [/"
        await press(dialog.pilot, "ctrl+s")
        await play.sees(dialog.pilot, "gpu0 is held by another [/", "-B 40960")
        assert dialog.open
        dialog.engine.refuse = ""
        await press(dialog.pilot, "ctrl+s")
        assert asked(dialog.engine)[-1] == ("edit", ("gpu0",), ("-B", "40960"), ENV)
        assert not dialog.open


async def test_marked_workers_restart_with_the_settings_of_the_selected_one() -> None:
    app = play.edited()
    async with app.run_test(size=(80, 24)) as pilot:
        await press(pilot, "space", "down", "space", "e")
        await play.sees(pilot, "Edit gpu1", "2 marked workers will restart")
        await write(pilot, "0")
        await press(pilot, "ctrl+s")
        assert asked(app.engine)[-1][1] == ("gpu1", "gpu0")


# Text


@given(st.lists(st.text(max_size=8), max_size=6))
def test_formatted_arguments_parse_to_the_same_arguments(args: list[str]) -> None:
    assert split_args(join_args(args)) == tuple(args)


@given(st.dictionaries(st.from_regex(r"[A-Z_]{1,3}", fullmatch=True), st.text(st.characters(codec="utf-8"))))
def test_a_formatted_environment_parses_to_the_same_environment(env: dict[str, str]) -> None:
    assert split_env(join_env(env)) == env


def test_placeholders_are_not_quoted_and_nothing_is_expanded() -> None:
    assert join_args(("-e", "run-{i}", "$HOME", "a b")) == "-e run-{i} '$HOME' 'a b'"
    assert split_args("$HOME *.py\n# no comment") == ("$HOME", "*.py", "#", "no", "comment")
