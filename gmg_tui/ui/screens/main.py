"""The main screen: headline, workers, log, keys."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.events import Key

from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.screens.live import LiveScreen
from gmg_tui.ui.state import UiState
from gmg_tui.ui.widgets.footer import MainFooter
from gmg_tui.ui.widgets.grid import Grid
from gmg_tui.ui.widgets.header import Header
from gmg_tui.ui.widgets.log_view import LogView


class MainScreen(LiveScreen[None]):
    """Lays out the widgets and has them drawn."""

    DEFAULT_CSS = """
    MainScreen { layout: vertical; overflow: hidden; }
    MainScreen > RowView { width: 100%; height: 1; }
    MainScreen > LogView { height: 1fr; }
    """

    def __init__(self, state: UiState, appearance: Appearance) -> None:
        super().__init__()
        self.state = state
        self.appearance = appearance
        self.header = Header(state, appearance)
        self.grid = Grid(state, appearance)
        self.log_view = LogView(appearance, state.session.spec.name)
        self.footer = MainFooter(state, appearance, lambda: self.log_view.buffer)

    def compose(self) -> ComposeResult:
        """The widgets, from the top."""
        yield from (self.header, self.grid, self.log_view, self.footer)

    def on_mount(self) -> None:
        """Lay out before anything is sent."""
        self.lay_out()

    def on_resize(self) -> None:
        """Lay out for the new size."""
        self.lay_out()

    def on_log_searched(self) -> None:
        """Have the footer say what `esc` ends."""
        self.footer.draw()

    def on_screen_resume(self) -> None:
        """Catch up with what happened while another screen was on top."""
        self.show_state()

    def on_key(self, event: Key) -> None:
        """Stop a key that does nothing here: the app, to which it would go on, may have opened a dialog meanwhile."""
        event.stop()

    def lay_out(self) -> None:
        """Distribute the rows among the widgets."""
        width, height = self.app.size
        head = self.header.rows_needed
        self.header.styles.height = head
        self.grid.lay_out(width, height - head - 1)

    def show_state(self) -> None:
        """Draw what the state says now."""
        rows_fit = self.header.rows_needed == self.header.size.height
        if not rows_fit or self.state.shape != self.grid.shape_planned:
            self.lay_out()
        self.header.draw()
        self.grid.draw()
        self.footer.draw()
        self.log_view.pace.settle()

    def wear(self, appearance: Appearance) -> None:
        """Draw all in another appearance."""
        self.appearance = appearance
        for widget in (self.header, self.grid, self.log_view, self.footer):
            widget.appearance = appearance
            widget.draw()
