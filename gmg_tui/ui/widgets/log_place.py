"""Places in a log whose rows may be wrapped, and steps between them."""

from __future__ import annotations

from typing import NamedTuple

from gmg_tui.ui.drawing import log_line
from gmg_tui.ui.log_buffer import LogBuffer


class Place(NamedTuple):
    """A row of the screen in a log."""

    row: int
    """Index of a row of the buffer."""
    part: int
    """Which of the pieces that it is wrapped into."""


class LogPlace:
    """Finds places in `buffer`, whose rows are wrapped to `width` cells.

    Only rows between two places are looked at, which are a page's.
    """

    def __init__(self, buffer: LogBuffer, width: int) -> None:
        self._buffer = buffer
        self._width = width

    @property
    def end(self) -> Place:
        """The place after the last."""
        return Place(self._buffer.end, 0)

    def _parts(self, index: int) -> int:
        row = self._buffer.rows[index]
        return len(log_line.pieces(row, self._buffer.text_of(row), self._width))

    def back(self, place: Place, rows: int) -> Place:
        """The place so many rows of the screen above, at most the first."""
        index, part = place
        part -= rows
        while part < 0 and index > 0:
            index -= 1
            part += self._parts(index)
        return Place(index, max(0, part))

    def forth(self, place: Place, rows: int) -> Place:
        """The place so many rows of the screen below, at most the one after the last."""
        index, part = place
        part += rows
        while index < self._buffer.end and part >= (parts := self._parts(index)):
            part -= parts
            index += 1
        return Place(index, part) if index < self._buffer.end else self.end

    def part_of(self, index: int) -> int:
        """Which piece of a row the first match of the search begins in."""
        row = self._buffer.rows[index]
        return log_line.part_of(row, self._buffer.text_of(row), self._width, self._buffer.query)
