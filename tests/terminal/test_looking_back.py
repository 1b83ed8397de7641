"""Looking back on real sessions, in a real terminal."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gmg_tui import session
from gmg_tui.model import WorkerState
from tests.harm.patience import wait_until
from tests.terminal.screen import ESCAPE, Terminal

pytestmark = [pytest.mark.usefixtures("nothing_is_left"), pytest.mark.terminal]

_FAKE = str(Path(__file__).parents[1] / "fake_worker.py")


def _gmg(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run((sys.executable, "-m", "gmg_tui", *words), capture_output=True, text=True, check=False)


def test_an_ended_session_is_looked_back_on() -> None:
    done = _gmg("--headless", "--name", "over", "--cpu", "2", _FAKE, "--lines", "30", "--phase-s", "1")
    assert done.returncode == 0, done.stderr
    with Terminal("attach", "over", columns=120, rows=30) as terminal:
        terminal.until("past", "2 finished", "the end", "Exiting Genesis")
        terminal.press("0")
        terminal.until("1 of", lambda text: "2 finished" not in text and "Exiting Genesis" not in text)
        terminal.press("x")
        terminal.until("The past cannot be changed.")
        terminal.press("]", "]", "]", "]", "]", "]", "]", "]", "]", "]", "]", "]")
        terminal.until("2 finished", "the end")
        terminal.press("q")
        assert terminal.until_ended() == 0
    assert _gmg("rm", "--yes", "over").returncode == 0


def test_a_session_whose_engine_was_killed_is_looked_back_on() -> None:
    assert _gmg("--detach", "--name", "gone", "--cpu", "1", _FAKE, "--lines", "0").returncode == 0
    folder = session.sessions_folder() / "gone"

    def running() -> bool:
        found = session.inspect(folder)
        return found is not None and any(one.state == WorkerState.RUNNING for one in found.record.workers)

    wait_until(running)
    found = session.inspect(folder)
    assert found is not None
    with Terminal("attach", "gone", columns=120, rows=30) as terminal:
        terminal.until("1 running")
        # The past is there once the store's thread has written a moment.
        wait_until(lambda: _looks_back(terminal))
        terminal.press(ESCAPE)
        terminal.until(lambda text: "past" not in text)
        terminal.press("d")
        assert terminal.until_ended() == 0
    os.kill(found.record.session.engine_pid, signal.SIGKILL)
    wait_until(lambda: not session.is_locked(folder))
    with Terminal("attach", "gone", columns=120, rows=30) as terminal:
        terminal.until("past", "gone was lost: its engine died")
        terminal.press("q")
        assert terminal.until_ended() == 0
    shutil.rmtree(folder)


def _looks_back(terminal: Terminal) -> bool:
    terminal.press("[")
    terminal.until(lambda text: "past" in text or "nothing is kept" in text)
    return "the newest" in terminal.text()
