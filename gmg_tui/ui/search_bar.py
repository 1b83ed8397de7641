"""The line that asks what to search for in the log."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input

from gmg_tui.ui.in_order import InOrder
from gmg_tui.ui.log_view import LogView


class SearchBar(Input, InOrder):
    """Searches while one types; `enter` keeps the search and gives the keys back, `escape` ends it."""

    DEFAULT_CSS = """
    SearchBar { height: 1; border: none; padding: 0 1; &:focus { border: none; } }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "leave", show=False),
        Binding("ctrl+c", "app.quit_session", "quit", show=False),
    ]

    def __init__(self, log: LogView) -> None:
        super().__init__(log.buffer.query, placeholder="search the log", compact=True)
        self.cursor_blink = False  # a blinking cursor costs the line bytes
        self._log = log

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search for what is there by now."""
        event.stop()
        self._log.search(event.value)

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the search."""
        event.stop()
        await self.remove()

    async def action_leave(self) -> None:
        """End the search."""
        self._log.search("")
        await self.remove()
