"""Textual's driver of the terminal, which sends only what changed, and stops and continues as a shell's jobs do.

The bases of the app and of all screens are here, too.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeVar

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Event, Resize
from textual.geometry import Size
from textual.screen import Screen

from gmg_tui.ui.terminal.differ import Differ

_SYNC_START, _SYNC_END = "\x1b[?2026h", "\x1b[?2026l"
"""What Textual writes before and after each frame, where the terminal knows synchronized output."""
_FRAME: Final = re.compile(r"\x1b\[\d+;\d+H")
"""What each frame starts with, and nothing else that Textual writes: a cursor move."""


Result = TypeVar("Result")


class TerminalApp(App[Result], inherit_bindings=False):
    """An app whose frames go through a differ.

    Attributes:
        terminal: What has the terminal; None where there is none: in a browser, and in tests.
    """

    terminal: TerminalDriver | None = None

    def forget_terminal(self) -> None:
        """Send whole frames next time: the terminal may not show what was sent."""
        if self.terminal is not None:
            self.terminal.forget()


class TerminalDriver(LinuxDriver):
    """Passes frames through a differ, and gives the terminal back while the process is stopped.

    Textual 8.2.8 starts its driver anew at every SIGCONT, also when it was not stopped by SIGTSTP: then two threads read
    the keys, and the terminal stays raw in the end.
    """

    def __init__(self, app: TerminalApp[Any], **options: Any) -> None:
        super().__init__(app, **options)
        app.terminal = self
        self._screen: Callable[[], Screen[Any]] = lambda: app.screen
        self._redraw = lambda: app.call_later(app.run_action, "app.redraw")
        self._loop = asyncio.get_running_loop()
        self._differ = Differ()
        self._drawn: tuple[Screen[Any] | None, Size] = None, Size(0, 0)
        """The screen of the last frame, and its size."""
        self._sync = False
        """Whether a frame is to be sent as one."""

    def forget(self) -> None:
        """Send whole frames next time: the terminal may not show what was sent."""
        self._differ.forget()

    def write(self, data: str) -> None:
        """Send control sequences as they are, and of a frame what differs from the one before."""
        if data in {_SYNC_START, _SYNC_END}:
            self._sync = data == _SYNC_START
            return
        if not _FRAME.match(data):
            super().write(data)
            return
        screen = self._screen()
        if (screen, screen.size) != self._drawn:  # the size of a screen that was covered may be of an earlier window
            self._drawn = screen, screen.size
            self._differ.resize(*screen.size)
        if changes := self._differ.diff(data):
            super().write(f"{_SYNC_START}{changes}{_SYNC_END}" if self._sync else changes)

    # Job control

    def start_application_mode(self) -> None:
        """Take the terminal, and handle the signals that stop and continue the process."""
        super().start_application_mode()  # type: ignore[no-untyped-call]
        self.forget()
        signal.signal(signal.SIGTSTP, self._on_stop)
        signal.signal(signal.SIGCONT, lambda *_: self._loop.call_soon_threadsafe(self._redraw))

    def stop_application_mode(self) -> None:
        """Give the terminal back, and leave the signals to the system."""
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.signal(signal.SIGCONT, signal.SIG_DFL)
        super().stop_application_mode()

    def _on_stop(self, *_: object) -> None:
        self.suspend_application_mode()
        os.kill(os.getpid(), signal.SIGTSTP)  # the kernel drops it where no shell could continue the process
        self.resume_application_mode()
        self._loop.call_soon_threadsafe(self._redraw)


# Sizes


def window_size() -> Size | None:
    """The terminal's size now, as Textual's driver asks for it (`LinuxDriver`); None where nobody knows."""
    columns, rows = shutil.get_terminal_size((0, 0))
    return Size(columns, rows) if columns and rows else None


class TrueSizeScreen(Screen[Result]):
    """Corrects stale sizes; the base of all screens.

    A screen of Textual 8.2.8 that has been laid out sends itself the size that it was laid out for, behind the next size
    of the terminal if that has come meanwhile; and of two sizes in the queue only the last counts (`Resize.can_replace`).
    """

    SCROLLS: ClassVar[bool] = False
    """Whether it can be used in a terminal of any size."""

    async def on_event(self, event: Event) -> None:
        """Take every change of size for one to the terminal's."""
        if isinstance(event, Resize) and event.size != self.app.size:
            event = Resize(self.app.size, self.app.size)
        await super().on_event(event)
