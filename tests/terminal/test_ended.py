"""`attach` on sessions that have ended, in a real terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gmg_tui import session
from gmg_tui.model import WorkerState
from gmg_tui.store.reader import open_store
from tests.patience import wait_until
from tests.terminal.screen import Terminal

pytestmark = [pytest.mark.usefixtures("nothing_is_left"), pytest.mark.terminal]

_FAKE = str(Path(__file__).parents[1] / "fake_worker.py")


def _gmg(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run((sys.executable, "-m", "gmg_tui", *words), capture_output=True, text=True, check=False)


def test_a_session_whose_engine_was_killed_has_its_last_snapshot() -> None:
    assert _gmg("--detach", "--name", "gone", "--cpu", "1", _FAKE, "--lines", "0").returncode == 0
    folder = session.sessions_folder() / "gone"

    def running() -> bool:
        if not (folder / session.STORE).exists():
            return False
        with open_store(folder / session.STORE) as stored:
            snapshot = stored.last_snapshot
        return snapshot is not None and snapshot.workers[0].state is WorkerState.RUNNING

    wait_until(running)
    entry = session.inspect(folder)
    assert entry is not None
    os.kill(entry.record.session.engine_pid, signal.SIGKILL)
    wait_until(lambda: not session.is_locked(folder))
    with Terminal("attach", "gone", columns=120, rows=30) as terminal:
        terminal.until("ended", "gone was lost: its engine died")
        terminal.press("q")
        assert terminal.until_ended() == 0
    assert _gmg("rm", "--yes", "gone").returncode == 0
