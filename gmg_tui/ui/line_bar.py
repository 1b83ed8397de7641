"""The input line above the keys, for the search in the log and the filter of the workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.widgets import Input

from gmg_tui.ui.terminal.refresh_limiter import RefreshLimiter

_PERIOD_S: Final = 0.1
"""Shortest time between two searches, seconds: pasted text comes by the thousand characters."""


class LineBar(Input):
    """Applies its text while one types; `enter` keeps it and closes the line, `escape` drops it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "drop", "Drop", show=False),
        Binding("ctrl+c", "quit", "Quit", show=False),
    ]

    def __init__(self, name: str, value: str, placeholder: str, apply: Callable[[str], object]) -> None:
        super().__init__(value, placeholder=placeholder, compact=True, name=name)
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
