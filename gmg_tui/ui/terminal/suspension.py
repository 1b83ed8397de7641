"""Stops the process and starts it again as a shell's jobs do, with the terminal given back meanwhile.

Textual 8.2.8 starts its driver anew at every SIGCONT (`LinuxDriver._sigcont_application`), also when it was not stopped
by SIGTSTP: then two threads read the keys, and the terminal stays raw in the end.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from textual.driver import Driver


def shell_waits() -> bool:
    """Whether somebody would continue this process if it stopped: its process group is not orphaned (`setpgid(2)`)."""
    import psutil  # not before it is asked for: the first frame comes sooner

    pid = os.getppid()
    try:
        while pid and os.getpgid(pid) == os.getpgrp():
            pid = psutil.Process(pid).ppid()
        return pid > 0 and os.getsid(pid) == os.getsid(0)
    except (psutil.Error, ProcessLookupError, PermissionError):
        return False


def suspend() -> None:
    """Stop this process and those of its group, as the terminal does for ctrl+z; not before `Suspension` listens."""
    os.killpg(os.getpgrp(), signal.SIGTSTP)


class Suspension:
    """Listens to SIGTSTP and SIGCONT from its construction on; to be made in the main thread, after the driver.

    Args:
        driver: What has the terminal.
        continued: Called once the process goes on, in the handler of the signal: it must wake the event loop.
    """

    def __init__(self, driver: Driver, continued: Callable[[], object]) -> None:
        self._driver = driver
        self._continued = continued
        self._given_back = False
        self._lent = False
        """Whether another program has the terminal, which gives it back itself when it is stopped."""
        signal.signal(signal.SIGTSTP, self._on_stop)
        signal.signal(signal.SIGCONT, self._on_continue)

    def close(self) -> None:
        """Leave both signals to the system."""
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.signal(signal.SIGCONT, signal.SIG_DFL)

    @contextmanager
    def lend(self) -> Iterator[None]:
        """Leave the terminal to another program while the context lasts."""
        self._driver.suspend_application_mode()
        self._lent = True
        try:
            yield
        finally:
            self._lent = False
            self._driver.resume_application_mode()
            self._continued()

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        if self._lent:
            os.kill(os.getpid(), signal.SIGSTOP)
            return
        self._driver.suspend_application_mode()
        self._given_back = True
        os.kill(os.getpid(), signal.SIGSTOP)

    def _on_continue(self, number: int, frame: FrameType | None) -> None:
        if self._lent:
            return
        if self._given_back:
            self._given_back = False
            self._driver.resume_application_mode()
        self._continued()
