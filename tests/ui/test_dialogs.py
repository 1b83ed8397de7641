"""The dialogs with buttons: what each key, click and bare enter answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Button

from gmg_tui.model import WorkerState
from gmg_tui.ui.dialogs import ConfirmScreen, Dialog, QuitScreen
from tests.ui import play, sweeps
from tests.ui.screens import stage
from tests.ui.screens.stage import click, press
from tests.workers import changed

EVIL = stage.EVIL + " [/red"
KEEP_OPEN: list[object] = []


async def answers(dialog: Dialog[Any], *keys: str, size: tuple[int, int] = (80, 24)) -> list[object]:
    """What `dialog` closes with after keys, or after a click on `click:TEXT`; empty while it is open."""
    closed_with: list[object] = []
    app = stage.app()
    async with app.run_test(size=size) as pilot:
        await app.push_screen(dialog, closed_with.append)
        for key in keys:
            await (click(pilot, key.removeprefix("click:")) if key.startswith("click:") else press(pilot, key))
        assert (dialog in app.screen_stack) != bool(closed_with)
    return closed_with


def quitting(*, stopping: bool = False) -> QuitScreen:
    return QuitScreen(stage.GPU_SESSION, stage.snapshot(), stopping=stopping)


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        ("x", "stop"),
        ("d", "leave"),
        ("escape", None),
        ("ctrl+c", None),
        ("enter", "leave"),
        ("down enter", "stop"),
        ("j tab enter", None),
        ("up up enter", "stop"),
        ("click:Stop the workers", "stop"),
        ("click:Cancel", None),
    ],
)
async def test_quit_by_key_arrows_and_mouse(keys: str, answer: str | None) -> None:
    parts = [keys] if keys.startswith("click:") else keys.split()
    assert await answers(quitting(), *parts) == [answer]


async def test_kill_is_offered_only_while_workers_are_being_stopped() -> None:
    assert await answers(quitting(), "X") == KEEP_OPEN
    assert await answers(quitting(stopping=True), "X") == ["kill"]
    assert await answers(quitting(stopping=True), "click:Kill them now") == ["kill"]


async def test_k_moves_up_and_does_not_kill() -> None:
    """The key was once bound to both, and the kill took precedence."""
    assert await answers(quitting(stopping=True), "k", "k") == KEEP_OPEN
    assert await answers(quitting(stopping=True), "k", "k", "enter") == ["kill"]


@pytest.mark.parametrize("size", [(80, 24), (30, 8)])
async def test_every_button_is_reachable_in_any_terminal(size: tuple[int, int]) -> None:
    assert await answers(quitting(), "tab", "down", "enter", size=size) == [None]


def _shows(*texts: str) -> Callable[[Pilot[Any]], Awaitable[None]]:
    return lambda pilot: play.sees(pilot, *texts)


@pytest.mark.parametrize(
    ("live", "stopping", "texts"),
    [
        (1, False, ("1 worker is running.", "SIGINT for up to 15 s", "gmg-tui attach franka-1")),
        (4, True, ("4 workers are being stopped.", "Kill them now (X)")),
        (0, False, ("No worker is running.", "End the session", "Keep the session open")),
    ],
)
async def test_quit_describes_the_workers(live: int, stopping: bool, texts: tuple[str, ...]) -> None:
    snapshot = stage.snapshot()
    workers = [
        changed(worker, state=WorkerState.RUNNING if number < live else WorkerState.STOPPED)
        for number, worker in enumerate(snapshot.workers)
    ]
    app = stage.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.push_screen(
            QuitScreen(stage.GPU_SESSION, changed(snapshot, workers=tuple(workers)), stopping=stopping)
        )
        await play.sees(pilot, "Quit franka-1", *texts)


async def test_quit_follows_what_is_running() -> None:
    app = stage.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await press(pilot, "q", "down")
        await play.sees(pilot, "4 workers are running.", "Stop the workers (x)")
        ended = [changed(worker, state=WorkerState.FINISHED) for worker in stage.snapshot().workers]
        app.engine.push(changed(stage.snapshot(), workers=tuple(ended)))
        await play.sees(
            pilot, "gpu0 ✓ finished", "No worker is running.", "Keep the session open (d)", "End the session (x)"
        )
        assert isinstance(app.focused, Button)
        assert str(app.focused.label) == "End the session (x)"


async def test_quitting_a_sweep_names_the_command_that_continues_it() -> None:
    app = sweeps.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await press(pilot, "q")
        await play.sees(pilot, "jobs are running", "waiting.", "gmg-tui sweep --resume sweep-1", "Leave them running")


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        ("y", True),
        ("n", False),
        ("escape", None),
        ("enter", False),
        ("right enter", True),
        ("click:Yes", True),
        ("click:No", False),
    ],
)
async def test_only_an_explicit_yes_confirms(keys: str, answer: bool | None) -> None:
    assert await answers(ConfirmScreen("Kill gpu0 now?"), *keys.split()) == [answer]


async def test_other_keys_do_not_answer() -> None:
    assert await answers(ConfirmScreen("Kill gpu0 now?"), *"rxepdtXk") == KEEP_OPEN


async def test_a_question_is_shown_literally() -> None:
    app = stage.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.push_screen(ConfirmScreen(f"Kill {EVIL}?"))
        await play.sees(pilot, "[/] [bold] [/tmp/x]")
        assert not any(
            ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0 for character in "".join(play.screen(app))
        )
