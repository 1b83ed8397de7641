"""A screen that only looks: its keys change nothing, and it offers none that would."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from gmg_tui.ui import keys
from gmg_tui.ui.keys import Key
from gmg_tui.ui.permissions import STEERING, TERMINAL, Permissions
from tests import tunings
from tests.ui import play, sweeps
from tests.ui.fake_engine import FakeEngine
from tests.ui.play import FakedApp
from tests.ui.screens import stage, test_tried, test_tune
from tests.ui.screens.stage import asked, click, press

WIDE = (150, 44)
LOOKS = {"follow", "details", "series", "queue", "tried", "close"}
TABLES = (keys.KEYS, keys.DETAILS, keys.PROCESSES, keys.QUEUE, keys.TUNE, keys.TRIED, keys.GPUS, keys.EDIT)


def _only_looks(engine: FakeEngine) -> FakeEngine:
    engine.welcome = replace(engine.welcome, readonly=True)
    return engine


def _engine(of: str) -> FakeEngine:
    match of:
        case "queue":
            return _only_looks(sweeps.engine())
        case "tuning":
            return _only_looks(test_tune.engine_of(tunings.EDGE))
        case "tried":
            return _only_looks(test_tried._engine())
        case _:
            return _only_looks(stage.engine())


def _steered(engine: FakeEngine) -> list[tuple[object, ...]]:
    return [request for request in engine.asked if request[0] not in LOOKS]


def _keys() -> Iterator[Key]:
    for table in TABLES:
        yield from table


def test_no_action_of_a_key_is_forgotten() -> None:
    """A key that is added is sorted here by what it does."""
    looking = {
        *("move", "details", "queue", "tuning", "tried", "view", "sort", "filter_slots", "trouble", "search", "follow"),
        *(
            "group_log",
            "filter",
            "fold_node",
            "fold_all",
            "log_folds",
            "log_heads",
            "log_wraps",
            "copy_line",
            "copy_log_path",
            "search_next",
        ),
        *(
            "log_page",
            "log_across",
            "processes",
            "detach",
            "quit_session",
            "help",
            "redraw",
            "leave",
            "command_palette",
        ),
        *("time_step", "time_move", "time_jump"),
        *("back", "neighbour", "section", "show", "zoom", "pan", "command", "scroll", "refresh", "page", "edge"),
        *("part", "answer", "copy", "model", "reverse", "order", "cancel", "focus_next", "scale", "undo", "redo"),
    }
    names = {key.action.partition("(")[0].rpartition(".")[2] for key in _keys()}
    assert names == looking | STEERING | TERMINAL
    assert not looking & STEERING


@pytest.mark.parametrize(
    ("of", "opening"),
    [
        ("main", ()),
        ("main", ("enter",)),
        ("main", ("enter", "2")),
        ("main", ("p",)),
        ("tried", ("a",)),
        ("queue", ()),
        ("queue", ("Q",)),
        ("tuning", ()),
    ],
)
async def test_no_key_of_any_screen_changes_anything(of: str, opening: tuple[str, ...]) -> None:
    engine = _engine(of)
    steering = {one for key in _keys() if key.action.partition("(")[0] in STEERING for one in key.keys.split(",")}
    steering -= {key.keys.partition(",")[0] for key in _keys() if key.action in {"details", "focus_next"}} | {"enter"}
    assert len(steering) > 15
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
            assert _steered(engine) == [], (key, opening)
        if of in {"tried", "tuning"}:
            await press(pilot, "enter")
            assert _steered(engine) == []
            assert app.screen is here


@pytest.mark.parametrize("opening", [(), ("enter",), ("p",)])
async def test_why_nothing_happens_is_said_where_the_key_was_pressed(opening: tuple[str, ...]) -> None:
    app = play.app_of(_engine("main"))
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, *opening, "x")
        await play.sees(pilot, "This screen is read-only: it changes nothing.")
        await press(pilot, "down", "escape" if opening else "t")
        await play.until(pilot, lambda: "read-only: it" not in play.shown(app), "no message any more")


async def test_headline_footers_help_and_palette_offer_what_is_allowed() -> None:
    app = play.app_of(_engine("main"))
    async with app.run_test(size=WIDE) as pilot:
        await play.sees(pilot, "read-only", "enter details", "? help")
        for text in ("r restart", "x stop", "e edit", "space mark"):
            assert text not in play.shown(app)
        offered = {command.title for command in app.get_system_commands(app.screen)}
        assert {"details", "search", "quit", "theme: dark"} <= offered
        assert not offered & {"restart", "restart failed", "stop", "kill", "edit", "mark", "stacks"}
        await press(pilot, "question_mark")
        helped = "\n".join(_help(app))
        assert "Close the screen; the session is not touched." in helped
        for text in ("Restart the worker", "Kill the worker", "Send SIGTERM", "Skip the job", "Double the number"):
            assert text not in helped
        await press(pilot, "escape", "enter")
        await play.sees(pilot, "[1 charts]", "esc back")
        assert "r restart" not in play.shown(app)


def _help(app: FakedApp) -> Iterator[str]:
    from gmg_tui.ui.screens.entries import Entries

    for section in app.screen.query(Entries):
        for entry in section._entries:
            yield f"{entry.label} {entry.text}"


async def test_q_leaves_without_a_question_and_without_touching_the_workers() -> None:
    engine = _engine("main")
    app = play.app_of(engine)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "q")
    assert app.return_value is not None
    assert app.return_value.how == "detached"
    assert asked(engine) == []


async def test_a_click_on_what_is_not_offered_and_a_double_click_change_nothing() -> None:
    engine = _engine("tried")
    app = play.app_of(engine)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "a")
        await click(pilot, "21,100,000")
        await click(pilot, "21,100,000")
        assert app.screen.__class__.__name__ == "TriedScreen"
        assert _steered(engine) == []


async def test_a_browser_is_offered_nothing_that_takes_the_terminal() -> None:
    app = FakedApp(stage.engine(), theme="dark", pace_s=0.0, web=True)
    async with app.run_test(size=WIDE) as pilot:
        await play.sees(pilot, "r restart")  # it may steer
        for key in ("o", "ctrl+z"):
            await press(pilot, key)
            await play.sees(pilot, "A browser has no terminal for that.")
            await press(pilot, "down")
        assert not {"open log", "suspend"} & {command.title for command in app.get_system_commands(app.screen)}


def test_permissions_are_by_the_action_whatever_its_namespace_and_arguments() -> None:
    looks = Permissions(readonly=True)
    for action in ("restart", "app.edit(3)", "screen.apply()", "end_process(True)", "shift('top')"):
        assert looks.why_not(action), action
        assert not Permissions().why_not(action)
    for action in ("move('up')", "at_once('restart')", "app.detach", "log_pager"):
        assert not looks.why_not(action), action
