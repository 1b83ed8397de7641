"""The size that the terminal has, and a screen that is laid out for it."""

from __future__ import annotations

import shutil
from typing import ClassVar, TypeVar

from textual.events import Event, Resize
from textual.geometry import Size
from textual.screen import Screen

Result = TypeVar("Result")


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
