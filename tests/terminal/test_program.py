"""The whole program on a real pseudo-terminal: eight simulated cards, real workers, keys."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.nvml_sim import Sim
from tests.terminal.screen import CTRL_C, ENTER, ESCAPE, Terminal

pytestmark = [pytest.mark.usefixtures("nothing_is_left"), pytest.mark.terminal]

FAKE = str(Path(__file__).parents[1] / "fake_worker.py")
FOREVER = ("--start", "together", FAKE, "--lines", "0", "--fps", "24000000", "--steady", "-B", "4096")


def _workers() -> dict[str, dict[str, object]]:
    output = subprocess.run([sys.executable, "-m", "gmg_tui", "ls", "--json"], capture_output=True, check=True)
    (session,) = json.loads(output.stdout)
    return {worker["slot"]: worker for worker in session["workers"]}


def test_eight_cards_are_readable_and_correct_on_a_small_terminal(sim: Sim) -> None:
    for index, gpu in enumerate(sim.gpus):
        gpu.gpu_util_pct, gpu.power_w, gpu.temperature_c = 90 + index, 600 + index, 60 + index
        gpu.memory_used_mib = 10_240 + 1024 * index
    sim.write()
    with Terminal(*FOREVER, columns=80, rows=24, env=sim.env()) as terminal:
        terminal.until("8 running", "192,000,0", lambda _: "24,000,000" in terminal.line(" gpu7 "))
        terminal.until(lambda _: " 607 " in terminal.line(" gpu7 "))  # the cards have been read
        for index in range(8):
            row = terminal.line(f" gpu{index} ")
            assert "running" in row
            assert "24,000,000" in row
            assert f" {90 + index} " in row
            assert f"{10 + index}.0/79.6" in row
            assert f" {600 + index} " in row
            assert row.rstrip().endswith(str(60 + index))
        assert "q Quit" in terminal.text()
        sim.gpus[3].gpu_util_pct = 7
        sim.write()
        terminal.until(lambda _: re.search(r" 7 ", terminal.line(" gpu3 ")) is not None)
        terminal.quit()


def test_edited_arguments_are_shown_beside_the_rate_before(sim: Sim) -> None:
    with Terminal(*FOREVER, columns=160, rows=48, env=sim.env()) as terminal:
        terminal.until("8 running", "FPS/W", "Σ 192,000,0", "4,096 envs")
        terminal.until("H100", "VRAM", "GiB", " W", "°C", "gpu7", "gpu0 log", "following")
        terminal.press("e")
        terminal.until("Edit gpu0", "Expands to:")  # the engine has answered: before, nothing can be typed
        terminal.press("\x7f" * 4, "8192", "\x13")
        terminal.until("8,192", "8 running")
        workers = _workers()
        assert workers["gpu0"]["attempt"] == 2
        assert workers["gpu1"]["attempt"] == 1
        terminal.press(ENTER)
        terminal.until("Charts", " 0│")
        terminal.press("\t", "\t")
        terminal.until("-B 4096", "-B 8192")
        terminal.press(ESCAPE)
        terminal.until("gpu0 log", "8 running")
        terminal.quit()


_UNTIL_FILE = """
import pathlib, sys, time
while not pathlib.Path(sys.argv[1]).exists():
    print("[Genesis] [07:00:00] [INFO] Running at 12.00 FPS (1.00 FPS per env, 12 envs).", flush=True)
    time.sleep(0.05)
"""


def test_ctrl_c_asks_as_q_does_and_the_result_stays_until_quit(sim: Sim, tmp_path: Path) -> None:
    summary, script, end = (tmp_path / name for name in ("summary.json", "script.py", "end"))
    script.write_text(_UNTIL_FILE)
    with Terminal("--gpus", "2", "--summary", str(summary), str(script), str(end), env=sim.env()) as terminal:
        terminal.until("2 running")
        terminal.press(CTRL_C)
        terminal.until("Leave them running")
        terminal.press(ESCAPE)
        terminal.until(lambda text: "Leave them" not in text)
        end.touch()
        terminal.until("2 finished")
        terminal.press("q")
        assert terminal.until_ended() == 0
    assert json.loads(summary.read_text())["total_fps"] > 0
