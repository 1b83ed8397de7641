"""Which workers an edit is of, as a line of choices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.style import Style
from textual.widgets import Static

from gmg_tui.ui.screens.dialog_base import style
from gmg_tui.ui.state import Scope
from gmg_tui.ui.terminal.key_order import KeyOrder


class ScopeChoice(Static, KeyOrder, can_focus=True):
    """One of several scopes: the arrows, the space bar or a click choose another; enter applies the dialog.

    `labels` are the scopes to choose from, in order, each with its words.
    """

    DEFAULT_CSS = """
    ScopeChoice { height: auto; margin-top: 1; }
    ScopeChoice:focus { text-style: bold; color: $primary; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,up", "step(-1)", "before", show=False),
        Binding("right,down", "step(1)", "after", show=False),
        Binding("space", "turn", "next", show=False),
        Binding("enter", "screen.apply", "apply", show=False),
    ]

    class Changed(Message):
        """Another scope is meant now."""

    def __init__(self, labels: Mapping[Scope, str], chosen: Scope) -> None:
        super().__init__(markup=False)
        self.chosen = chosen
        self._labels = dict(labels)

    def on_mount(self) -> None:
        """Draw the choice."""
        self._draw()

    def action_choose(self, name: str) -> None:
        """Mean the scope with that value."""
        if name != self.chosen:
            self.chosen = Scope(name)
            self._draw()
            self.post_message(self.Changed())

    def action_step(self, step: int) -> None:
        """Mean the next scope, or the one before, up to the last."""
        scopes = list(self._labels)
        self.action_choose(scopes[max(0, min(scopes.index(self.chosen) + step, len(scopes) - 1))])

    def action_turn(self) -> None:
        """Mean the next scope, after the last one the first."""
        scopes = list(self._labels)
        self.action_choose(scopes[(scopes.index(self.chosen) + 1) % len(scopes)])

    def _draw(self) -> None:
        self.update(
            Content("   ").join(
                Content(f"({'*' if scope is self.chosen else ' '}) {text}")
                .stylize(Style.from_meta({"@click": f"choose({scope.value!r})"}))
                .stylize(style("text"))
                for scope, text in self._labels.items()
            )
        )
