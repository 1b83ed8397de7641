"""`T` in a plain run in a real terminal: the run ends, and the tuning of its number starts in its place."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gmg_tui import session as sessions
from tests.terminal.screen import DOWN, ENTER, Terminal

pytestmark = [pytest.mark.usefixtures("nothing_is_left"), pytest.mark.terminal]

FAKE = str(Path(__file__).parents[1] / "fake_worker.py")


def _quit(terminal: Terminal) -> None:
    terminal.press("q")
    terminal.until("leave")
    terminal.press("s")
    assert terminal.until_ended() == 130


def test_a_plain_run_becomes_the_tuning_of_its_number() -> None:
    args = ("--cpu", "2", "--restart", "always", "--env", "KEPT={slot}", FAKE, "-B", "4096", "--lines", "0", "--steady")
    with Terminal(*args, columns=80, rows=24) as terminal:
        terminal.until("2 running")
        terminal.press(DOWN, "T")
        terminal.until("Look for the best n_envs (4,096 now) on all slots?", "2 running workers")
        terminal.press(ENTER)
        terminal.until(lambda text: "Look for" not in text)
        terminal.press("T", "y")
        terminal.until("n_envs with the most FPS", "first run, alone", timeout_s=90.0)
        spec = sessions.find("tune-1", running=True).record.session.spec
        assert spec.tune is not None
        assert (spec.args, spec.tune.low, spec.cpu) == (("-B", "{n_envs}", "--lines", "0", "--steady"), 64, 2)
        assert (spec.env, spec.restart) == ({"KEPT": "{slot}"}, "failure")
        _quit(terminal)
    said = terminal.raw.decode(errors="replace")
    assert "gmg-tui: looks for the best n_envs of" in said
    assert "`gmg-tui tune --resume tune-1` goes on with it" in said


def test_a_frozen_engine_gets_no_tuning_and_the_screen_lives() -> None:
    with Terminal("--cpu", "1", FAKE, "-B", "64", "--lines", "0", "--steady", columns=80, rows=24) as terminal:
        terminal.until("1 running")
        said = subprocess.run([sys.executable, "-m", "gmg_tui", "ls", "--json"], capture_output=True, check=True)
        (session,) = json.loads(said.stdout)
        engine = sessions.find(session["name"], running=True).record.session.engine_pid
        os.kill(engine, signal.SIGSTOP)
        try:
            terminal.press("T", "y")
            terminal.until("T: the engine ")
        finally:
            os.kill(engine, signal.SIGCONT)
        terminal.until(lambda text: "silent" not in text)
        terminal.press("T")
        terminal.until("Look for the best n_envs (64 now)", "1 running worker")
        terminal.press("n")
        terminal.until(lambda text: "Look for" not in text)
        _quit(terminal)
