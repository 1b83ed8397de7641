"""The text fields of the edit dialog."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Button, TextArea

from gmg_tui.ui.drawing.appearance import ASCII
from gmg_tui.ui.screens.dialog_base import fit_scrollbar, signs_of
from gmg_tui.ui.screens.edit import arguments
from gmg_tui.ui.terminal.key_order import KeyOrder

if TYPE_CHECKING:
    from textual.document._history import EditHistory


class Draft(NamedTuple):
    """What a field holds, with what can be undone in it."""

    text: str
    cursor: tuple[int, int]
    """Line and column."""
    history: EditHistory | None = None
    """None where nothing has been typed yet."""

    @classmethod
    def fresh(cls, text: str, cursor: int) -> Self:
        """`text` with the cursor behind so many of its characters."""
        rows = text[:cursor].split("\n")
        return cls(text, (len(rows) - 1, len(rows[-1])))


class Field(TextArea, KeyOrder):
    """A few lines of text under a title; tab leaves it, and numbers in it can be doubled and halved."""

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
        """The line as drawn: what cannot be shown is replaced, character by character."""
        line = self.document.get_line(line_index)
        ascii_only = signs_of(self.app) is ASCII
        other = "?" if ascii_only else "·"
        shown = (c if c == "\t" or (c.isprintable() and (c.isascii() or not ascii_only)) else other for c in line)
        return Text("".join(shown), end="")

    @property
    def draft(self) -> Draft:
        """What it holds now."""
        return Draft(self.text, self.cursor_location, self.history)

    def show_draft(self, draft: Draft) -> None:
        """Hold `draft` from now on."""
        self.history = replace(self.history)  # an empty one: what the text before it was made of is in its own draft
        self.load_text(draft.text)
        self.history = draft.history or self.history
        self.move_cursor(draft.cursor)

    def scale(self, factor: int) -> bool:
        """Double (2) or halve (-2) the number under the cursor. Returns whether there is one."""
        row, column = self.cursor_location
        found = arguments.scaled(self.document.get_line(row), column, factor)
        if found is None:
            return False
        start, end, text = found
        self.replace(text, (row, start), (row, end))
        self.move_cursor((row, start + len(text)))
        return True


class ArgumentsField(Field):
    """The arguments, where enter applies what is written: they are one line, however it is wrapped."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "screen.apply", "apply", show=False, priority=True)]


class Press(Button, KeyOrder):
    """A button."""

    DEFAULT_CSS = """
    Press { width: auto; min-width: 0; margin-right: 2; }
    """

    def __init__(self, label: str, action: str) -> None:
        super().__init__(Content(f"[ {label} ]"), action=action, compact=True)
