"""Nothing that a worker, a GPU or a script's name says is taken for markup or for terminal control."""

import pytest
from rich.console import Console

from gmg_tui.model import Phase, Worker, WorkerState
from tests.ui import play, sessions
from tests.ui.sessions import NOW
from tests.workers import alerts, changed, worker_of

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m[/] [red] [/red \u202e \x08\r\n\tend"
SHOWN = "[/] [red] [/red"
_ALLOWED_FINALS = {*"mHCG", repr("\n")}
"""SGR, the cursor's moves, and Textual's line ends: all that a frame is made of."""


def _evil_worker(slot: str, index: int, state: WorkerState) -> Worker:
    return worker_of(
        slot,
        index,
        state,
        state_since=NOW - 3.0,
        phase=Phase.COMPILING,
        args=(EVIL, "-B", "4"),
        attempt=1,
        pid=1,
        reason=EVIL,
        advice=EVIL,
        alerts=(*(alerts(stuck=EVIL) if index == 1 else ()), *alerts(cpu=EVIL)),
        stopping=EVIL if index == 2 else None,
        last_line=EVIL,
    )


def _controls(sent: str) -> set[str]:
    """The last characters of all escape sequences, and every other control character."""
    sequences: set[str] = set()
    rest = iter(sent)
    for character in rest:
        if character == "\x1b":
            if next(rest) != "[":
                sequences.add("escape without [")
            sequences.add(next(c for c in rest if c.isalpha()))
        elif not character.isprintable():
            sequences.add(repr(character))
    return sequences


@pytest.mark.parametrize(("size", "ascii_only"), [((80, 24), True), ((160, 48), False)])
async def test_hostile_text_is_shown_literally(
    size: tuple[int, int], ascii_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = play.record(monkeypatch, Console(color_system="256", force_terminal=True))
    states = (WorkerState.FAILED, WorkerState.COMPILING, WorkerState.STOPPING, WorkerState.RUNNING)
    workers = tuple(_evil_worker(f"gpu{i}", i, state) for i, state in enumerate(states))
    snapshot = changed(sessions.busy_snapshot(4), workers=workers, alerts=alerts(disk=EVIL), nvml_error=EVIL)
    engine = play.engine_of(snapshot, lines=[EVIL, "plain"])
    spec = changed(engine.welcome.session.spec, script=EVIL, args=(EVIL,))
    engine.welcome = changed(engine.welcome, session=changed(engine.welcome.session, spec=spec))
    app = play.app_of(engine, ascii_only=ascii_only)
    async with app.run_test(size=size) as pilot:
        await play.sees(pilot, "2 lines")
        engine.print("gpu0", EVIL)
        engine.refuse = EVIL
        await pilot.press("r")
        await play.sees(pilot, "3 lines")
        rows = play.screen(app)
    assert sum(SHOWN in row for row in rows) >= 6
    assert _controls("".join(sent)) <= _ALLOWED_FINALS
    if ascii_only:
        assert "".join(rows).isascii()
