"""Two real Genesis workers under the screen: what it shows is what they printed."""

import json
import os
import re
from pathlib import Path

import pytest

from gmg_tui.model import units
from tests.terminal.screen import Terminal

pytestmark = [pytest.mark.genesis, pytest.mark.terminal, pytest.mark.timeout(900)]

_PHASES = ("importing", "initialising", "building scene", "compiling kernels", "running")


def _last(log: Path) -> float:
    plain = re.sub(rb"\x1b\[[0-9;]*m", b"", log.read_bytes())
    return float(re.findall(rb"Running at ([\d,.]+) FPS", plain)[-1].replace(b",", b""))


def test_the_screen_agrees_with_the_logs_of_two_real_workers(light: str) -> None:
    seen: set[str] = set()

    def ended(text: str) -> bool:
        seen.update(phase for phase in _PHASES if phase in text)
        return "2 finished" in text

    args = ("--name", "real", "--cpu", "2", light, "-B", "16", "--steps", "3000")
    with Terminal(*args, columns=132, rows=36) as terminal:
        terminal.until(ended, timeout_s=800)
        folder = Path(os.environ["XDG_STATE_HOME"]) / "gmg-tui" / "sessions" / "real"
        lasts = [_last(folder / "logs" / f"{slot}.log") for slot in ("cpu0", "cpu1")]
        assert {"importing", "compiling kernels", "running"} <= seen
        terminal.until("(final)", lambda text: text.count("16 envs") >= 2)
        terminal.press("t")  # the tiles draw their numbers large; the table writes them
        terminal.until("history")
        shown = {slot: terminal.line(f" {slot} ") for slot in ("cpu0", "cpu1")}
        headline = terminal.line("real")
        terminal.press("q")
        assert terminal.until_ended() == 0
    summary = json.loads((folder / "summary.json").read_text())
    for worker in summary["workers"]:
        assert worker["counted"] == "probe"
        assert worker["env_steps"] == 16 * 2999
        assert units.fps(worker["fps"]["mean"]) in shown[worker["slot"]]
    assert f"{units.fps(sum(worker['fps']['mean'] for worker in summary['workers']))} FPS" in headline
    assert summary["total_fps"] == pytest.approx(sum(lasts), abs=0.01)


def test_an_edited_worker_restarts_and_saves_its_kernels_when_it_is_stopped(light: str) -> None:
    with Terminal("--name", "edited", "--cpu", "1", light, "-B", "16", "--steps", "10000000") as terminal:
        terminal.until("1 running", "16 envs", timeout_s=800)
        terminal.press("e")
        terminal.until("Edit cpu0", "unchanged")
        terminal.press("\x15", "-B 32 --steps 10000000", "\x13")
        terminal.until("1 running", "32 envs", timeout_s=800)
        log = Path(os.environ["XDG_STATE_HOME"]) / "gmg-tui" / "sessions" / "edited" / "logs" / "cpu0.log"
        end = log.stat().st_size
        terminal.quit()
        assert b"Exiting Genesis and caching compiled kernels" in log.read_bytes()[end:]
