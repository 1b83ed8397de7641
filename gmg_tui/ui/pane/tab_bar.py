"""The row of tabs above the pane, with the state of what is shown at its right end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from textual.events import Click
from textual.message import Message

from gmg_tui.ui.drawing import SIGNS, Piece, Row, cut
from gmg_tui.ui.rows import Rows
from gmg_tui.ui.view import Tab, View

_GAPS = (3, 2, 1)
"""Cells between two tabs; the first that leaves room for the status."""
_STATUS_CELLS = 22
_URGENT = frozenset({"warn", "strong"})
"""Styles of states that take room from the tabs."""


class TabBar(Rows):
    """The names of the tabs."""

    DEFAULT_CSS = "TabBar { height: 1; }"

    class Clicked(Message):
        """A tab has been clicked."""

        def __init__(self, tab: Tab) -> None:
            super().__init__()
            self.tab = tab

    def __init__(self, view: View, status: Callable[[], Sequence[Piece]]) -> None:
        super().__init__()
        self._view = view
        self._status = status

    def _placed(self, width: int) -> Iterator[tuple[int, Tab, str]]:
        """Yields the column, the tab and the name of each tab that is drawn; the active one always is."""
        names = {tab: tab.value for tab in Tab}
        if events := self._view.snapshot.events:
            names[Tab.EVENTS] += f" {events:,}"
        needed = sum(map(len, names.values())) + _STATUS_CELLS
        gap = next((gap for gap in _GAPS if needed + gap * (len(names) + 1) <= width), 1)
        width -= 1 + sum(len(text) + 2 for text, style in self._status() if style in _URGENT)
        first, tabs = 0, list(names)
        while (
            first < tabs.index(self._view.tab)
            and gap + sum(len(names[tab]) + gap for tab in tabs[first : tabs.index(self._view.tab) + 1]) > width
        ):
            first += 1
        column = gap
        for tab in tabs[first:]:
            if column + len(names[tab]) > width and tab is not self._view.tab:
                return
            yield column, tab, names[tab]
            column += len(names[tab]) + gap

    def make_rows(self, width: int, height: int) -> Sequence[Row]:
        """Returns the one row."""
        row = Row(width, SIGNS.line[0], "border")
        for column, tab, name in self._placed(width):
            free = column - row.used
            row.add(f" {SIGNS.line[0] * (free - 2)} " if free > 2 else " " * free, "border")
            row.add(name, "tab" if tab is self._view.tab else "dim")
        row.add(" ")
        for text, style in self._status():  # the most important first
            text = cut(text, row.room - 2) if style in _URGENT else text
            row.end(f" {text} " if text else "", style)
        return [row]

    def on_click(self, event: Click) -> None:
        """Reports the tab under the mouse."""
        for column, tab, name in self._placed(self.size.width):
            if column <= event.x < column + len(name):
                self.post_message(self.Clicked(tab))
