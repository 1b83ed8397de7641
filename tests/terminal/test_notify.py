"""A terminal rings, and shows a notification, while the screen is on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.patience import wait_until
from tests.terminal.screen import Terminal

pytestmark = [pytest.mark.usefixtures("nothing_is_left"), pytest.mark.terminal]

_SCRIPT = """
import os, time
print("ready")
while os.environ["GMG_SLOT"] == "cpu1" or not os.path.exists("go"):
    time.sleep(0.05)
raise ValueError("no such robot")
"""
_SAID = b"\x1b]777;notify;gmg-tui;cpu0 has failed: ValueError: no such robot\x07"


def test_a_failure_rings_on_attached_terminals_only_once(tmp_path: Path) -> None:
    (tmp_path / "sim.py").write_text(_SCRIPT)
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
