"""Every key of the table, from the keyboard to the engine or the screen."""

import asyncio
import itertools
import re
import time
from collections.abc import Mapping
from typing import cast
from unittest.mock import patch

import pyte
import pytest
from msgspec import structs
from rich.console import Console
from textual.app import SystemCommand
from textual.binding import BindingsMap
from textual.pilot import Pilot

from gmg_tui.model import WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.session.protocol import Bye, Seen
from gmg_tui.ui import Outcome, keys
from gmg_tui.ui.app import GmgApp
from gmg_tui.ui.main_screen import MainScreen
from gmg_tui.ui.rows import KeysFooter
from tests.ui import play, sessions, sweeps
from tests.ui.play import FakedApp, asked, press
from tests.ui.sessions import NOW
from tests.workers import changed

WIDE = (160, 48)
SMALL = (80, 24)


def test_each_key_has_one_action_and_each_action_exists() -> None:
    names = {(key, binding.id) for key, binding in BindingsMap([*keys.MAIN])}
    assert len(names) == len({key for key, _ in names})
    for binding in keys.MAIN:
        name = f"action_{binding.action.partition('(')[0].removeprefix('app.')}"
        assert hasattr(GmgApp, name) or hasattr(MainScreen, name), binding.action
        assert binding.key == "ctrl+c" or (binding.id and binding.tooltip), binding.action


@pytest.mark.parametrize(
    ("choice", "wrong"),
    [
        ({"stop": ["r"]}, "stop: r is already bound to restart; remap restart too"),
        ({"stop": ["hyper+x"]}, "stop: there is no key hyper+x"),
        ({"stop": [" "]}, "stop: there is no key "),
        ({"stop": ["ctrl+c"]}, "stop: ctrl+c is already bound to quit"),
    ],
)
def test_unknown_and_conflicting_keys_are_rejected(choice: dict[str, list[str]], wrong: str) -> None:
    with pytest.raises(GmgError, match=re.escape(wrong)):
        keys.remap(choice)
    assert keys.keymap == {}


def test_a_key_may_be_named_as_the_screen_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "keymap", {})
    keys.remap({"restart": ["F5", "Ctrl+R"], "details": ["PgDn"], "page-down": ["d"], "detach": ["f6"]})
    assert keys.keymap["restart"] == "f5,ctrl+r"
    assert keys.keymap["details"] == "pagedown"


async def test_restart_failed_restarts_failed_and_stuck_workers_and_reports_when_there_are_none() -> None:
    app = play.varied()
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "do:restart_failed")
        assert asked(app.engine) == [("restart", "gpu3", "gpu4")]
        app.engine.push(sessions.busy_snapshot(second=1.0))
        await pilot.pause()
        await press(pilot, "do:restart_failed")
        assert len(asked(app.engine)) == 1
        await play.sees(pilot, "No worker has failed")


async def test_kill_asks_first_unless_the_worker_is_being_stopped_already() -> None:
    app = play.varied()
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "X")
        await play.sees(pilot, "Kill gpu0 now?")
        await press(pilot, "n")
        assert asked(app.engine) == []
        await press(pilot, "X", "escape")
        assert asked(app.engine) == []
        await press(pilot, "X", "y")
        assert asked(app.engine) == [("kill", "gpu0")]
        app.view.choose("gpu5")
        worker = app.view.worker_on(app.view.selected)
        assert worker.state is WorkerState.STOPPING
        await press(pilot, "X")
        assert asked(app.engine)[1:] == [("kill", "gpu5")]


_LONG = {"attempt_started": NOW - 2352.0}
"""Of a worker whose attempt has run for 39 minutes."""


def _with(*changes: Mapping[str, object]) -> FakedApp:
    """A worker for each of the `changes` made to one that runs."""
    snapshot = sessions.busy_snapshot(len(changes))
    workers = tuple(changed(worker, **change) for worker, change in zip(snapshot.workers, changes, strict=True))
    return play.app_of(play.engine_of(changed(snapshot, workers=workers)))


async def test_losing_more_than_a_minute_of_running_asks_first() -> None:
    app = _with(_LONG, {"attempt_started": NOW - 59.0})
    async with app.run_test(size=WIDE) as pilot:
        for key, verb, action in (("r", "Restart", "restart"), ("x", "Stop", "stop")):
            app.engine.asked.clear()
            await press(pilot, key)
            await play.sees(pilot, f"{verb} gpu0? It has been running for 39:12.")
            await press(pilot, "enter", key, "escape")
            assert asked(app.engine) == []
            await press(pilot, key, "y")
            assert asked(app.engine) == [(action, "gpu0")]
            assert app.engine.seen == {"gpu0": Seen(None, 1)}
            await press(pilot, "right", key, "left")
            assert asked(app.engine)[1:] == [(action, "gpu1")]


async def test_a_restart_that_loses_nothing_does_not_ask() -> None:
    app = _with(
        _LONG | {"state": WorkerState.STOPPING},
        _LONG | {"state": WorkerState.RESTARTING},
        _LONG | {"state": WorkerState.FAILED},
    )
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, *["r", "right"] * 3)
        assert asked(app.engine) == [("restart", f"gpu{number}") for number in range(3)]


async def test_restarting_failed_workers_asks_when_a_stuck_one_has_run_for_long() -> None:
    snapshot = sessions.varied_snapshot()
    workers = tuple(changed(worker, **_LONG) if worker.stuck else worker for worker in snapshot.workers)
    app = play.app_of(play.engine_of(changed(snapshot, workers=workers)))
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "do:restart_failed")
        await play.sees(pilot, "Restart 2 workers? gpu4 has been running for 39:12.")
        await press(pilot, "y")
        assert asked(app.engine) == [("restart", "gpu3", "gpu4")]


async def test_a_key_without_effect_shows_the_reason() -> None:
    cases = ((WorkerState.FINISHED, "x"), (WorkerState.FAILED, "X"), (WorkerState.STOPPED, "x"))
    app = _with(*({"state": state} for state, _ in cases))
    async with app.run_test(size=SMALL) as pilot:
        for number, (_, key) in enumerate(cases):
            await press(pilot, key)
            await play.sees(pilot, f"Nothing is running on gpu{number}.")
            await press(pilot, "down")
        for key, text in (
            ("Q", "Queue is not possible: only sweeps and tuning runs have a queue."),
            ("n", "Next match is not possible: there is no search; / starts one."),
        ):
            await press(pilot, key)
            await play.sees(pilot, text)
        assert asked(app.engine) == []


def _lit(app: FakedApp) -> str:
    """The keys of the footer that are not dimmed."""
    footer = app.screen.query_one(KeysFooter)
    dim = footer.appearance["dim"].color
    return "".join(part.text for part in footer.render_line(0) if part.style and part.style.color != dim)


async def test_the_footer_of_the_queue_follows_the_selected_job() -> None:
    app = sweeps.app()
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "Q")
        await play.sees(pilot, "#13 method")
        await play.until(pilot, lambda: "x Skip or stop" in _lit(app))
        await press(pilot, "home")
        assert "x Skip or stop" not in _lit(app)


async def test_the_footer_dims_keys_that_would_do_nothing() -> None:
    app = _with({"state": WorkerState.FINISHED}, {})
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "right")
        assert "r Restart x Stop X Kill e Edit" in _lit(app)
        await press(pilot, "left")
        assert "r Restart   e Edit" in _lit(app)
        assert "x Stop" in play.screen(app)[-1]
        assert "enter Enlarge" in _lit(app)
        await press(pilot, "enter")
        assert "enter Enlarge" not in _lit(app)
        assert "enter" not in play.screen(app)[-1], "a log has nothing to open"
        await press(pilot, "w")
        assert "enter" not in play.screen(app)[-1], "a worker that has ended has no stacks"
        await press(pilot, "right")
        assert "enter Take stacks" in _lit(app)
        await press(pilot, "escape")
        app.main.filter_workers("no such worker")
        await pilot.pause()
        assert not {"Restart", "Edit", "Enlarge", "Mark"} & set(_lit(app).split())


@pytest.mark.parametrize(
    ("size", "steps"),
    [
        (WIDE, [("right", "gpu1"), ("down", "gpu5"), ("l l h", "gpu6"), ("k left up", "gpu1"), ("j left", "gpu4")]),
        (SMALL, [("down j", "gpu2"), ("up k k", "gpu0"), ("j j j j j j j j j j", "gpu7")]),
    ],
)
async def test_arrows_letters_and_clicks_select_a_worker_and_open_its_log(
    size: tuple[int, int], steps: list[tuple[str, str]]
) -> None:
    app = play.busy()
    async with app.run_test(size=size) as pilot:
        for pressed, slot in steps:
            await press(pilot, *pressed.split())
            assert app.view.selected == app.main.log_view.source.name == slot
            await play.sees(pilot, f"{slot} log")
        clicks = {WIDE: {(130, 3): "gpu3", (50, 12): "gpu5"}, SMALL: {(70, 4): "gpu2", (3, 10): "gpu2"}}
        for at, slot in clicks[size].items():  # the last is beside all workers
            await pilot.click(offset=at)
            await pilot.pause()
            assert app.view.selected == slot


async def test_a_click_on_a_footer_key_acts_like_the_key_and_a_refusal_is_shown() -> None:
    app = play.busy()
    async with app.run_test(size=SMALL) as pilot:
        await pilot.pause()
        app.engine.refuse = "gpu0 is [bold]busy[/bold]"
        await pilot.click(offset=(play.screen(app)[-1].index("x Stop"), 23))
        await play.sees(pilot, "gpu0 is [bold]busy[/bold]")
        assert asked(app.engine) == [("stop", "gpu0")]


async def test_t_switches_between_tiles_and_table_and_reports_when_tiles_do_not_fit() -> None:
    app = play.busy()
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        assert "VRAM GiB" not in play.shown(app)
        await press(pilot, "t")
        await play.sees(pilot, "VRAM GiB")
        assert "? Help" in play.screen(app)[-1]
        await press(pilot, "t")
        assert "VRAM GiB" not in play.shown(app)
        await pilot.resize_terminal(60, 12)
        await press(pilot, "t", "t")
        await play.sees(pilot, "no room for tiles")


# Screens


async def _command(pilot: Pilot[Outcome], name: str, help_text: str) -> None:
    """Run a command by its name from the palette."""
    await press(pilot, "ctrl+p", *("space" if letter == " " else letter for letter in name))
    await play.sees(pilot, help_text)
    await press(pilot, "enter")
    while pilot.app.screen is not cast("FakedApp", pilot.app).main:
        await press(pilot, "enter")


async def test_the_palette_runs_the_same_actions_as_keys() -> None:
    app = play.busy()
    async with app.run_test(size=WIDE) as pilot:
        await _command(pilot, "stop", "Stop the worker")
        assert asked(app.engine) == [("stop", "gpu0")]
        await _command(pilot, "light", "Use the colours of light.")
        assert app.theme == "gmg-light"


@pytest.mark.parametrize(
    ("name", "typed", "shown"),
    [
        ("".join(letter * 20 for letter in "restart"), "restart", "Restart (r)"),
        ("[/]", "sort", "Sort by [/]"),
        ("[@click=app.screenshot('x')]loss[/]", "loss", "Sort by [@click=app.screenshot('x')]loss[/]"),
    ],
)
async def test_the_palette_shows_and_finds_names_that_a_script_chose_as_text(name: str, typed: str, shown: str) -> None:
    """By the name of a result, a page can be sorted."""
    app = play.busy()
    hostile = SystemCommand(f"Sort by {name}", "Sort the rows.", lambda: None)
    with patch.object(app, "get_system_commands", lambda screen: [*GmgApp.get_system_commands(app, screen), hostile]):
        async with app.run_test(size=WIDE) as pilot:
            await press(pilot, "ctrl+p")
            await play.sees(pilot, "Restart (r)")
            await press(pilot, *typed)
            await play.sees(pilot, shown)
            assert ("Sort the rows." in play.shown(app)) is ("Sort" in shown)
    assert not app.check_action("screenshot", ("x",))


async def test_the_palette_lists_commands_in_the_order_of_the_help() -> None:
    app = play.busy()
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "ctrl+p")
        await play.sees(pilot, "Restart (r)")
        places = [play.shown(app).index(name) for name in ("Restart (r)", "Stop (x)", "Kill (X)", "Edit (e)")]
        assert places == sorted(places)


@pytest.mark.parametrize("how", ["redraw", "a resize to the same size"])
async def test_all_cells_are_sent_again(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The latter comes after two resizes in such quick succession that one signal reports both."""
    sent = play.record(monkeypatch, Console(color_system="256", force_terminal=True))
    app = play.busy()
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "400 lines")
        await pilot.resize_terminal(*SMALL)
        await pilot.pause()
        sent.clear()
        await (press(pilot, "do:redraw") if how == "redraw" else pilot.resize_terminal(*SMALL))

        def has_all() -> bool:
            terminal = pyte.Screen(*SMALL)
            pyte.Stream(terminal).feed("".join(sent))
            return [row.rstrip() for row in terminal.display] == [row.rstrip() for row in play.screen(app)]

        await play.until(pilot, has_all, "all cells")


async def test_a_process_that_stalls_as_a_timer_starts_loses_neither_a_size_nor_a_frame(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a busy machine that happens: a timer of Textual that is late from the start never ticks."""
    app = play.busy()
    async with app.run_test(size=WIDE) as pilot:
        await play.sees(pilot, "400 lines")
        times = itertools.count(time.monotonic(), 0.02)
        with monkeypatch.context() as late:
            late.setattr("textual.timer._time.get_time", lambda: next(times))
            await pilot.resize_terminal(*SMALL)
            app.engine.push(structs.replace(app.engine.snapshot, nvml_error="the driver is silent"))
            await asyncio.sleep(0.1)
        await play.until(pilot, lambda: len(play.screen(app)) == SMALL[1], SMALL)
        await play.sees(pilot, "the driver is silent")


# Leaving


async def test_a_refused_stop_does_not_change_the_session() -> None:
    app = play.busy()
    async with app.run_test(size=WIDE) as pilot:
        app.engine.refuse = "the engine cannot do that now"
        await press(pilot, "q", "x")
        await play.sees(pilot, "the engine cannot do that now")
        assert not app.view.stopping
        app.engine.refuse = ""
        await press(pilot, "q")
        await play.sees(pilot, "8 workers are running")
        assert "Kill them now" not in play.shown(app)


async def test_quit_asks_escape_cancels_and_detaching_does_not_affect_workers() -> None:
    app = play.busy()
    async with app.run_test(size=WIDE) as pilot:
        for key in ("q", "ctrl+c"):
            await press(pilot, key)
            await play.sees(pilot, "8 workers are running")
            await press(pilot, "escape")
            assert app.screen is app.main
        assert app.return_value is None
        await press(pilot, "q", "d")
    assert app.return_value is not None
    assert app.return_value.kind == "detached"
    assert asked(app.engine) == []


async def test_quit_and_stop_exits_once_all_workers_have_ended() -> None:
    app = play.busy()
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "q", "x")
        assert asked(app.engine) == [("end", False)]
        assert app.return_value is None
        await play.sees(pilot, "Stopping: 8 workers left")
        await press(pilot, "q", "X")
        assert asked(app.engine) == [("end", False), ("end", True)]
        app.engine.push(sessions.ended_snapshot())
        await pilot.pause()
    assert app.return_value is not None
    assert app.return_value.kind == "stopped"
    assert app.return_value.snapshot.ended


async def test_quit_does_not_ask_when_all_workers_have_ended() -> None:
    app = play.app_of(play.engine_of(sessions.ended_snapshot()))
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        assert "7 finished" in play.screen(app)[1]
        await press(pilot, "q")
    assert app.return_value.kind == "ended"


async def test_the_final_result_stays_when_the_engine_has_exited() -> None:
    app = play.busy()
    async with app.run_test(size=WIDE) as pilot:
        app.engine.push(sessions.ended_snapshot())
        app.engine.push(Bye("idle"))
        await play.sees(pilot, "7 finished", "The engine has exited: idle")
        assert app.return_value is None


# The palette offers what works on the screen beneath, and nothing else

EVERYWHERE = {"Help (?)", "Detach (d)", "Quit (q)", "Redraw"}
ON_A_WORKER = {"Restart (r)", "Stop (x)", "Kill (X)", "Edit (e)"}
MAIN_ONLY = {"View (t)", "Follow (f)", "Search (/)", "Start (Home)", "Processes (p)", "Show charts"}


async def _offered(app: FakedApp, pilot: Pilot[Outcome]) -> set[str]:
    """What the palette offers once it has been opened over the screen."""
    beneath = app.screen
    await press(pilot, "ctrl+p")
    return {command.title for command in app.get_system_commands(beneath) if ": " not in command.title}


@pytest.mark.parametrize(
    ("keys", "there", "missing"),
    [
        ("", EVERYWHERE | ON_A_WORKER | MAIN_ONLY, {"Queue (Q)", "Next match (n)", "Back (esc)"}),
        ("enter", EVERYWHERE | ON_A_WORKER | MAIN_ONLY | {"Back (esc)"}, {"Queue (Q)", "Next match (n)"}),
        ("a", {"Redraw"}, MAIN_ONLY | {"Restart (r)", "Edit (e)", "Queue (Q)", "Show Python stacks"}),
        ("slash B enter", EVERYWHERE | MAIN_ONLY | {"Next match (n)", "Back (esc)"}, {"Queue (Q)"}),
    ],
)
async def test_the_palette_offers_only_what_works_on_the_current_screen(
    keys: str, there: set[str], missing: set[str]
) -> None:
    app = play.edited()
    async with app.run_test(size=(100, 30)) as pilot:
        await press(pilot, *keys.split())
        offered = await _offered(app, pilot)
        assert there <= offered
        assert not {*missing, "Palette (ctrl+p)"} & offered
