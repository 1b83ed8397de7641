"""The dialogs with buttons: what each key, click and bare enter answers."""

from collections.abc import Callable
from typing import Any

import pytest
from textual.events import Key

from gmg_tui.model import Checkpoint, WorkerState
from gmg_tui.ui import keys
from gmg_tui.ui.dialogs import ChoiceScreen, Dialog, confirm_dialog, quit_dialog
from tests.ui import play, sessions
from tests.ui.play import click, press
from tests.workers import changed

EVIL = sessions.EVIL + " [/red"
OPEN = "open"


async def answers(make: Callable[[], Dialog[Any]], *cases: str, size: tuple[int, int] = (80, 24)) -> list[object]:
    """What a dialog closes with after the keys of each case, or after a click on `click:TEXT`; OPEN if it does not."""
    closed_with: list[object] = []
    app = play.edited()
    async with app.run_test(size=size) as pilot:
        for number, case in enumerate(cases, 1):
            dialog = make()
            await app.push_screen(dialog, closed_with.append)
            if case.startswith("click:"):
                await click(pilot, case.removeprefix("click:"))
            else:
                await press(pilot, *case.split())
            if dialog in app.screen_stack:
                closed_with.append(OPEN)
                await dialog.dismiss()
                del closed_with[number:]
            assert len(closed_with) == number
    return closed_with


def quitting(*, stopping: bool = False) -> ChoiceScreen:
    app = play.edited()
    app.view.stopping = stopping
    return quit_dialog(app, app.view)


async def test_quit_by_key_arrows_and_mouse() -> None:
    cases = {
        "x": "stop",
        "d": "leave",
        "escape": None,
        "ctrl+c": None,
        "enter": "leave",
        "down enter": "stop",
        "j tab enter": None,
        "up up enter": "stop",
        "click:Stop the workers": "stop",
        "click:Cancel": None,
        "X": OPEN,
    }
    assert await answers(quitting, *cases) == [*cases.values()]


async def test_kill_is_offered_only_while_workers_are_being_stopped() -> None:
    """`k` was once bound to both up and kill, and the kill took precedence."""
    cases = {"X": "kill", "click:Kill them now": "kill", "k k": OPEN, "k k enter": "kill"}
    assert await answers(lambda: quitting(stopping=True), *cases) == [*cases.values()]


async def test_every_button_is_reachable_in_a_tiny_terminal() -> None:
    assert await answers(quitting, "tab down enter", size=(30, 8)) == [None]


@pytest.mark.parametrize(
    ("live", "stopping", "texts"),
    [
        (
            1,
            False,
            ("1 worker is running.", "SIGINT for up to 15 s", "gpu0 saved model_9.pt 4:00 ago", "attach franka-1"),
        ),
        (4, True, ("4 workers are being stopped.", "Kill them now (X)")),
        (0, True, ("the results are not written yet.", "Give the results up (X)", "Loses the results")),
    ],
)
async def test_quit_describes_the_workers(live: int, stopping: bool, texts: tuple[str, ...]) -> None:
    snapshot = sessions.edited_snapshot()
    saved = (Checkpoint("/runs/model_9.pt", snapshot.time - 240),)
    workers = [
        changed(worker, checkpoints=saved, state=WorkerState.RUNNING if number < live else WorkerState.STOPPED)
        for number, worker in enumerate(snapshot.workers)
    ]
    app = play.app_of(play.engine_of(changed(snapshot, workers=tuple(workers), saved=live > 0)))
    app.view.stopping = stopping
    async with app.run_test(size=(80, 24)) as pilot:
        await app.push_screen(quit_dialog(app, app.view))
        await play.sees(pilot, "Quit franka-1", *texts)


async def test_only_an_explicit_yes_confirms() -> None:
    cases = {
        "y": True,
        "n": False,
        "escape": None,
        "enter": False,
        "right enter": True,
        "click:Yes": True,
        "click:No": False,
        "r x e p d t X k": OPEN,
    }
    assert await answers(lambda: confirm_dialog("Kill gpu0 now?"), *cases) == [*cases.values()]


async def test_a_question_is_shown_literally() -> None:
    app = play.edited()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.push_screen(confirm_dialog(f"Kill {EVIL}?"))
        await play.sees(pilot, "[/] [bold] [/tmp/x]")
        assert not any(
            ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0 for character in "".join(play.screen(app))
        )


async def test_the_main_screen_keeps_updating_below_two_dialogs() -> None:
    app = play.edited()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.push_screen(confirm_dialog("Kill gpu0 now?"))
        await app.push_screen(confirm_dialog("Kill gpu1 now?"))
        ended = [changed(worker, state=WorkerState.FINISHED) for worker in sessions.edited_snapshot().workers]
        app.engine.push(changed(sessions.edited_snapshot(), workers=tuple(ended)))
        await play.sees(pilot, "gpu0 ✓ finished", "Kill gpu1 now?")


async def test_the_footer_of_a_narrow_terminal_drops_whole_keys() -> None:
    app = play.edited()
    async with app.run_test(size=(80, 24)) as pilot:
        await press(pilot, *"/B", "enter")
        await play.sees(pilot, "esc Back")
        names = tuple(binding.description for binding in keys.MAIN)
        narrow = play.screen(app)[-1].rstrip()
        assert narrow.endswith(names)
        await pilot.resize_terminal(100, 24)
        await play.until(pilot, lambda: len(play.screen(app)[-1].rstrip()) > len(narrow), "more keys")
        assert play.screen(app)[-1].rstrip().endswith(names)


@pytest.mark.parametrize("keys", ["ctrl+p", "ctrl+p s", "q", "X", "e", "question_mark", "slash"])
async def test_every_dialog_survives_every_size(keys: str) -> None:
    async with play.app_of(play.edited().engine).run_test(size=(80, 24)) as pilot:
        await press(pilot, *keys.split())
        for size in ((8, 24), (4, 1), (3, 3), (2, 5), (1, 1), (200, 1), (1, 60)):
            await pilot.resize_terminal(*size)
            await press(pilot, "pagedown")
        await play.resize(pilot, 80, 24)


async def test_a_key_that_is_pressed_twice_closes_one_screen() -> None:
    app, closed_with = play.edited(), list[object]()
    async with app.run_test() as pilot:
        dialog = quitting()
        await app.push_screen(dialog, closed_with.append)
        below = app.screen_stack[:-1]
        for _ in range(2):
            dialog.post_message(Key("d", "d"))
        await pilot.pause()
        assert (closed_with, app.screen_stack) == (["leave"], below)
