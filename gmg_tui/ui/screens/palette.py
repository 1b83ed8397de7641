"""The palette of commands."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.command import CommandPalette

from gmg_tui.ui.terminal.true_size import TrueSizeScreen


class Palette(CommandPalette, TrueSizeScreen[None]):
    """Textual's, which is laid out for the size that the terminal has."""

    DEFAULT_CSS = """
    Palette > Vertical { min-width: 20; }
    """
    """In a few columns its list fails, also where another screen covers it (Textual 8.2.8, `OptionList`)."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "app.quit_session", "quit", show=False, priority=True),
    ]
