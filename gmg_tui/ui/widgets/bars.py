"""The input lines above the keys: search the log, filter the log, filter the workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input

from gmg_tui.ui.terminal.refresh_limiter import RefreshLimiter
from gmg_tui.ui.widgets.log_view import LogView

_PERIOD_S = 0.1
"""Shortest time between two searches, seconds: pasted text comes by the thousand characters."""


class LineBar(Input):
    """Applies its text while one types; `enter` keeps it and closes the line, `escape` drops it."""

    DEFAULT_CSS = """
    LineBar { height: 1; border: none; padding: 0 1; &:focus { border: none; } }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "drop", "Drop", show=False),
        Binding("ctrl+c", "quit", "Quit", show=False),
    ]

    def __init__(self, value: str, placeholder: str, apply: Callable[[str], object]) -> None:
        super().__init__(value, placeholder=placeholder, compact=True)
        self.cursor_blink = False  # a blinking cursor is traffic on a slow line
        self._apply = apply
        self._pace = RefreshLimiter(self, lambda: self._apply(self.value), _PERIOD_S)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Apply the present text."""
        event.stop()
        self._pace.ask()

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the text."""
        event.stop()
        self._pace.settle()
        await self.remove()

    async def action_quit(self) -> None:
        """Close the line, and quit as everywhere."""
        await self.remove()
        await self.app.run_action("quit_session")

    async def action_drop(self) -> None:
        """Drop the text."""
        self.value = ""
        self._apply("")
        await self.remove()


class SearchBar(LineBar):
    """Searches the log."""

    def __init__(self, log: LogView) -> None:
        super().__init__(log.buffer.query, "search the log", log.search)


class FilterBar(LineBar):
    """Shows only the log's lines that contain a text."""

    def __init__(self, log: LogView) -> None:
        super().__init__(log.buffer.filter, "show only lines that contain this", log.filter)


class WorkerFilterBar(LineBar):
    """Shows only the workers that have all words."""

    def __init__(self, text: str, apply: Callable[[str], object]) -> None:
        hint = "words of the workers to show: gpu1 failed, state:running, job:…, group:…, reason:…, slot:gpu1*"
        super().__init__(text, hint, apply)
