"""A widget that draws rows of cells, of which only those that changed are drawn again."""

from __future__ import annotations

from itertools import zip_longest

from textual.filter import ANSIToTruecolor
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from gmg_tui.ui.drawing.appearance import Appearance

_BLANK = Strip([], 0)


class Rows(Widget):
    """A widget that makes all of its rows for its size and theme, and refreshes those that differ from before."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[Strip] = []
        self._made_for: object = None
        """Size and theme that the rows were made for."""

    @property
    def appearance(self) -> Appearance:
        """The styles of the present theme."""
        return self.app.appearance  # type: ignore[attr-defined,no-any-return]

    def make_rows(self, width: int, height: int) -> list[Strip]:
        """All rows, from the top."""
        raise NotImplementedError

    def update_rows(self) -> None:
        """Refresh the rows that have changed; a screen under a page is drawn once it is back, one under a dialog now."""
        if not self.is_mounted or not self.size or not self.screen.is_current:
            return
        before, width = self._rows, self.size.width
        self._make()
        changed = [
            Region(0, y, width, 1)
            for y, (old, new) in enumerate(zip_longest(before, self._rows, fillvalue=_BLANK))
            if old is not new and old != new
        ]
        if changed:
            self.refresh(*changed)

    def _make(self) -> None:
        self._made_for = (self.size, self.app.theme)
        self._rows = self.make_rows(*self.size)

    def render_lines(self, crop: Region) -> list[Strip]:
        """The rows within `crop`; all are made anew for another size or theme.

        They have all their colours, and this widget no border or padding: Textual's own way makes each row again, for
        what CSS might add to it.
        """
        if self._made_for != (self.size, self.app.theme):
            self._make()
        return [self._finished(y).crop(crop.x, crop.right) for y in crop.line_range]

    def _finished(self, y: int) -> Strip:
        """A row in full width, with the characters and colours that may be sent."""
        row = self._rows[y] if y < len(self._rows) else _BLANK
        row = row.adjust_cell_length(self.size.width, self.appearance.style("text"))
        for each in self.app.get_line_filters():
            if not isinstance(each, ANSIToTruecolor):  # colours of the terminal's own are meant
                row = row.apply_filter(each, self.background_colors[1])
        return row
