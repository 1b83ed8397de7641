"""The screen opened, left and opened again by the commands, on a real pseudo-terminal."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pexpect
import pytest

from gmg_tui import session as sessions
from tests.cli.scripted import WORKER, environ
from tests.patience import LONG_S

pytestmark = pytest.mark.terminal


_SWALLOWED = (
    "import asyncio, os, signal, sys; from gmg_tui.cli import app as cli; from gmg_tui.ui.app import GmgApp\n"
    "async def run_async(*_, **__):\n"
    "    os.kill(os.getpid(), signal.SIGINT)\n"
    "    try:\n"
    "        await asyncio.sleep(60)\n"
    "    except asyncio.CancelledError:\n"
    "        return None\n"
    "GmgApp.run_async = run_async\n"
    "cli.main(sys.argv[1:])\n"
)
"""Textual may swallow that its task is cancelled."""


def _gmg(*words: str, program: tuple[str, ...] = ("-m", "gmg_tui")) -> pexpect.spawn[str]:
    return pexpect.spawn(
        sys.executable,
        [*program, *words],
        env=environ(TERM="xterm-256color"),
        dimensions=(30, 100),
        encoding="utf-8",
        timeout=LONG_S,
    )


def test_a_session_is_detached_attached_and_stopped() -> None:
    terminal = _gmg("--cpu", "1", "--name", "far", WORKER, "--lines", "0", "--steady")
    terminal.expect("Running at")
    terminal.send("d")
    terminal.expect_exact("gmg-tui: session far keeps running; return with: gmg-tui attach far\r\n")
    terminal.expect(pexpect.EOF)
    assert terminal.wait() == 0
    terminal = _gmg("attach")
    terminal.expect("Running at")
    terminal.send("q")
    terminal.expect("Stop the workers")
    terminal.send("x")
    terminal.expect(r"cpu0  .*stopped.* 12,800 .*\r\n1 stopped  total 12,800 FPS")
    terminal.expect(pexpect.EOF)
    assert terminal.wait() == 130
    assert sessions.find("far", running=False).folder.joinpath("summary.json").exists()


@pytest.mark.parametrize(
    "garbage",
    ["é".encode("latin-1") + b"x", b"\x1b[1114112u", b"\x1b[:u", b"\x1b[48;99999;99999;0;0t"],
    ids=["latin", "character", "number", "size"],
)
def test_no_input_ends_the_screen(garbage: bytes) -> None:
    terminal = _gmg("--cpu", "1", "--name", "latin1", WORKER, "--lines", "0", "--steady")
    terminal.expect("Running at")
    os.write(terminal.child_fd, garbage)
    asked = 1
    while asked:  # the reader drops what came with the garbage
        os.write(terminal.child_fd, b"q")
        asked = terminal.expect(["Stop the workers", pexpect.TIMEOUT], timeout=2)
    terminal.send("x")
    terminal.expect("1 stopped")
    terminal.expect(pexpect.EOF)
    assert terminal.wait() == 130


@pytest.mark.parametrize(
    "variables", [{"TEXTUAL_PRESS": "X,y,enter"}, {"TEXTUAL_SCREENSHOT": "1"}, {"TEXTUAL_LOG": "log"}], ids=str
)
def test_no_variable_of_textual_steers_the_screen(
    variables: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As kept by `sudo -E` from another user, or set to develop another program."""
    monkeypatch.chdir(tmp_path)
    for name, value in {**variables, "TEXTUAL_SCREENSHOT_LOCATION": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    terminal = _gmg("--cpu", "1", WORKER, "--lines", "40", "--crash", "traceback")
    terminal.expect("failed")
    terminal.send("q")
    terminal.expect(pexpect.EOF)
    assert terminal.wait() == 1
    assert not [*tmp_path.glob("*.svg"), *tmp_path.glob("log")]


def test_a_session_that_ends_while_attached_prints_its_table() -> None:
    terminal = _gmg("--cpu", "1", WORKER, "--lines", "20", "--crash", "traceback")
    terminal.expect("failed")
    terminal.send("q")
    terminal.expect(r"cpu0 failed: .*the robot has 9 joints")
    terminal.expect(pexpect.EOF)
    assert terminal.wait() == 1


def test_an_interrupt_before_the_first_frame_stops_the_workers() -> None:
    terminal = _gmg("--cpu", "1", WORKER, "--lines", "0", program=("-c", _SWALLOWED))
    terminal.expect_exact("stopping the workers")
    terminal.expect(pexpect.EOF)
    assert terminal.wait() == 130
    assert [entry.state for entry in sessions.list_sessions()] == ["ended"]


def test_no_text_of_others_controls_the_terminal(tmp_path: Path) -> None:
    settings = tmp_path / "config" / "gmg-tui" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('"\\u001b]0;title\\u0007\\u009b2Jx" = 1\n')
    for words in (["no\x1b]0;title\x07.py"], ["--headless", "sim.py"]):
        printed = pexpect.spawn(sys.executable, ["-m", "gmg_tui", *words], env=environ(), timeout=LONG_S).read()
        assert b"gmg-tui: " in printed
        assert not set("\x1b\x07\x9b") & set(printed.decode())
