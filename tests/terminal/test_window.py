"""The window changes its size, the shell takes the terminal back, text is pasted, tmux is in between."""

import os
import shutil
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator

import psutil
import pytest

from tests.harm.sessions import stop, the_session
from tests.patience import wait_until
from tests.terminal.screen import ENTER, Terminal

pytestmark = [pytest.mark.usefixtures("nothing_is_left"), pytest.mark.terminal]

PROGRAM = (sys.executable, "-m", "tests.ui.screens.on_terminal")
PASTED = "\x1b[200~{}\x1b[201~"
SMALL = (80, 24)


def _cooked(terminal: Terminal) -> bool:
    """Whether the terminal is as a shell wants it."""
    local = termios.tcgetattr(terminal._master)[3]
    return bool(local & termios.ECHO and local & termios.ICANON)


def _until_as_fresh(shown: Callable[[], str], columns: int, rows: int) -> None:
    """Wait until `shown()` is what a new terminal of this size shows, whose frames come while this waits."""
    with Terminal(columns=columns, rows=rows, command=PROGRAM) as fresh:
        fresh.until("Events", "q Quit")
        wait_until(lambda: _stripped(fresh.text()) == _stripped(shown()))


def _stripped(screen: str) -> list[str]:
    return [line.rstrip() for line in screen.splitlines()]


def test_a_window_that_was_resized_and_back_is_redrawn() -> None:
    with Terminal(columns=80, rows=24, command=PROGRAM) as terminal:
        _until_as_fresh(terminal.text, *SMALL)
        before = terminal.text()
        process = psutil.Process(terminal.pid)
        process.suspend()  # it hears of both changes at once
        terminal.resize(40, 10)
        terminal.resize(*SMALL)
        assert terminal.text() != before
        process.resume()
        terminal.until(lambda text: text == before)
        terminal.press("d")
        assert terminal.until_ended() == 0


def test_an_exported_size_does_not_freeze_the_screen() -> None:
    with Terminal(columns=80, rows=24, command=PROGRAM, env={"COLUMNS": "200", "LINES": "60"}) as terminal:
        _until_as_fresh(terminal.text, *SMALL)
        terminal.resize(60, 14)
        _until_as_fresh(terminal.text, 60, 14)


def test_a_process_stopped_from_outside_resumes_with_one_key_reader() -> None:
    with Terminal(columns=80, rows=24, command=PROGRAM) as terminal:
        _until_as_fresh(terminal.text, *SMALL)
        before = terminal.text()
        assert not _cooked(terminal)
        process = psutil.Process(terminal.pid)
        threads = process.num_threads()
        for _ in range(3):
            process.suspend()
            terminal.wipe()
            process.resume()
            terminal.until(lambda text: text == before)
        wait_until(lambda: process.num_threads() <= threads)
        terminal.press("d")
        assert terminal.until_ended() == 0
        assert _cooked(terminal)


def test_pasted_text_triggers_no_keys_and_can_be_searched_for() -> None:
    with Terminal(columns=120, rows=36, command=PROGRAM) as terminal:
        terminal.until("gpu0 log")
        terminal.press(PASTED.format("qxXrd\nq"), "/")
        terminal.until("search the log")
        terminal.press(PASTED.format("xyz"))
        terminal.until("xyz", "no match")
        terminal.press(PASTED.format("w" * 5000), "v" * 3000)  # too long to search for
        terminal.until("vvv", "no match")
        assert "www" not in terminal.text()


def test_unread_keys_do_not_reach_the_shell_after_a_crash() -> None:
    shell = ("bash", "--norc", "--noprofile", "-i")
    with Terminal(columns=120, rows=36, command=shell, env={"PS1": "prompt> "}) as terminal:
        terminal.until("prompt>")
        terminal.press(f"{sys.executable} -m tests.terminal.crashing; echo status $?{ENTER}")
        terminal.until("it has crashed")  # its interface, which goes on once there are keys
        terminal.press(f"echo $((6 * 7)){ENTER}")
        terminal.until("status 1", "the interface failed")
        terminal.press(f"echo $((6 * 8)){ENTER}")
        terminal.until("48")
        assert "\n42" not in terminal.text()
        terminal.press(f"exit{ENTER}")
        assert terminal.until_ended() == 0
    stop(the_session())


@pytest.fixture
def tmux() -> Iterator[Callable[..., str]]:
    """Runs tmux with a server of this test's own."""
    program = shutil.which("tmux")
    if program is None:
        pytest.skip("tmux is not installed")
    name = f"gmg-test-{os.getpid()}"

    def run(*words: str) -> str:
        command = [program, "-u", "-L", name, "-f", "/dev/null", *words]
        env = {**os.environ, "LANG": "C.UTF-8"}
        return subprocess.run(command, check=False, capture_output=True, text=True, env=env).stdout

    yield run
    subprocess.run([program, "-L", name, "kill-server"], check=False, capture_output=True)


def test_tmux_shows_what_a_terminal_shows_and_follows_its_size(tmux: Callable[..., str]) -> None:
    tmux("new-session", "-d", "-x", "120", "-y", "36", *PROGRAM)
    for columns, rows in ((120, 36), (80, 24)):
        tmux("resize-window", "-x", str(columns), "-y", str(rows))
        _until_as_fresh(lambda: _pane(tmux), columns, rows)
    tmux("send-keys", "q")
    wait_until(lambda: "Quit franka-1" in _pane(tmux))
    tmux("send-keys", "d")
    wait_until(lambda: not tmux("list-sessions"))


def _pane(tmux: Callable[..., str]) -> str:
    return tmux("capture-pane", "-p")
