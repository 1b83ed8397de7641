"""The interface on a real pseudo-terminal that goes away."""

import asyncio
import contextlib
import os
import pty
import resource
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import psutil
import pytest

from gmg_tui.ui import terminal
from tests.patience import LONG_S
from tests.ui.screens.on_terminal import BLOCKED

_ENOUGH_CPU_S = 2 * terminal.GRACE_S
"""Less than a thread takes that spins on a lost terminal until it is ended from outside."""


@contextlib.contextmanager
def _program(grace_s: float) -> Iterator[pexpect.spawn]:
    """The interface, drawn, on a separate terminal; it has `grace_s` to exit cleanly."""
    env = {**os.environ, "TERM": "xterm-256color"}
    args = ["-m", "tests.ui.screens.on_terminal", str(grace_s)]
    child = pexpect.spawn(sys.executable, args, dimensions=(24, 80), env=env, timeout=LONG_S)
    child.delaybeforesend = None
    try:
        child.expect_exact(b"gpu3")
        yield child
    finally:
        child.close(force=True)


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _cpu_s_until_ended(child: pexpect.spawn) -> float:
    """Wait for the end without reading the terminal. Returns what CPU time the process has used from now on."""
    before: float = _children_cpu_s() + sum(psutil.Process(child.pid).cpu_times()[:2])
    deadline = time.monotonic() + LONG_S
    while child.isalive():
        assert time.monotonic() < deadline, "still there"
        time.sleep(0.05)
    return _children_cpu_s() - float(before)


def _descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def _close_window(child: pexpect.spawn) -> None:
    """The master's side closes, and something harmless gets its descriptor."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, child.child_fd)
    os.close(nothing)


def _hang_up(child: pexpect.spawn) -> None:
    os.kill(child.pid, signal.SIGHUP)


def _terminate(child: pexpect.spawn) -> None:
    os.kill(child.pid, signal.SIGTERM)


@pytest.mark.terminal
@pytest.mark.parametrize("lose", [_close_window, _hang_up, _terminate])
def test_an_interface_exits_cleanly_when_its_terminal_is_lost(lose: Callable[[pexpect.spawn], None]) -> None:
    with _program(2 * LONG_S) as program:
        lose(program)
        _cpu_s_until_ended(program)
        assert program.exitstatus == 0


@pytest.mark.terminal
@pytest.mark.parametrize("lose", [_close_window, _hang_up])
def test_a_stuck_interface_is_ended_and_the_terminal_restored(lose: Callable[[pexpect.spawn], None]) -> None:
    with _program(terminal.GRACE_S) as program:
        assert not termios.tcgetattr(program.child_fd)[3] & termios.ECHO
        program.send("r")
        program.expect_exact(BLOCKED)
        lose(program)
        assert _cpu_s_until_ended(program) < _ENOUGH_CPU_S
        assert program.exitstatus == terminal.EXIT_CODE
        if lose is _hang_up:
            assert termios.tcgetattr(program.child_fd)[3] & termios.ECHO
            assert b"\x1b[?1049l" in program.read()


async def test_a_stopped_watchdog_leaves_nothing_behind() -> None:
    master, slave = pty.openpty()
    descriptors = _descriptors()
    handler = signal.getsignal(signal.SIGHUP)
    lost: list[bool] = []
    with terminal.watch(lambda: lost.append(True), descriptor=slave):
        assert signal.getsignal(signal.SIGHUP) != handler
        (thread,) = (candidate for candidate in threading.enumerate() if candidate.name == "gmg-terminal-watchdog")
    await asyncio.to_thread(thread.join, LONG_S)
    assert not thread.is_alive()
    assert signal.getsignal(signal.SIGHUP) == handler
    os.close(master)
    os.close(slave)
    assert _descriptors() <= descriptors
    assert lost == []
