"""Labelled rows of text that wraps beside its label."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from textual.content import Content

from gmg_tui.ui.drawing.page import fold
from gmg_tui.ui.drawing.row import cut
from gmg_tui.ui.screens.dialog_base import Lines, as_shown, signs_of, style

_LEAST_TEXT = 12
"""Least room for text beside its label; with less it is put under the label."""


class Entry(NamedTuple):
    """One row: a label and its text, or a heading."""

    label: str
    text: str = ""
    style: str = "text"
    """A name of `appearance.STYLES`, for the text; of a heading, for the heading."""
    most: int | None = None
    """Rows that the text may take; what is beyond is left out."""


class Entries(Lines):
    """Rows one under the other, with labels of `label_width` cells.

    Any text is safe: it is cleaned here and never parsed.
    """

    def __init__(self, rows: Iterable[Entry] = (), *, label_width: int = 14, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._entries = tuple(rows)
        self._label_width = label_width

    def show(self, rows: Iterable[Entry]) -> None:
        """Draw these rows from now on; the layout changes only with their number of lines."""
        fresh = tuple(rows)
        if fresh != self._entries:
            before = len(self.lines(self.size.width))
            self._entries = fresh
            self.refresh(layout=len(self.lines(self.size.width)) != before)

    def lines(self, width: int) -> list[Content]:
        """Those of all rows."""
        return [line for row in self._entries for line in self._wrapped(row, max(1, width))]

    def _wrapped(self, row: Entry, width: int) -> list[Content]:
        label, text = as_shown(row.label, self.app), as_shown(row.text, self.app)
        if not text:
            return [Content.styled(label, style(row.style, "bold"))]
        indent = self._label_width if width >= self._label_width + _LEAST_TEXT else 2
        folded = _bounded(text, width - indent, row.most, signs_of(self.app).ellipsis)
        lines = [Content.assemble(" " * indent, (line, style(row.style))) for line in folded]
        if cell_len(label) >= indent:
            return [Content.styled(label, style("dim")), *lines]
        head = Content.assemble((set_cell_size(label, indent), style("dim")), (folded[0], style(row.style)))
        return [head, *lines[1:]]


def _bounded(text: str, width: int, most: int | None, ellipsis: str) -> list[str]:
    """`text` in rows of `width` cells, at most `most` of them, the last one cut where there is more."""
    if most is None:
        return fold(text, width)
    rows = fold(text[: (most + 1) * max(1, width)], width)
    return rows if len(rows) <= most else [*rows[: most - 1], cut(f"{rows[most - 1]} {rows[most]}", width, ellipsis)]
