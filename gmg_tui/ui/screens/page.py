"""What the screens over the main one share that fill the terminal: rows, and the keys under them."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.screen import Screen

from gmg_tui.ui.look import Look
from gmg_tui.ui.screens.parts import look_of


class Page(Screen[None]):
    """A screen that is drawn anew when the theme changes, and left with `esc`.

    Args:
        look: Styles and signs.
    """

    DEFAULT_CSS = """
    Page {
        layout: vertical;
        overflow: hidden;
        & > Rows { height: 1fr; }
        & > .foot { height: auto; color: $text-muted; link-style: none; link-style-hover: bold; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "app.quit_session", "quit", show=False)]

    def __init__(self, look: Look) -> None:
        super().__init__()
        self.look = look
        self._said = ""
        """What became of the last key."""
        self._failure = ""
        """Why what is shown may be old."""

    def on_mount(self) -> None:
        """Follow the theme."""
        self.app.theme_changed_signal.subscribe(self, lambda _: self._wear())

    def draw(self) -> None:
        """Draw all of it."""
        raise NotImplementedError

    def _say(self, text: str) -> None:
        self._said = text
        self.draw()

    def _fail(self, text: str) -> None:
        self._failure = text
        self.draw()

    def _wear(self) -> None:
        self.look = look_of(self.app)
        self.draw()

    def action_back(self) -> None:
        """Return to the screen before."""
        self.dismiss(None)
