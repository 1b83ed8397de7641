"""Tuning by hand in a real pseudo-terminal: the bytes of keys, to arguments of real workers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harm.patience import wait_until
from tests.nvml_sim import Sim
from tests.terminal.screen import DOWN, ENTER, ESCAPE, UP, Terminal

pytestmark = [pytest.mark.usefixtures("nothing_is_left"), pytest.mark.terminal]

FAKE = str(Path(__file__).parents[1] / "fake_worker.py")
ALT_UP, META_UP, META_DOWN = "\x1b[1;3A", "\x1b\x1b[A", "\x1b\x1b[B"


def _attempts() -> list[int]:
    said = subprocess.run([sys.executable, "-m", "gmg_tui", "ls", "--json"], capture_output=True, check=True)
    (session,) = json.loads(said.stdout)
    return [worker["attempt"] for worker in session["workers"]]


def _quit(terminal: Terminal) -> None:
    terminal.press("q")
    terminal.until("Leave them running")
    terminal.press("x")
    assert terminal.until_ended() == 130


def test_marked_workers_are_tuned_and_get_their_settings_back(sim: Sim) -> None:
    args = ("--gpus", "4", "--start", "together", FAKE, "-B", "4096", "--lines", "0", "--steady")
    with Terminal(*args, columns=80, rows=24, env=sim.env()) as terminal:
        terminal.until("4 running")
        terminal.press(" ", DOWN, DOWN, " ", UP)
        terminal.until("◆gpu0", "▸ gpu1", "◆gpu2", "◆ 2 marked")
        terminal.press("e")
        terminal.until("Edit gpu0", "marked (2)", "-B 4096 --lines 0")
        terminal.press("\x7f" * 4, "8192")
        terminal.until("-B 8192 --lines 0", "2 marked workers restart")
        terminal.press(ENTER)
        wait_until(lambda: _attempts() == [2, 1, 2, 1] and "4 running" in terminal.text())
        terminal.press(ESCAPE)
        terminal.until(lambda text: "marked" not in text)
        terminal.press(UP, "e")
        terminal.until("Edit gpu0", "-B 8192 --lines 0")
        terminal.press(ESCAPE)
        terminal.until("gpu0 log")
        terminal.press(ENTER)
        terminal.until(" 0│")
        terminal.press("\t")
        terminal.until("GPU now")
        terminal.press("\t")
        terminal.until("stopped")
        terminal.press("\x10")
        terminal.until("Search for")
        terminal.press("copy command")
        terminal.until("Copy command line")
        terminal.press(ENTER)
        terminal.until("Copied", lambda _: b"\x1b]52;c;" in terminal.raw)
        terminal.press(ESCAPE)
        terminal.until("gpu0 log")
        _quit(terminal)
