"""Keys and theme that the user has set, on the screen in a real terminal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.terminal.screen import Terminal

pytestmark = [pytest.mark.usefixtures("nothing_is_left"), pytest.mark.terminal]

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
    with Terminal("sim.py", cwd=str(folder), columns=160) as terminal:
        terminal.until("2 running", "attempt 1")
        terminal.until("f5 Restart", "ctrl+x Stop", "ctrl+q Quit", "f1 Help", "a View")
        terminal.press(F5)
        terminal.until("attempt 2", "2 running")
        terminal.press("r")
        terminal.until("1 stopped")
        terminal.press(CTRL_X)
        terminal.until("Nothing runs on cpu0.")
        terminal.press(CTRL_Q)
        terminal.until("Leave them running")
        terminal.press(CTRL_X)
        assert terminal.until_ended() == 130


def test_an_option_overrides_the_configured_theme(folder: Path) -> None:
    colours = {}
    for words in ((), ("--theme", "light"), ("--theme", "contrast")):
        with Terminal(*words, "sim.py", cwd=str(folder), env={"COLORTERM": "truecolor"}) as terminal:
            terminal.until("2 running")
            colours[words] = terminal.cells()[0][1].bg
            terminal.press("\x03")
            terminal.until("Leave them running")
            terminal.press(CTRL_X)
            terminal.until_ended()
    assert colours[()] == colours["--theme", "contrast"] != colours["--theme", "light"]
