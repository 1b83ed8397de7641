"""Keys and theme that the user has set, on the screen in a real terminal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.terminal.screen import ESCAPE, Terminal

pytestmark = [pytest.mark.usefixtures("nothing_is_left"), pytest.mark.terminal]

F5, F1, F4, CTRL_O, CTRL_X, CTRL_Q = "\x1b[15~", "\x1bOP", "\x1bOS", "\x0f", "\x18", "\x11"
_SCRIPT = """
import os, time
print("attempt", os.environ["GMG_ATTEMPT"], flush=True)
time.sleep(600)
"""
_SETTINGS = """
theme = "contrast"
[options]
cpu = 2
[keys]
restart = "f5"
stop = ["ctrl+x", "r"]
help = "f1"
quit = "ctrl+q"
tried = "x"
view = "a"
sort = "ctrl+o"
[keys.in-details]
command = "a"
GPU = "f4"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the script is; the settings are in their place."""
    (tmp_path / "sim.py").write_text(_SCRIPT)
    file = Path(os.environ["XDG_CONFIG_HOME"], "gmg-tui", "config.toml")
    file.parent.mkdir(parents=True)
    file.write_text(_SETTINGS)
    return tmp_path


def test_other_keys_work_and_stand_in_footer_help_and_messages(folder: Path) -> None:
    with Terminal("sim.py", cwd=str(folder), columns=160) as terminal:
        terminal.until("2 running", "attempt 1")
        foot = terminal.text().splitlines()[-1]
        for shown in ("f5 restart", "ctrl+x r stop", "ctrl+q quit", "f1 help", "a view"):
            assert shown in foot
        terminal.press(F5)
        terminal.until("attempt 2", "2 running")
        terminal.press(F1)
        shown = terminal.until("Help", "Restart the worker")
        rows = [line.split("│")[1].split(maxsplit=1) for line in shown.splitlines() if line.count("│") > 1]
        (restart,) = [key for key, *text in rows if text and text[0].startswith("Restart the worker:")]
        assert restart == "f5"
        terminal.press(F1)
        terminal.until(lambda text: "Help" not in text)
        terminal.press("r")
        terminal.until("1 stopped")
        terminal.press(CTRL_X)
        terminal.until("ctrl+x: cpu0 is stopped already; f5 starts it again.")
        terminal.press("x")  # opens what `a` did, and returns from there
        terminal.until("esc back")
        assert "f5 restart" not in terminal.text()
        terminal.press("x")
        terminal.until("f5 restart")
        terminal.press("\r")
        terminal.until("esc back", "f5 restart", "ctrl+q quit", "f4 GPU")
        terminal.press("3")
        terminal.until("[3 setup]", "a command")
        terminal.press("a")
        terminal.until("The command of cpu0")
        terminal.press(ESCAPE)
        terminal.until("[3 setup]")
        terminal.press(F4)
        terminal.until("[f4 GPU]")
        terminal.press(ESCAPE)
        terminal.until("a view")
        terminal.press(CTRL_O)
        terminal.until("Sort by")
        terminal.press(CTRL_O)
        terminal.until("ctrl+o sorts", lambda text: "Sort by" not in text)
        terminal.press("q", CTRL_Q)
        terminal.until("leave")
        terminal.press("s")
        assert terminal.until_ended() == 130


def test_the_theme_that_is_set_wins_over_the_one_chosen_last_and_an_option_over_both(folder: Path) -> None:
    state = Path(os.environ["XDG_STATE_HOME"], "gmg-tui")
    state.mkdir(parents=True)
    (state / "screen.json").write_text('{"theme": "light"}')
    colours = {}
    for words in ((), ("--theme", "light"), ("--theme", "contrast")):
        with Terminal(*words, "sim.py", cwd=str(folder), env={"COLORTERM": "truecolor"}) as terminal:
            terminal.until("2 running")
            colours[words] = terminal.cells()[0][1].bg
            terminal.press("\x03")
            terminal.until("leave")
            terminal.press("s")
            terminal.until_ended()
    assert colours[()] == colours["--theme", "contrast"] != colours["--theme", "light"]
