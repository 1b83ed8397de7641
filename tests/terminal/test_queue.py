"""A sweep on a real pseudo-terminal: simulated cards, a real engine, and the queue's keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nvml_sim import Sim
from tests.terminal.screen import DOWN, ENTER, ESCAPE, Terminal

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


def test_jobs_are_moved_skipped_and_retried_and_cards_come_and_go(terminal: Terminal) -> None:
    terminal.until("0/8 jobs", "2 running", "#1 s=601", "#2 s=602", "timeout in 29:")
    terminal.press("Q")
    terminal.until("▸", "c GPUs", "waiting")
    terminal.press("\x1b[F")  # the last one
    terminal.until("8 of 8", lambda text: "▸  8 " in text)
    name = terminal.line("▸").split()[2]
    terminal.press("U")
    terminal.until("3 of 8", lambda _: terminal.line("▸").split()[2] == name)
    terminal.press("s")
    terminal.until(f"({name}) is skipped", "1/8 jobs", "1 stopped")
    terminal.press("\x1b[H", "r")
    terminal.until("0/8 jobs", lambda _: "waiting" in terminal.line(f" {name} "))
    terminal.press("f", "s")
    terminal.until("which is running?")
    terminal.press("y")
    terminal.until("1/8 jobs", lambda _: "starting" in terminal.line(f"#8 {name} "))  # it was the next
    terminal.press("c")
    terminal.until("GPUs of the sweep", "[x] gpu1", "1 job running")
    terminal.press(DOWN, " ")
    terminal.until("▸ [ ] gpu1")
    terminal.press(ESCAPE)
    terminal.until("gpu1 not used", lambda text: "GPUs of the sweep" not in text)
    terminal.press("f", ENTER)
    terminal.until("[1 charts]", "job #", "s=6")
    terminal.press(ESCAPE)
    terminal.until("c GPUs")
    terminal.press("q")
    terminal.until("stop the jobs and quit", "2 jobs are running")
    terminal.press("s")
    assert terminal.until_ended() == 130
