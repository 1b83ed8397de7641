"""The widget that all of the main screen stands on: rows of cells, of which only those that changed are drawn again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from textual.filter import ANSIToTruecolor
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from gmg_tui.ui.drawing.appearance import Appearance

_BLANK = Strip([], 0)


class RowView(Widget, inherit_bindings=False):
    """A widget that is given its rows.

    A widget's `refresh` without a region draws all of it again; here only the rows that changed are marked, and the
    terminal differ finds their changed cells.
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - as Textual names it
        super().__init__(id=id)
        self._rows: list[Strip] = []

    def show_rows(self, rows: Sequence[Strip]) -> None:
        """Draw `rows` from now on, the first at the top."""
        width, regions = max(1, self.size.width), []
        for y, (old, new) in enumerate(zip_longest(self._rows, rows, fillvalue=_BLANK)):
            if old is not new and old != new:
                regions.append(Region(0, y, width, 1))
        self._rows = list(rows)
        if regions:
            self.refresh(*regions)

    def render_lines(self, crop: Region) -> list[Strip]:
        """The rows within `crop`, as they are: a row has all its colours, and this widget no border or padding.

        Textual's own way would make each row anew, for what CSS might add to it.
        """
        width, left, right = self.size.width, crop.x, crop.right
        filters = [each for each in self.get_line_filters() if not isinstance(each, ANSIToTruecolor)]
        strips = []
        for y in crop.line_range:
            row = self._rows[y] if y < len(self._rows) else _BLANK
            if row.cell_length != width:
                row = row.adjust_cell_length(width, self.rich_style)
            for each in filters:
                row = row.apply_filter(each, self.background_colors[1])
            strips.append(row if (left, right) == (0, width) else row.crop(left, right))
        return strips


class DrawnView(RowView, inherit_bindings=False):
    """Rows that are drawn for a size and an appearance.

    A size that they are not drawn for is filled when it is painted. Textual tells of a size only behind the frame that
    has it first (`Resize`), which would be blank, and the right one an interval of its updates later.
    """

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self.appearance = appearance
        self._painting = False
        self._size_drawn: Size | None = None

    def show_rows(self, rows: Sequence[Strip]) -> None:
        """Draw `rows` from now on, the first at the top."""
        self._size_drawn = self.size
        if self._painting:
            self._rows = list(rows)
        else:
            super().show_rows(rows)

    def render_lines(self, crop: Region) -> list[Strip]:
        """The rows within `crop`, drawn for the size that the widget has."""
        if self.size != self._size_drawn:
            self._painting = True
            try:
                self.draw()
            finally:
                self._painting = False
        return super().render_lines(crop)

    def draw(self) -> None:
        """Draw all of it."""
        raise NotImplementedError
