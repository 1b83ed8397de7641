"""The whole program in a real pseudo-terminal, and what a person would see there."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Self

import pexpect
import psutil
import pyte

ENTER, ESCAPE, CTRL_C = "\r", "\x1b", "\x03"
UP, DOWN, RIGHT, LEFT = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D"


class Terminal:
    """A terminal of a certain size with a program in it.

    Args:
        args: What follows `gmg-tui` on the command line.
        columns: Width in cells.
        rows: Height in cells.
        env: Variables beside the test's own environment.
    """

    def __init__(
        self,
        *args: str,
        columns: int = 120,
        rows: int = 36,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> None:
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        self._child = pexpect.spawn(
            sys.executable,
            ["-m", "gmg_tui", *args],
            dimensions=(rows, columns),
            env={**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", **(env or {})},
            cwd=cwd,
            timeout=None,
        )
        self._child.delaybeforesend = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.close(force=True)

    @property
    def pid(self) -> int:
        """The program's PID."""
        assert isinstance(self._child.pid, int)
        return self._child.pid

    @property
    def text(self) -> str:
        """What is on the screen."""
        return "\n".join(self._screen.display)

    def line(self, word: str) -> str:
        """The first line of the screen with `word` in it; empty when there is none."""
        return next((line for line in self._screen.display if word in line), "")

    def press(self, *keys: str) -> None:
        """Type."""
        for key in keys:
            self._child.send(key)

    def read(self, wait_s: float = 0.05) -> bool:
        """Take what the program has written. Returns whether there was anything."""
        try:
            data = self._child.read_nonblocking(1 << 16, timeout=wait_s)
        except pexpect.TIMEOUT:
            return False
        except pexpect.EOF:
            return False
        self.raw += data
        self._stream.feed(data)
        return True

    def until(self, *wanted: str | Callable[[str], bool], timeout_s: float = 30.0) -> str:
        """Read until all of `wanted` hold of the screen: words on it, or functions of its text."""
        deadline = time.monotonic() + timeout_s
        while not all(want in self.text if isinstance(want, str) else want(self.text) for want in wanted):
            if time.monotonic() > deadline:
                raise AssertionError(f"never on the screen: {wanted}\n{self.text}")
            if not self.read() and not self._child.isalive():
                while self.read():
                    continue
                if all(want in self.text if isinstance(want, str) else want(self.text) for want in wanted):
                    break
                raise AssertionError(f"the program ended without {wanted} on the screen:\n{self.text}")
        return self.text

    def until_ended(self, timeout_s: float = 30.0) -> int:
        """Read until the program has ended. Returns its exit status."""
        deadline = time.monotonic() + timeout_s
        while self._child.isalive():
            assert time.monotonic() < deadline, f"still running:\n{self.text}"
            self.read()
        while self.read():
            continue
        self._child.close()
        status = self._child.exitstatus if self._child.signalstatus is None else -self._child.signalstatus
        assert status is not None
        return status


def sessions_processes(state_home: str) -> list[psutil.Process]:
    """All processes that carry this test's state folder in their environment, but for pytest itself."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("XDG_STATE_HOME") == state_home and process.pid != os.getpid():
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found
