"""Stops the process and continues it as a shell's jobs do, with the terminal given back meanwhile.

Textual 8.2.8 starts its driver anew at every SIGCONT (`LinuxDriver._sigcont_application`), also when it was not stopped
by SIGTSTP: then two threads read the keys, and the terminal stays raw in the end.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType

from textual.driver import Driver


class Suspension:
    """Handles SIGTSTP and SIGCONT from its construction on; to be made in the main thread, after the driver.

    Args:
        driver: What has the terminal.
        continued: Called once the process continues, in the handler of the signal: it must wake the event loop.

    Attributes:
        lent: Whether another program has the terminal, which restores it itself when it is stopped.
    """

    def __init__(self, driver: Driver, continued: Callable[[], object]) -> None:
        self._driver = driver
        self._continued = continued
        self.lent = False
        signal.signal(signal.SIGTSTP, self._on_stop)
        signal.signal(signal.SIGCONT, self._on_continue)

    def close(self) -> None:
        """Leave both signals to the system."""
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.signal(signal.SIGCONT, signal.SIG_DFL)

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        lent = self.lent
        if not lent:
            self._driver.suspend_application_mode()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)  # the kernel drops it where no shell could continue the process
        signal.signal(signal.SIGTSTP, self._on_stop)
        if not lent:
            self._driver.resume_application_mode()
            self._continued()

    def _on_continue(self, number: int, frame: FrameType | None) -> None:
        if not self.lent:
            self._continued()
