"""What covers the screens in a terminal that is too small for them."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.geometry import Size

from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.page import Page
from gmg_tui.ui.keys import now
from gmg_tui.ui.screens.live import LiveScreen
from gmg_tui.ui.widgets.row_view import DrawnView

MIN_WIDTH, MIN_HEIGHT = 60, 12
"""Columns and rows that the screens need; quitting, a confirmation and the help scroll in less."""


def is_small(size: Size) -> bool:
    """Whether the screens have no room in a terminal of that size."""
    return size.width < MIN_WIDTH or size.height < MIN_HEIGHT


class SmallScreen(LiveScreen[None]):
    """Says how much is missing. Nothing acts here on a worker, because none can be seen."""

    TAKES: ClassVar[frozenset[str]] = frozenset({"quit_session", "detach", "help"})
    DEFAULT_CSS = """
    SmallScreen { overflow: hidden; & > DrawnView { height: 100%; } }
    """

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self._text = _Text(appearance)

    def compose(self) -> ComposeResult:
        """The text."""
        yield self._text

    def show_state(self) -> None:
        """Draw it."""
        self._text.draw()


class _Text(DrawnView):
    def draw(self) -> None:
        """Draw what fits."""
        width, height = self.app.size
        page = Page(width, self.appearance)
        page.text(f"{width}x{height} is too small, {MIN_WIDTH}x{MIN_HEIGHT} is needed.", "warn")
        self.show_rows(page.text(f"{now('q')} quit  {now('d')} detach  {now('?')} help", "dim").rows[:height])
