"""The fields of the edit dialog: text that is written, and the choice of one worker or all."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.style import Style
from textual.widgets import Static, TextArea

from gmg_tui.ui.in_order import InOrder
from gmg_tui.ui.look import ASCII
from gmg_tui.ui.screens import arguments
from gmg_tui.ui.screens.parts import fit_scrollbar, signs_of, style


class Field(TextArea, InOrder):
    """A text of a few lines under a title; tab leaves it, and numbers in it can be doubled and halved.

    Args:
        text: The text to begin with.
        title: What it is.
    """

    DEFAULT_CSS = """
    Field {
        height: auto;
        min-height: 3;
        max-height: 6;
        padding: 0;
        background: $surface;
        border: round $border-blurred;
        border-title-color: $text-muted;
        & .text-area--cursor-line { background: $surface; }
        &:focus { border: round $primary; border-title-color: $primary; border-title-style: bold; }
    }
    App.-ascii Field, App.-ascii Field:focus { border: ascii $primary; }
    """
    SCOPED_CSS: ClassVar[bool] = False
    """A rule that names the app stands outside the field."""

    def __init__(self, text: str, title: str, *, id: str) -> None:  # noqa: A002 - as Textual names it
        super().__init__(text, id=id, soft_wrap=True, tab_behavior="focus", show_line_numbers=False)
        self.cursor_blink = False  # a blinking cursor is traffic on a slow line
        self.border_title = Text(title)

    def on_mount(self) -> None:
        """Scroll with what the app may draw."""
        fit_scrollbar(self)

    def get_line(self, line_index: int) -> Text:
        """The line as it is drawn: each character stands for itself or has one in its place."""
        line = self.document.get_line(line_index)
        ascii_only = signs_of(self.app) is ASCII
        other = "?" if ascii_only else "·"
        shown = (c if c == "\t" or (c.isprintable() and (c.isascii() or not ascii_only)) else other for c in line)
        return Text("".join(shown), end="")

    def scale(self, factor: int) -> bool:
        """Double (2) or halve (-2) the number under the cursor. Returns whether there is one."""
        row, column = self.cursor_location
        found = arguments.scaled(self.document.get_line(row), column, factor)
        if found is None:
            return False
        self.replace(found.text, (row, found.start), (row, found.end))
        self.move_cursor((row, found.start + len(found.text)))
        return True


class Scope(Static, can_focus=True):
    """Whether one worker is meant or all of them: the arrows, the space bar or a click change it.

    Args:
        slot: The one worker's slot.
        count: How many workers there are.
    """

    DEFAULT_CSS = """
    Scope { height: auto; margin-top: 1; }
    Scope:focus { text-style: bold; color: $primary; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,up", "choose(False)", "this worker", show=False),
        Binding("right,down", "choose(True)", "all workers", show=False),
        Binding("space,enter", "turn", "change", show=False),
    ]

    class Changed(Message):
        """The other of the two is meant now."""

    def __init__(self, slot: str, count: int) -> None:
        super().__init__(markup=False)
        self.every = False
        self._slot = slot
        self._count = count

    def on_mount(self) -> None:
        """Draw the choice."""
        self._draw()

    def action_choose(self, every: bool) -> None:
        """Mean all workers, or the one."""
        if every != self.every:
            self.every = every
            self._draw()
            self.post_message(self.Changed())

    def action_turn(self) -> None:
        """Mean the other of the two."""
        self.action_choose(not self.every)

    def _draw(self) -> None:
        one, every = f"this worker ({self._slot})", f"all {self._count} workers"
        self.update(
            Content("   ").join(
                Content(f"({'*' if on else ' '}) {text}")
                .stylize(Style.from_meta({"@click": f"choose({value})"}))
                .stylize(style("text"))
                for text, value, on in ((one, False, not self.every), (every, True, self.every))
            )
        )
