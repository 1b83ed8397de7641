"""The whole program on a real pseudo-terminal: simulated cards, real workers, keys, settings, a sweep, the end."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.scripted import gmg
from tests.nvml_sim import Sim
from tests.patience import wait_until
from tests.terminal.screen import CTRL_C, ENTER, ESCAPE, Terminal

pytestmark = [pytest.mark.usefixtures("nothing_is_left"), pytest.mark.terminal]

FAKE = str(Path(__file__).parents[1] / "fake_worker.py")
FOREVER = ("--start", "together", FAKE, "--lines", "0", "--fps", "24000000", "--steady", "-B", "4096")


def _workers() -> dict[str, dict[str, object]]:
    (session,) = json.loads(gmg("ls", "--json").stdout)
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
    with Terminal("--gpus", "2", *FOREVER, columns=160, rows=48, env=sim.env()) as terminal:
        terminal.until("2 running", "FPS/W", "Σ 48,000,0", "4,096 envs")
        terminal.until("H100", "VRAM", "GiB", " W", "°C", "gpu1", "gpu0 log", "following")
        terminal.press("e")
        terminal.until("Edit gpu0", "unchanged")  # the engine has answered: before, nothing can be typed
        terminal.press("\x7f" * 4, "8192", "\x13")
        terminal.until("8,192", "2 running")
        workers = _workers()
        assert workers["gpu0"]["attempt"] == 2
        assert workers["gpu1"]["attempt"] == 1
        terminal.press(ENTER, "\t")
        terminal.until("PID", "lowest")
        terminal.press("\t", "\t", "\t")
        terminal.until("-B 4096", "-B 8192")
        terminal.press(ESCAPE)
        terminal.until("2 running", "-B 8192", " GPU ")
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


# A sweep on a real pseudo-terminal: simulated cards, a real engine, and the queue's keys

PALETTE, HOME, END = "\x10", "\x1b[H", "\x1b[F"


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
    terminal.until("0/8 jobs", "2 active", "#1 s=601", "#2 s=602")
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
    terminal.until("PID", "job #")
    terminal.press(ESCAPE)
    terminal.until("VRAM", "2 active")
    terminal.press("Q")
    terminal.until("Skip or stop", "2 active")  # job 8 has the slot: the question that comes next counts once
    terminal.press("q")
    terminal.until("2 jobs are running")
    terminal.press("x")
    assert terminal.until_ended() == 130


# Keys and theme that the user has set, on the screen in a real terminal


F5, CTRL_X, CTRL_Q = "\x1b[15~", "\x18", "\x11"
_SCRIPT = """
import os, time
print("attempt", os.environ["GMG_ATTEMPT"], flush=True)
time.sleep(600)
"""
_SETTINGS = """
theme = "contrast"
cpu = 2
[keys]
restart = "f5"
stop = ["ctrl+x", "r"]
help = "f1"
quit = "ctrl+q"
tried = "x"
view = "a"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the script is; the settings are in their place."""
    (tmp_path / "sim.py").write_text(_SCRIPT)
    file = Path(os.environ["XDG_CONFIG_HOME"], "gmg-tui", "config.toml")
    file.parent.mkdir(parents=True)
    file.write_text(_SETTINGS)
    return tmp_path


def test_configured_keys_work_and_appear_in_the_footer(folder: Path) -> None:
    with Terminal("sim.py", cwd=str(folder), columns=240) as terminal:
        terminal.until("2 running", "attempt 1")
        terminal.until("f5 Restart", "ctrl+x Stop", "ctrl+q Quit", "f1 Help", "a View")
        terminal.press(F5)
        terminal.until("attempt 2", "2 running")
        terminal.press("r")
        terminal.until("1 stopped")
        terminal.press(CTRL_X)
        terminal.until("Nothing is running on cpu0.")
        terminal.press(CTRL_Q)
        terminal.until("Leave them running")
        terminal.press(CTRL_X)
        assert terminal.until_ended() == 130


# A terminal rings, and shows a notification, while the screen is on it


_FAILING = """
import os, time
print("ready")
while os.environ["GMG_SLOT"] == "cpu1" or not os.path.exists("go"):
    time.sleep(0.05)
raise ValueError("no such robot")
"""
_SAID = b"\x1b]777;notify;gmg-tui;cpu0 has failed: ValueError: no such robot\x07"


def test_a_failure_rings_on_attached_terminals_only_once(tmp_path: Path) -> None:
    (tmp_path / "sim.py").write_text(_FAILING)
    options = ("--notify", "bell", "--notify", "osc777", "--cpu", "2", "--restart", "never")
    environment = {"TMUX": ""}
    with Terminal(*options, "sim.py", cwd=str(tmp_path), env=environment) as terminal:
        terminal.until("2 running")
        assert b"\x1b]777" not in terminal.raw
        (tmp_path / "go").touch()
        terminal.until("1 failed")
        wait_until(lambda: _SAID in terminal.raw)
        assert b"\x07" in terminal.raw.replace(_SAID, b"")
        # What is on the screen is not disturbed.
        assert "cpu0" in terminal.text()
        assert "777" not in terminal.text()
        terminal.press("d")
        terminal.until_ended()
    with Terminal("attach", cwd=str(tmp_path), env=environment) as later:
        later.until("1 failed", "cpu1")
        later.quit()
        before_the_end = later.raw.partition(b"has ended")[0]
        assert _SAID not in before_the_end
