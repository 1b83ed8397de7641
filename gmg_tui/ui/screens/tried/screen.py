"""All that was tried in the session, as a table that is ordered by any of its columns."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.strip import Strip

from gmg_tui import units
from gmg_tui.model import Tried, TriedView
from gmg_tui.model.tried import fastest
from gmg_tui.source import Source
from gmg_tui.ui import keys
from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.page import Page
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.drawing.time_row import time_rows
from gmg_tui.ui.messages import UseArguments
from gmg_tui.ui.screens.dialog_base import bindings
from gmg_tui.ui.screens.page_base import PageScreen
from gmg_tui.ui.screens.tried import table
from gmg_tui.ui.state import UiState


class TriedScreen(PageScreen):
    """Shows what each set of arguments has reached, asking the engine every few seconds; the cursor stays on its row."""

    KEYS = keys.TRIED
    BINDINGS: ClassVar[list[BindingType]] = bindings(keys.TRIED)
    TAKES: ClassVar[frozenset[str]] = frozenset({"quit_session", "detach", "help", "redraw", "command_palette"})
    """No other key of the main screen may act here: the arguments are what is chosen."""

    def __init__(self, state: UiState, engine: Source, appearance: Appearance) -> None:
        super().__init__(appearance)
        self._state = state
        self._engine = engine
        self._view: TriedView | None = None
        self._rows: list[Tried] = []
        self._order = 0
        self._smallest = False
        self._at = self._top = 0
        self._room = 1
        self._rows_at = 0

    def on_mount(self) -> None:
        """Start querying the engine."""
        self.keep_asking()

    # Contents

    async def ask(self) -> None:
        """Ask what was tried and draw it."""
        view = await self._engine.tried()
        self._failure = ""
        self._view = view
        self._arrange()
        self.draw()

    def _arrange(self) -> None:
        """Put the rows in order; the cursor stays on its set of arguments, and that on its line."""
        was = self._chosen
        rows = self._view.rows if self._view is not None else ()
        self._rows = table.ordered(rows, table.ORDERS[self._order], smallest=self._smallest)
        if was is None:
            return
        same = (place for place, row in enumerate(self._rows) if table.identity(row) == table.identity(was))
        at = next(same, min(self._at, max(0, len(self._rows) - 1)))
        self._top += at - self._at
        self._at = at

    @property
    def _chosen(self) -> Tried | None:
        return self._rows[self._at] if self._at < len(self._rows) else None

    # Drawing

    def draw(self) -> None:
        """Draw all of it."""
        width, height = self.rows.size
        if height <= 0:  # not laid out yet
            return
        chosen, order = self._chosen, table.ORDERS[self._order]
        above = self._above(width)
        if chosen is None:
            text = "Waiting for the engine" if self._view is None else "Nothing has been tried yet."
            self.rows.show_rows([*above, *Page(width, self.appearance).text(text, "dim", indent=2).rows])
            return
        above.append(table.heading(width, order, self.appearance).strip())
        below = table.detail(chosen, width, self.appearance).rows
        self._rows_at = len(above)
        self._room = max(1, height - len(above) - len(below) - 1)
        self._top = max(self._at - self._room + 1, min(self._top, self._at))
        self._top = max(0, min(self._top, len(self._rows) - self._room))
        best, shown = fastest(self._rows), self._rows[self._top : self._top + self._room]
        rows = [table.row(one, width, self.appearance, chosen=one is chosen, best=one is best).strip() for one in shown]
        blank = [Row(self.appearance, width).strip()] * (height - len(above) - len(below) - len(rows))
        self.rows.show_rows([*above, *rows, *blank, *below][:height])

    def _above(self, width: int) -> list[Strip]:
        line = Row(self.appearance, width).add(" tried ", "title")
        if self._rows:
            line.end(f" {self._at + 1:,} of {len(self._rows):,} ", "dim")
            first = "smallest" if self._smallest else "largest"
            if table.ORDERS[self._order].name == "start":
                first = "oldest" if self._smallest else "newest"
            line.add(f"{units.count(len(self._rows), 'set')} of arguments", "text")
            line.add(f" by {table.ORDERS[self._order].name}, the {first} first", "text")
        page = Page(width, self.appearance).line(line)
        page.rows += time_rows(self._state, width, self.appearance)
        if self._view is not None and self._view.left_out:
            page.text(f"{self._view.left_out:,} more are not kept: they are older and slower.", "dim", indent=1)
        for text in (self._said, self._failure, self._state.message):
            if text:
                page.row(f" {self.appearance.signs.pointer}", text, "warn", label_width=3)
        return page.rows

    # Keys

    def _go(self, at: int) -> None:
        self._at = max(0, min(at, len(self._rows) - 1))
        self._say("")

    def action_move(self, step: int) -> None:
        """Select the set of arguments `step` rows further down."""
        self._go(self._at + step)

    def action_page(self, step: int) -> None:
        """Select the one a page further down, or up when `step` is -1."""
        self._go(self._at + step * max(1, self._room - 1))

    def action_edge(self, last: bool) -> None:
        """Select the first, or the last."""
        self._go(len(self._rows) - 1 if last else 0)

    def action_order(self, step: int) -> None:
        """Order the rows by the column to the right, or to the left when `step` is -1, the largest first."""
        self._order = (self._order + step) % len(table.ORDERS)
        self._smallest = False
        self._arrange()
        self._say("")

    def action_reverse(self) -> None:
        """Order the rows the other way round."""
        self._smallest = not self._smallest
        self._arrange()
        self._say("")

    def action_use(self) -> None:
        """Open the edit dialog with the selected arguments."""
        chosen = self._chosen
        if chosen is not None:
            self.post_message(UseArguments(chosen.args, chosen.env))

    async def on_click(self, event: events.Click) -> None:
        """Select the row under the mouse, a double click uses it; or sort by the column, again the other way round."""
        row = event.screen_y - self._rows_at
        if row == -1 and self._rows:
            order = table.order_at(self.rows.size.width, event.screen_x, self.appearance)
            if order is not None:
                self._smallest = order == self._order and not self._smallest
                self._order = order
                self._arrange()
                self._say("")
        elif 0 <= row < min(self._room, len(self._rows) - self._top):
            self._go(self._top + row)
            if event.chain == 2:
                await self.app.run_action("use", self)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Select the row three rows up."""
        event.stop()
        self.action_move(-3)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Select the row three rows down."""
        event.stop()
        self.action_move(3)
