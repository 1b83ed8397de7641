"""The widget that all of the main screen stands on: rows of cells, of which only those that changed are drawn again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

_BLANK = Strip([], 0)


class Rows(Widget, inherit_bindings=False):
    """A widget that is given its rows.

    A widget's `refresh` without a region draws and sends all of it again. Here each row is held beside the one before,
    and only the cells from the first to the last difference are marked.
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - as Textual names it
        super().__init__(id=id)
        self._rows: list[Strip] = []

    def show_rows(self, rows: Sequence[Strip]) -> None:
        """Draw `rows` from now on, the first at the top."""
        regions = []
        for y, (old, new) in enumerate(zip_longest(self._rows, rows, fillvalue=_BLANK)):
            span = changed(old, new)
            if span is not None:
                start, end = span
                regions.append(Region(start, y, max(1, end - start), 1))
        self._rows = list(rows)
        if regions:
            self.refresh(*regions)

    def render_line(self, y: int) -> Strip:
        """The row `y`, cut or filled to the widget's width."""
        row = self._rows[y] if y < len(self._rows) else _BLANK
        width = self.size.width
        return row.adjust_cell_length(width, self.rich_style) if row.cell_length != width else row


def changed(old: Strip, new: Strip) -> tuple[int, int] | None:
    """The cells from the first to behind the last in which two rows differ; None when they are the same."""
    if old is new or old == new:
        return None
    before, after = list(old), list(new)
    start = _same(before, after)
    tail = _same([_mirrored(s) for s in reversed(before)], [_mirrored(s) for s in reversed(after)])
    end = max(old.cell_length, new.cell_length)
    if old.cell_length == new.cell_length:
        end = max(start, end - tail)
    return start, end


def _mirrored(segment: Segment) -> Segment:
    return Segment(segment.text[::-1], segment.style)


def _same(before: list[Segment], after: list[Segment]) -> int:
    """How many cells are the same from the left, where all characters are one cell wide up to there."""
    cells = 0
    for old, new in zip(before, after, strict=False):
        if old == new:
            cells += old.cell_length
            continue
        if old.style == new.style:
            common = 0
            for one, other in zip(old.text, new.text, strict=False):
                if one != other:
                    break
                common += 1
            cells += Segment(old.text[:common]).cell_length
        break
    return cells
