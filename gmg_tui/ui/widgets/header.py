"""The headline, the place in time of what is looked back on, the progress of the queue, a line for each group, the notices, and how the workers are arranged."""

from __future__ import annotations

from textual import events

from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.arrangement_row import arrangement_row
from gmg_tui.ui.drawing.groups import group_rows, shown_groups
from gmg_tui.ui.drawing.headline import headline
from gmg_tui.ui.drawing.notices import notices
from gmg_tui.ui.drawing.queue_row import queue_row
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.drawing.time_row import time_row
from gmg_tui.ui.messages import SelectionChanged
from gmg_tui.ui.state import UiState
from gmg_tui.ui.widgets.row_view import DrawnView

_ROWS_BESIDE, _ROWS_FOR_GROUP = 12, 3
"""Rows of a terminal that are not for groups' lines, and how many of the others there must be for each of them."""


class Header(DrawnView):
    """One row, in the past one for its place in time, in a sweep one for the queue, one for each group that there is room for, one for each notice, and one for a filter or an order."""

    def __init__(self, state: UiState, appearance: Appearance) -> None:
        super().__init__(appearance)
        self.state = state

    @property
    def rows_needed(self) -> int:
        """Rows that all of it takes."""
        groups = min(len(self.state.snapshot.groups), self._most_groups)
        return (
            1
            + (self.state.looked is not None)
            + (self.state.queue is not None)
            + groups
            + len(notices(self.state))
            + (not self.state.arrangement.plain)
        )

    @property
    def _most_groups(self) -> int:
        """How many groups may have a line, which takes room from the log."""
        return max(1, (self.app.size.height - _ROWS_BESIDE) // _ROWS_FOR_GROUP)

    def on_click(self, event: events.Click) -> None:
        """Select the first worker of the group under the mouse."""
        groups = shown_groups(self.state.snapshot.groups, self.state.chosen, self._most_groups)
        row = event.y - 1 - (self.state.looked is not None) - (self.state.queue is not None)
        if 0 <= row < len(groups):
            slot = next((slot for slot in groups[row].slots if slot in self.state.slots), None)
            if slot is not None and self.state.choose(slot):
                self.post_message(SelectionChanged())

    def draw(self) -> None:
        """Draw the headline and the notices."""
        width = self.size.width
        rows = [headline(self.state, width, self.appearance).strip()]
        if self.state.looked is not None:
            rows.append(time_row(self.state.looked, width, self.appearance, over=self.state.over).strip())
        if self.state.queue is not None:
            rows.append(queue_row(self.state.queue, self.state.snapshot.elapsed_s, width, self.appearance).strip())
        if groups := self.state.snapshot.groups:
            lines = group_rows(groups, self.state.chosen, self._most_groups, width, self.appearance)
            rows += [line.strip() for line in lines]
        for note in notices(self.state):
            row = Row(self.appearance, width).add(f" {self.appearance.signs.pointer} ", note.style)
            rows.append(row.add(note.text, note.style).strip())
        if not self.state.arrangement.plain:
            rows.append(arrangement_row(self.state, width, self.appearance).strip())
        self.show_rows(rows)
