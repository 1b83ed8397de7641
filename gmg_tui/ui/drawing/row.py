"""One row of cells, written from left to right; the only way from text to the screen.

Every text is cleaned here, so that nothing a worker wrote acts as terminal control, and none is ever parsed as markup,
because a `Segment` has none.
"""

from __future__ import annotations

from typing import Self

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.content import Content
from textual.strip import Strip

from gmg_tui.ui.drawing.appearance import Appearance


def cut(text: str, width: int, ellipsis: str) -> str:
    """`text` in at most `width` cells; where it is longer, `ellipsis` stands at its end."""
    if width <= 0:
        return ""
    if cell_len(text) <= width:
        return text
    if width <= len(ellipsis):
        return ellipsis[:width]
    return set_cell_size(text, width - len(ellipsis)).rstrip() + ellipsis


def fold(text: str, width: int) -> list[str]:
    """`text` in rows of at most `width` cells, broken between words; a longer word is broken where it must be."""
    return [line.plain for line in Content(text).wrap(max(2, width))]  # 2: the room of one wide character


class Row:
    """A row of a fixed width, filled from the left, with a separate part at its right end."""

    __slots__ = ("_appearance", "_left", "_right", "_right_used", "_used", "width")

    def __init__(self, appearance: Appearance, width: int) -> None:
        self.width = max(0, width)
        self._appearance = appearance
        self._left: list[Segment] = []
        self._right: list[Segment] = []
        self._used = 0
        self._right_used = 0

    @property
    def used(self) -> int:
        """Cells that are filled at the left."""
        return self._used

    @property
    def room(self) -> int:
        """Cells that are still free."""
        return self.width - self._used - self._right_used

    def add(self, text: str, style: str = "text", *, limit: int | None = None) -> Self:
        """Write `text` after what is there, cut to the room (or to `limit` cells)."""
        room = self.room if limit is None else min(limit, self.room)
        clean = self._appearance.text(text)
        length = cell_len(clean)
        if length > room:
            clean = cut(clean, room, self._appearance.signs.ellipsis)
            length = cell_len(clean)
        if clean:
            self._left.append(Segment(clean, self._appearance.style(style)))
            self._used += length
        return self

    def end(self, text: str, style: str = "text") -> Self:
        """Write `text` at the right end, left of what was written there before, if all of it fits."""
        clean = self._appearance.text(text)
        length = cell_len(clean)
        if clean and length <= self.room:
            self._right.insert(0, Segment(clean, self._appearance.style(style)))
            self._right_used += length
        return self

    def to(self, column: int, fill: str = " ", style: str = "text") -> Self:
        """Continue at `column`, or where the text ends if that is further."""
        gap = min(column - self._used, self.room)
        return self.add(fill * gap, style) if gap > 0 else self

    def right(self, text: str, column: int, style: str = "text") -> Self:
        """Write `text` so that it ends before `column`, for columns of numbers."""
        clean = self._appearance.text(text)
        return self.to(column - cell_len(clean)).add(clean, style)

    def segments(self, fill: str = " ", style: str = "text") -> list[Segment]:
        """The row in full width, with `fill` between left and right."""
        gap = self.room
        middle = [Segment(fill * gap, self._appearance.style(style))] if gap > 0 else []
        return [*self._left, *middle, *self._right]

    def strip(self, fill: str = " ", style: str = "text") -> Strip:
        """The row as a strip."""
        return Strip(self.segments(fill, style), self.width)
