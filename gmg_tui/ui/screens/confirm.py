"""A question with two answers."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from gmg_tui.ui.screens.dialog_base import Choice, Dialog, Menu, as_shown


class ConfirmScreen(Dialog[bool]):
    """Asks before something that cannot be undone. A mere `enter` means no."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c,q", "cancel", "no", show=False)]
    heading = "Sure?"
    SCROLLS: ClassVar[bool] = True

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def contents(self) -> ComposeResult:
        """The question and its answers."""
        yield Static(as_shown(self._question, self.app), markup=False)
        yield Static(" ", markup=False)
        yield Menu([Choice("n", "no", "", False), Choice("y", "yes", "", True)])

    def action_cancel(self) -> None:
        """Close with no."""
        self.dismiss(False)
