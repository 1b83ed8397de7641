"""What is copied from the log to the clipboard of a real terminal."""

import base64
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import wait_until
from tests.terminal.screen import Terminal

pytestmark = [pytest.mark.usefixtures("nothing_is_left"), pytest.mark.terminal]

FAKE = str(Path(__file__).parents[1] / "fake_worker.py")
RUN = ("--cpu", "1", "--start", "together", FAKE, "--lines", "0", "--fps", "24000", "--steady", "-B", "4096")


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
