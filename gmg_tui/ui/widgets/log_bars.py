"""The input lines of the log's search and of its filter."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input

from gmg_tui.ui.terminal.key_order import KeyOrder
from gmg_tui.ui.terminal.refresh_limiter import RefreshLimiter
from gmg_tui.ui.widgets.log_view import LogView

_PERIOD_S = 0.1
"""Shortest time between two searches, seconds: pasted text comes by the thousand characters."""


class LogBar(Input, KeyOrder):
    """Does its work while one types; `enter` keeps the text and leaves the line, `escape` drops it."""

    DEFAULT_CSS = """
    LogBar { height: 1; border: none; padding: 0 1; &:focus { border: none; } }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "leave", show=False),
        Binding("ctrl+c", "app.quit_session", "quit", show=False),
    ]

    def __init__(self, log: LogView, value: str, placeholder: str) -> None:
        super().__init__(value, placeholder=placeholder, compact=True)
        self.cursor_blink = False  # a blinking cursor is traffic on a slow line
        self.log_view = log
        self._pace = RefreshLimiter(self, lambda: self.use(self.value), _PERIOD_S)

    def use(self, text: str) -> None:
        """Do what the line is for with its present text."""
        raise NotImplementedError

    def on_input_changed(self, event: Input.Changed) -> None:
        """Use the present text."""
        event.stop()
        self._pace.ask()

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the text."""
        event.stop()
        self._pace.settle()
        await self.remove()

    async def action_leave(self) -> None:
        """Drop the text."""
        self.value = ""
        self.use("")
        await self.remove()


class SearchBar(LogBar):
    """Searches the log."""

    def __init__(self, log: LogView) -> None:
        super().__init__(log, log.buffer.query, "literal, any case")

    def use(self, text: str) -> None:
        """Search for the text."""
        self.log_view.search(text)


class FilterBar(LogBar):
    """Leaves only those lines of the log that hold a text."""

    def __init__(self, log: LogView) -> None:
        super().__init__(log, log.buffer.filter, "only lines with this, any case")

    def use(self, text: str) -> None:
        """Show only lines that hold the text."""
        self.log_view.only(text)
