"""The questions and the help: what each key, click and enter comes to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest
from textual.pilot import Pilot

from gmg_tui.model import WorkerState
from gmg_tui.ui import keys as tables
from gmg_tui.ui.drawing.appearance import ASCII, UNICODE
from gmg_tui.ui.keys import KEYS
from gmg_tui.ui.screens.confirm import ConfirmScreen
from gmg_tui.ui.screens.dialog_base import Dialog
from gmg_tui.ui.screens.help import METRICS, HelpScreen
from gmg_tui.ui.screens.quit import QuitScreen
from tests.ui import play, sweeps
from tests.ui.screens import stage
from tests.ui.screens.stage import click, press

SMALL = (80, 24)
_STAY: list[object] = [None]


async def answers(dialog: Dialog[Any], act: Callable[[Pilot[Any]], Awaitable[object]]) -> list[object]:
    """What `dialog` closes with after `act`; nothing while it is open."""
    got: list[object] = []
    app = stage.app()
    async with app.run_test(size=SMALL) as pilot:
        app.push_screen(dialog, got.append)
        await pilot.pause()
        await act(pilot)
        assert (app.screen is app.main) == bool(got)
    return got


def keys(*names: str) -> Callable[[Pilot[Any]], Awaitable[object]]:
    return lambda pilot: press(pilot, *names)


def clicks(text: str) -> Callable[[Pilot[Any]], Awaitable[object]]:
    return lambda pilot: click(pilot, text)


# Quit


@pytest.mark.parametrize(
    ("act", "answer"),
    [
        (keys("s"), "stop"),
        (keys("l"), "leave"),
        (keys("c"), None),
        (keys("escape"), None),
        (keys("q"), None),
        (keys("ctrl+c"), None),
        (keys("enter"), "leave"),
        (keys("down", "enter"), "stop"),
        (keys("j", "tab", "space"), None),
        (keys("up", "up", "enter"), "stop"),
        (clicks("stop them and quit"), "stop"),
        (clicks("leave them running"), "leave"),
        (clicks("opens it again"), "leave"),
        (clicks("stay here"), None),
    ],
)
async def test_quit_by_key_arrows_and_mouse(act: Callable[[Pilot[Any]], Awaitable[object]], answer: str | None) -> None:
    assert await answers(QuitScreen(4, "franka-1"), act) == [answer]


@pytest.mark.parametrize(("act", "answer"), [(keys("k"), "kill"), (clicks("kill them now"), "kill")])
async def test_quit_offers_to_kill_only_what_is_being_stopped(
    act: Callable[[Pilot[Any]], Awaitable[object]], answer: str
) -> None:
    assert await answers(QuitScreen(4, "franka-1", stopping=True), act) == [answer]
    assert await answers(QuitScreen(4, "franka-1"), keys("k")) == []


@pytest.mark.parametrize(
    ("dialog", "words"),
    [
        (QuitScreen(1, "a", sigint_wait_s=15.0), ("1 worker is running.", "SIGINT first for up to 15 s")),
        (QuitScreen(8, "a", stopping=True), ("8 workers are being stopped.", "k  kill them now and quit")),
        (QuitScreen(0, "a"), ("No worker is running.", "end the session and quit", "leave the session as it is")),
    ],
)
async def test_quit_says_how_things_stand(dialog: QuitScreen, words: tuple[str, ...]) -> None:
    assert await answers(dialog, lambda pilot: play.sees(pilot, "Quit a", "gmg-tui attach a", *words)) == []


# Confirm


@pytest.mark.parametrize(
    ("act", "answer"),
    [
        (keys("y"), True),
        (keys("n"), False),
        (keys("escape"), False),
        (keys("q"), False),
        (keys("enter"), False),
        (keys("down", "enter"), True),
        (clicks("y  yes"), True),
        (clicks("n  no"), False),
    ],
)
async def test_only_a_clear_yes_is_one(act: Callable[[Pilot[Any]], Awaitable[object]], answer: bool) -> None:
    assert await answers(ConfirmScreen("Kill gpu0 now?"), act) == [answer]


async def test_other_keys_answer_nothing() -> None:
    assert await answers(ConfirmScreen("Kill gpu0 now?"), keys("r", "x", "e", "p", "d", "t")) == []


# Help


def _words(text: str) -> str:
    """`text` as it reads, however it is broken into rows."""
    return " ".join(text.split())


async def _read_through(pilot: Pilot[Any]) -> str:
    """All that the help has, page by page, each row once."""
    box = pilot.app.screen.query_one(".box")
    rows: dict[int, str] = {}
    while True:
        seen = box.scrollable_content_region
        page = play.screen(pilot.app)[seen.y : seen.bottom]
        rows |= {int(box.scroll_y) + number: row[seen.x : seen.right] for number, row in enumerate(page)}
        if box.scroll_y >= box.max_scroll_y:
            return _words(" ".join(rows[number] for number in sorted(rows)))
        await press(pilot, "pagedown")


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("size", [(60, 12), SMALL, (120, 36)])
async def test_the_help_has_every_key_state_and_figure_on_any_terminal(size: tuple[int, int], ascii_only: bool) -> None:
    app = stage.app(ascii_only=ascii_only)
    signs = ASCII if ascii_only else UNICODE
    async with app.run_test(size=size) as pilot:
        await press(pilot, "question_mark")
        text = await _read_through(pilot)
        shown = play.shown(app)
    for key in (*KEYS, *tables.DETAILS, *tables.PROCESSES, *tables.EDIT):
        assert _words(key.help) in text
    for state in WorkerState:
        assert f"{signs.states[state]} {state.value} " in text
    assert f"{signs.stuck} stuck" in text
    if ascii_only:
        assert shown.isascii()
    else:
        for key in (*KEYS, *tables.DETAILS, *tables.PROCESSES, *tables.EDIT):
            assert f"{key.shown} {_words(key.help)}" in text
        for name, meaning in METRICS:
            assert f"{name} {meaning}" in text


@pytest.mark.parametrize("size", [(60, 12), SMALL])
@pytest.mark.parametrize(
    ("keys_", "heading"),
    [
        ("", "Keys"),
        ("enter", "In a worker's details"),
        ("p", "In the list of processes"),
        ("Q", "In the queue of a sweep"),
        ("Q c", "While choosing its GPUs"),
    ],
)
async def test_the_help_opens_at_the_keys_of_the_screen_it_is_asked_on(
    keys_: str, heading: str, size: tuple[int, int]
) -> None:
    app = sweeps.app(sweeps.engine())
    async with app.run_test(size=size) as pilot:
        await press(pilot, *keys_.split(), "question_mark")
        await play.until(pilot, lambda: _begins_at(heading, play.screen(app)), heading)


def _begins_at(heading: str, rows: list[str]) -> bool:
    """Whether the help's first row has `heading`."""
    return any("─ Help ─" in frame and heading in first for frame, first in pairwise(rows))


@pytest.mark.parametrize("key", ["escape", "q", "question_mark", "enter"])
async def test_the_help_scrolls_and_closes(key: str) -> None:
    app = stage.app()
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "question_mark")
        box = app.screen.query_one(".box")
        await press(pilot, "end")
        assert box.scroll_y == box.max_scroll_y > 0
        await press(pilot, "k", "pageup")
        assert 0 < box.scroll_y < box.max_scroll_y - 1
        await press(pilot, "home", "down")
        assert box.scroll_y == 1
        assert isinstance(app.screen, HelpScreen)
        await press(pilot, key)
        assert app.screen is app.main
        assert app.return_value is None
