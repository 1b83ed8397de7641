"""A sweep on a real pseudo-terminal: simulated cards, a real engine, and the queue's keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nvml_sim import Sim
from tests.terminal.screen import ENTER, ESCAPE, Terminal

PALETTE, HOME, END = "\x10", "\x1b[H", "\x1b[F"


pytestmark = [pytest.mark.usefixtures("nothing_is_left"), pytest.mark.terminal]

JOB = Path(__file__).parents[1] / "job.py"
SWEEP = f"""
script = "{JOB}"
args = ["--s", "{{s}}"]
gpus = [0, 1]
timeout = "30m"
[grid]
s = [601, 602, 603, 604, 605, 606, 607, 608]
"""


@pytest.fixture
def terminal(sim: Sim, tmp_path: Path) -> Iterator[Terminal]:
    """A sweep of eight jobs that take long, on two cards."""
    file = tmp_path / "sweep.toml"
    file.write_text(SWEEP)
    with Terminal("sweep", str(file), columns=120, rows=36, env=sim.env()) as terminal:
        yield terminal


def test_jobs_are_skipped_retried_and_stopped(terminal: Terminal) -> None:
    terminal.until("0/8 jobs", "2 running", "#1 s=601", "#2 s=602")
    terminal.press("Q")
    terminal.until("Skip or stop", "waiting")
    terminal.press(END)
    terminal.until("#8 s=608")
    terminal.press("x")
    terminal.until("1/8 jobs", "1 stopped or skipped", "8  s=608  skipped")  # sorted: `home` is its row
    terminal.press(HOME)
    terminal.until("#8 s=608  skipped")
    terminal.press("r")
    terminal.until("0/8 jobs", "#8 s=608  waiting")
    terminal.press("f")
    terminal.until("#1 s=601")
    terminal.press("x")
    terminal.until("which is running?")
    terminal.press("y")
    terminal.until("1/8 jobs", "1 stopped or skipped")
    terminal.until("1  s=601  stopped")
    terminal.press("f", ENTER)
    terminal.until(" 0│", "s=6")
    terminal.press(ESCAPE)
    terminal.until("Skip or stop", "2 running")  # job 8 has the slot: the question that comes next counts once
    terminal.press("q")
    terminal.until("2 jobs are running")
    terminal.press("x")
    assert terminal.until_ended() == 130
