"""The log in a real terminal: the pager that has it meanwhile, and what is copied to its clipboard."""

import base64
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.patience import wait_until
from tests.terminal.screen import CTRL_C, Terminal

pytestmark = [pytest.mark.usefixtures("nothing_is_left"), pytest.mark.terminal]

FAKE = str(Path(__file__).parents[1] / "fake_worker.py")
RUN = ("--cpu", "1", "--start", "together", FAKE, "--lines", "0", "--fps", "24000", "--steady", "-B", "4096")
CTRL_Z, CTRL_U = "\x1a", "\x15"
PAGER = """
import shutil, signal, sys, termios
interrupted = []
signal.signal(signal.SIGINT, lambda *_: interrupted.append(1))
cooked = bool(termios.tcgetattr(0)[3] & termios.ECHO)
first = open(sys.argv[1], "rb").readline()
print("\\033[2J\\033[HPAGER cooked", cooked, b"Genesis" in first, sys.argv[1][-14:], flush=True)
while True:
    line = sys.stdin.readline().strip()
    print("READ", line, "interrupted", len(interrupted), "columns", shutil.get_terminal_size().columns, flush=True)
    if line == "end":
        break
"""


@pytest.fixture
def pager(tmp_path: Path) -> dict[str, str]:
    """An environment in which a pager prints its input."""
    script = tmp_path / "pager.py"
    script.write_text(PAGER)
    return {"PAGER": shlex.join([sys.executable, str(script)])}


def test_the_pager_gets_the_terminal_and_the_screen_returns_in_the_new_size(pager: dict[str, str]) -> None:
    with Terminal(*RUN, columns=120, rows=36, env=pager) as terminal:
        terminal.until("1 running", "cpu0 log")
        terminal.command("Open log in pager")
        terminal.until("PAGER cooked True True", "logs/cpu0.log")
        terminal.press("q\r")
        terminal.until("READ q interrupted 0 columns 120")
        terminal.press(CTRL_C)
        terminal.press("again\r")
        terminal.until("READ again interrupted 1")
        terminal.resize(80, 24)
        terminal.press("end\r")
        terminal.until("1 running", "cpu0 log", "? Help", lambda text: "PAGER" not in text)
        assert len(terminal.text().splitlines()) == 24
        threads = psutil.Process(terminal.pid).num_threads()
        terminal.press("f")
        terminal.until(" paused")
        terminal.command("Open log in pager")
        terminal.until("PAGER cooked True True")
        terminal.press("end\r")
        terminal.until(" paused", lambda text: "PAGER" not in text)
        wait_until(lambda: psutil.Process(terminal.pid).num_threads() <= threads)
        terminal.quit()


def test_less_can_be_suspended_and_resumed(tmp_path: Path) -> None:
    if subprocess.run(["which", "less"], check=False, capture_output=True).returncode:
        pytest.skip("less is not installed")
    shell = ("bash", "--norc", "--noprofile", "-i")
    with Terminal(columns=120, rows=36, command=shell, env={"PS1": "prompt> ", "PAGER": "", "LESS": "R"}) as terminal:
        terminal.until("prompt>")
        terminal.press(f"{shlex.join([sys.executable, '-m', 'gmg_tui', *RUN])}\r")
        terminal.until("1 running", "cpu0 log", "Running at")
        terminal.command("Open log in pager")
        terminal.until("[INFO] Running on", "cpu0.log")  # the interface shortens the heads of lines
        pager = next(child for child in psutil.Process(terminal.pid).children(recursive=True) if child.name() == "less")
        terminal.press(CTRL_Z)
        terminal.until("Stopped")

        def is_stopped() -> bool:
            if pager.status() == psutil.STATUS_STOPPED:
                return True
            terminal.press(CTRL_U)  # while it still waits in its read, it takes the shell's next key
            return False

        wait_until(is_stopped)
        terminal.wipe()  # at last it wipes its line, or the shell's prompt
        terminal.press("fg\r")
        terminal.until("[INFO] Running on")
        terminal.wipe()
        terminal.press("/Building scene\r")
        terminal.until("[INFO] Building scene")
        terminal.wipe()
        terminal.press("q")
        terminal.until("1 running", "cpu0 log", "? Help", lambda text: "[INFO]" not in text)
        terminal.press("q")
        terminal.until("Leave them running")
        terminal.press("x")
        terminal.until("summary:", "prompt>")
        terminal.press("exit\r")
        terminal.until_ended()


def test_copied_text_reaches_the_clipboard_of_the_terminal() -> None:
    with Terminal(*RUN, columns=120, rows=36) as terminal:
        terminal.until("1 running", "cpu0 log", "Building scene")
        terminal.press("/", "Building scene", "\r")
        terminal.until("match 1 of 1")
        terminal.press("y")
        terminal.until("Sent 1 line to the terminal")

        def copied() -> list[str]:
            matches = re.findall(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07", terminal.raw)
            return [base64.b64decode(each).decode() for each in matches]

        wait_until(lambda: len(copied()) == 1)
        (line,) = copied()
        assert re.fullmatch(r"\[Genesis\] \[\d\d:\d\d:\d\d\] \[INFO\] Building scene <\w+>\.\.\.", line)
        terminal.quit()


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_text_copied_in_tmux_reaches_its_terminal_which_ignores_osc_52_of_programs(tmp_path: Path) -> None:
    tmux = ("tmux", "-S", str(tmp_path / "tmux"), "-f", "/dev/null")
    program = shlex.join([sys.executable, "-m", "gmg_tui", *RUN])
    with Terminal(columns=120, rows=36, command=(*tmux, "new-session", program), env={"TMUX": ""}) as terminal:
        try:
            terminal.until("1 running", "cpu0 log", "Building scene")
            terminal.press("/", "Building scene", "\r")
            terminal.until("match 1 of 1")
            terminal.press("y")
            terminal.until("Copied 1 line")
            buffer = subprocess.run([*tmux, "show-buffer"], capture_output=True, check=True, text=True).stdout
            assert re.fullmatch(r"\[Genesis\] \[\d\d:\d\d:\d\d\] \[INFO\] Building scene <\w+>\.\.\.", buffer)
            wait_until(lambda: base64.b64encode(buffer.encode()) in terminal.raw)
            terminal.press("q")
            terminal.until("Leave them running")
            terminal.press("x")
            terminal.until_ended()
        finally:
            subprocess.run([*tmux, "kill-server"], check=False, capture_output=True)
