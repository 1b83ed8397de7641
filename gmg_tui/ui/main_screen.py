"""The main screen: headline, workers, log, keys."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.message import Message
from textual.screen import Screen

from gmg_tui.ui.board import Board
from gmg_tui.ui.footer import Footer
from gmg_tui.ui.header import Header
from gmg_tui.ui.line import Line
from gmg_tui.ui.log_view import LogView
from gmg_tui.ui.look import Look
from gmg_tui.ui.rows import Rows
from gmg_tui.ui.state import UiState

MIN_WIDTH, MIN_HEIGHT = 60, 12
"""Columns and rows below which nothing is drawn but that there are too few."""


class MainScreen(Screen[None]):
    """Lays the widgets out, and hands what is new to them."""

    DEFAULT_CSS = """
    MainScreen { layout: vertical; overflow: hidden; }
    MainScreen > Rows { width: 100%; height: 1; }
    MainScreen > LogView { height: 1fr; }
    MainScreen > #small { display: none; height: 100%; }
    MainScreen.-small > * { display: none; }
    MainScreen.-small > #small { display: block; }
    """

    class Back(Message):
        """The screen is on top again: what was not drawn behind another is to be drawn."""

    def __init__(self, state: UiState, look: Look) -> None:
        super().__init__()
        self.state = state
        self.look = look
        self.header = Header(state, look)
        self.board = Board(state, look)
        self.log_view = LogView(look)
        self.footer = Footer(look)
        self._small = Rows(id="small")

    def compose(self) -> ComposeResult:
        """The widgets, from the top."""
        yield self.header
        yield self.board
        yield self.log_view
        yield self.footer
        yield self._small

    def on_mount(self) -> None:
        """Lay out before anything is sent."""
        self.lay_out()

    def on_resize(self) -> None:
        """Lay out for the new size."""
        self.lay_out()

    def on_screen_resume(self) -> None:
        """Catch up with what happened while another screen was on top."""
        self.draw()

    def lay_out(self) -> None:
        """Share the rows out among the widgets."""
        width, height = self.app.size
        small = width < MIN_WIDTH or height < MIN_HEIGHT
        self.set_class(small, "-small")
        if small:
            text = f"{width}x{height} is too small: at least {MIN_WIDTH}x{MIN_HEIGHT} is needed"
            self._small.show_rows([Line(self.look, width).add(text, "warn").strip()])
            return
        head = self.header.rows_needed
        self.header.styles.height = head
        self.board.lay_out(width, height - head - 1)
        if self.footer.sweep != (self.state.queue is not None):
            self.footer.sweep = not self.footer.sweep
            self.footer.draw()

    def draw(self) -> None:
        """Draw what the state says now."""
        if (
            self.header.rows_needed != self.header.size.height
            or len(self.state.slots) != self.board.slots_planned
            or self.footer.sweep != (self.state.queue is not None)
        ):
            self.lay_out()
        self.header.draw()
        self.board.draw()
        self.log_view.pace.settle()

    def wear(self, look: Look) -> None:
        """Draw all with another look."""
        self.look = look
        for widget in (self.header, self.board, self.log_view, self.footer):
            widget.look = look
            widget.draw()
