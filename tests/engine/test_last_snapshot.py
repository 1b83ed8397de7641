"""The last snapshot of a session is in its store."""

from __future__ import annotations

import signal
from pathlib import Path

from gmg_tui.model import Snapshot, WorkerState
from gmg_tui.session import STORE
from gmg_tui.store.reader import open_store
from tests.harm.patience import eventually

from .harness import Running, running, spec_for


def _last(run: Running) -> Snapshot | None:
    path = Path(run.spec.folder, STORE)
    if not path.exists():
        return None
    with open_store(path) as stored:
        return stored.last_snapshot


async def test_the_last_snapshot_of_a_killed_engine_is_kept() -> None:
    def is_kept() -> bool:
        last = _last(run)
        return last is not None and last.workers[0].state is WorkerState.RUNNING

    async with running(spec_for("--lines", "0")) as run:
        await run.until_state("cpu0", WorkerState.RUNNING)
        await eventually(is_kept)
        run.process.send_signal(signal.SIGKILL)
        await run.process.wait()
        assert is_kept()
