"""The headline, the progress of the queue, a line for each group, the notices, and how the workers are sorted."""

from __future__ import annotations

from textual import events
from textual.message import Message
from textual.strip import Strip

from gmg_tui.ui.drawing.arrangement_row import arrangement_row
from gmg_tui.ui.drawing.groups import group_rows, shown_groups
from gmg_tui.ui.drawing.headline import headline
from gmg_tui.ui.drawing.notices import notices
from gmg_tui.ui.drawing.queue_row import queue_row
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.view import View
from gmg_tui.ui.widgets.rows import Rows

_ROWS_BESIDE, _ROWS_FOR_GROUP = 12, 3
"""Rows of a terminal that are not for groups' lines, and how many of the others there must be for each of them."""


def most_groups(height: int) -> int:
    """How many groups may have a line in a terminal of so many rows."""
    return max(1, (height - _ROWS_BESIDE) // _ROWS_FOR_GROUP)


def header_height(view: View, height: int) -> int:
    """Rows of the header in a terminal of so many rows."""
    groups = min(len(view.snapshot.groups), most_groups(height))
    return 1 + (view.queue is not None) + groups + len(notices(view)) + (not view.arrangement.plain)


class Header(Rows):
    """One row, in a sweep one for the queue, one for each group, one for each notice, and one for a filter or order."""

    DEFAULT_CSS = "Header { width: 100%; }"

    class GroupClicked(Message):
        """A group's line has been clicked."""

        def __init__(self, slot: str) -> None:
            super().__init__()
            self.slot = slot
            """Of its first rank that is shown."""

    def __init__(self, view: View) -> None:
        super().__init__()
        self._view = view

    def on_mount(self) -> None:
        """Take as many rows as there are before the first frame."""
        self._set_height()

    def _set_height(self) -> None:
        self.styles.height = header_height(self._view, self.app.size.height)

    def update_rows(self) -> None:
        """Refresh what has changed, and take as many rows as there are now."""
        self._set_height()
        super().update_rows()

    def make_rows(self, width: int, height: int) -> list[Strip]:
        """The headline and what is below it."""
        view, look = self._view, self.appearance
        rows = [headline(view, width, look)]
        if view.queue is not None:
            rows.append(queue_row(view.queue, view.snapshot.elapsed_s, width, look))
        if groups := view.snapshot.groups:
            rows += group_rows(groups, view.chosen, most_groups(self.app.size.height), width, look)
        for note in notices(view):
            rows.append(Row(look, width).add(f" {look.signs.pointer} ", note.style).add(note.text, note.style))
        if not view.arrangement.plain:
            rows.append(arrangement_row(view, width, look))
        return [row.strip() for row in rows]

    def on_click(self, event: events.Click) -> None:
        """Select the first worker of the group under the mouse."""
        view = self._view
        groups = shown_groups(view.snapshot.groups, view.chosen, most_groups(self.app.size.height))
        row = event.y - 1 - (view.queue is not None)
        if 0 <= row < len(groups):
            slot = next((slot for slot in groups[row].slots if slot in view.slots), None)
            if slot is not None:
                self.post_message(self.GroupClicked(slot))
