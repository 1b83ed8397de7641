"""The headline, how far the queue is, and the notices under them."""

from __future__ import annotations

from gmg_tui.ui.line import Line
from gmg_tui.ui.look import Look
from gmg_tui.ui.renderables.headline import headline
from gmg_tui.ui.renderables.notices import notices
from gmg_tui.ui.renderables.queue_row import queue_row
from gmg_tui.ui.rows import Rows
from gmg_tui.ui.state import UiState


class Header(Rows):
    """One row, in a sweep one for the queue, and one more for each notice.

    Attributes:
        message: What became of the last key, when it could not be done; empty otherwise.
        stopping: Whether the workers are being stopped so that the interface can end.
    """

    def __init__(self, state: UiState, look: Look, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.state = state
        self.look = look
        self.message = ""
        self.stopping = False

    @property
    def rows_needed(self) -> int:
        """Rows for what there is to say."""
        queue = 0 if self.state.queue is None else 1
        return 1 + queue + len(notices(self.state, message=self.message, stopping=self.stopping))

    def on_resize(self) -> None:
        """Fill the new size."""
        self.draw()

    def draw(self) -> None:
        """Draw the headline and the notices."""
        width = self.size.width
        rows = [headline(self.state, width, self.look).strip()]
        if self.state.queue is not None:
            rows.append(queue_row(self.state.queue, self.state.snapshot.elapsed_s, width, self.look).strip())
        for note in notices(self.state, message=self.message, stopping=self.stopping):
            row = Line(self.look, width).add(f" {self.look.signs.pointer} ", note.style)
            rows.append(row.add(note.text, note.style).strip())
        self.show_rows(rows)
