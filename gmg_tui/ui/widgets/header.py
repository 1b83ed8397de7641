"""The headline, the progress of the queue, and the notices under them."""

from __future__ import annotations

from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.headline import headline
from gmg_tui.ui.drawing.notices import notices
from gmg_tui.ui.drawing.queue_row import queue_row
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.state import UiState
from gmg_tui.ui.widgets.row_view import DrawnView


class Header(DrawnView):
    """One row, in a sweep one for the queue, and one more for each notice."""

    def __init__(self, state: UiState, appearance: Appearance) -> None:
        super().__init__(appearance)
        self.state = state

    @property
    def rows_needed(self) -> int:
        """Rows that all of it takes."""
        return 1 + (self.state.queue is not None) + len(notices(self.state))

    def draw(self) -> None:
        """Draw the headline and the notices."""
        width = self.size.width
        rows = [headline(self.state, width, self.appearance).strip()]
        if self.state.queue is not None:
            rows.append(queue_row(self.state.queue, self.state.snapshot.elapsed_s, width, self.appearance).strip())
        for note in notices(self.state):
            row = Row(self.appearance, width).add(f" {self.appearance.signs.pointer} ", note.style)
            rows.append(row.add(note.text, note.style).strip())
        self.show_rows(rows)
