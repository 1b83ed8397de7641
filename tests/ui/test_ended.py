"""The screen of a session that has ended: its last snapshot and its logs, read-only."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from gmg_tui.ended import EndedSession
from gmg_tui.errors import GmgError
from gmg_tui.model import Session, WorkerState
from gmg_tui.protocol import Action
from gmg_tui.session import LOGS, STORE
from gmg_tui.store.database import JobAttempt
from gmg_tui.store.writer import StoreWriter
from gmg_tui.ui.app import GmgApp
from tests.rates import rate
from tests.ui import play, sessions
from tests.ui.play import press
from tests.workers import changed, reached


async def _write(folder: Path, *, snapshot: bool = True) -> Session:
    """The folder of a session of two GPUs, of which one has failed."""
    last = sessions.busy_snapshot(2)
    workers = [
        structs.replace(worker, state=state, reason=reason)
        for worker, state, reason in zip(
            last.workers, (WorkerState.FINISHED, WorkerState.FAILED), (None, "CUDA out of memory"), strict=True
        )
    ]
    last = structs.replace(last, workers=tuple(workers))
    session = sessions.session(2)
    (folder / LOGS).mkdir()
    writer = StoreWriter(folder / STORE, lambda text: None)
    writer.start()
    for number, slot in enumerate(("gpu0", "gpu1"), 1):
        metrics = reached(1, ("-B", "4096"), fps=rate(1000.0))
        times = {"pid": 99, "started": last.time - 60, "ended": last.time, "exit_code": 0}
        attempt = changed(metrics, state=WorkerState.FINISHED, **times)
        writer.put(JobAttempt(number, slot, None, attempt, log=f"{LOGS}/{slot}.log"))
        (folder / LOGS / f"{slot}.log").write_text(f"first of {slot}\nlast \x1b[2J of {slot}\n")
    if snapshot:
        writer.put(structs.replace(last, elapsed_s=1.0))
        writer.put(last)
    await writer.close()
    return session


async def test_the_last_snapshot_and_the_logs_are_shown_and_nothing_can_be_changed(tmp_path: Path) -> None:
    session = await _write(tmp_path)
    app = GmgApp(await EndedSession.open(tmp_path, session))
    async with app.run_test(size=(120, 30)) as pilot:
        await play.sees(pilot, "ended", "finished", "failed", "last", "of gpu0")
        assert "\x1b" not in play.shown(app)
        await press(pilot, "down", "right", "r")
        await play.sees(pilot, "of gpu1")
        await press(pilot, "a")
        await play.sees(pilot, "gmg-tui report")
        assert "0 sets" not in play.shown(app), "it is not known"
        await press(pilot, "escape", "enter")
        await play.sees(pilot, "CUDA out of memory", "No history of an ended session")
        await press(pilot, "escape", "q")
    assert app.return_value is not None
    assert app.return_value.how == "looked"


async def test_requests_are_answered_from_the_last_snapshot_or_refused(tmp_path: Path) -> None:
    source = await EndedSession.open(tmp_path, await _write(tmp_path))
    assert [attempt.number for attempt in (await source.details("gpu0")).attempts] == [1]
    with pytest.raises(GmgError, match="cannot be changed"):
        await source.act(Action.RESTART, "gpu0")


async def test_a_session_without_a_snapshot_shows_a_message(tmp_path: Path) -> None:
    session = await _write(tmp_path, snapshot=False)
    with pytest.raises(GmgError, match="no snapshot was recorded"):
        await EndedSession.open(tmp_path, session)
