"""What signals do to a command that has started an engine."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGXCPU)
_PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)


class Interrupts:
    """Have each signal that ends a command do what ctrl+c does: raise KeyboardInterrupt.

    Where SIGTERM ended this process alone, an engine and its workers would go on. SIGUSR1 and SIGUSR2, on which scripts
    save their state, are passed on to the engines.

    Attributes:
        engines: Those that the signals are passed on to.
    """

    def __init__(self) -> None:
        self.engines: list[subprocess.Popen[bytes]] = []
        self._came = self._held = False

    def hold(self) -> None:
        """Only note the signals from now on: what is being made could not be undone yet."""
        self._held = True

    def release(self) -> None:
        """Obey signals again. Raises KeyboardInterrupt if one has come meanwhile."""
        self._held = False
        self.check()

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has come.

        Python drops what a handler raises in a finalizer or in a callback of a weak reference, of which each import
        has one (`importlib._bootstrap._get_module_lock`).
        """
        if self._came:
            raise KeyboardInterrupt

    def leave_ctrl_c(self) -> None:
        """As `check`; from now on ctrl+c is asyncio's, which cancels its main task where Python's own handler is set."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.check()

    def ignore(self) -> None:
        """Leave ctrl+c only: a second signal of another kind must not end this process before its workers."""
        for number in _ENDING:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_IGN)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._came = True
        if not self._held:
            raise KeyboardInterrupt

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        for engine in self.engines:
            engine.send_signal(number)

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle the signals while the context lasts, where this is the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handlers = {**dict.fromkeys(_ENDING, self._end), **dict.fromkeys(_PASSED_ON, self._pass_on)}
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
