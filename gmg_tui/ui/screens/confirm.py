"""A question with two answers."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from gmg_tui.ui.screens.parts import Choice, Dialog, Menu, as_shown


class ConfirmScreen(Dialog[bool]):
    """Asks whether to do what cannot be undone. `enter` at once means no.

    Args:
        question: What is asked, in one sentence; any text.
        yes: What is done then.
        no: What is done otherwise.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c,q", "cancel", "no", show=False)]

    def __init__(self, question: str, yes: str = "yes", no: str = "no") -> None:
        super().__init__()
        self._question = question
        self._yes = yes
        self._no = no

    def heading(self) -> str:
        """What every such question comes to."""
        return "Sure?"

    def contents(self) -> ComposeResult:
        """The question and its answers."""
        yield Static(as_shown(self._question, self.app), markup=False)
        yield Static(" ", markup=False)
        yield Menu([Choice("n", self._no, "", False), Choice("y", self._yes, "", True)])

    @on(Menu.Taken)
    def answer(self, event: Menu.Taken) -> None:
        """Close with the answer."""
        self.dismiss(event.value)

    def action_cancel(self) -> None:
        """Close with no."""
        self.dismiss(False)
