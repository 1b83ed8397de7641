"""A page of rows, written from the top: headings, labelled texts that wrap, tables. Pure functions, no widget."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple, Self

from rich.cells import cell_len, chop_cells
from textual.strip import Strip

from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.row import Row

LABEL_WIDTH: Final = 14
"""Cells that labels take."""
_WORD: Final = re.compile(r"^\s+|\S+\s*")


def fold(text: str, width: int) -> list[str]:
    """`text` in rows of at most `width` cells, broken between words; a longer word is broken where it must be."""
    width = max(2, width)  # the room of one wide character
    rows: list[str] = []
    row = ""
    for word in _WORD.findall(text):
        if row and cell_len(row) + cell_len(word.rstrip()) > width:
            rows.append(row.rstrip())
            row = ""
        if row or cell_len(word.rstrip()) <= width:
            row += word
        else:
            *full, row = chop_cells(word, width)
            rows += full
    return [*rows, row.rstrip()]


class Column(NamedTuple):
    """A column of a table."""

    heading: str
    width: int
    """Cells, without the two between columns; 0, in the last column only, for all that is left."""
    metrics: bool = True
    """Whether it is right-aligned, as numbers are."""


class Page:
    """Rows of one width, one under the other. Any text is safe: `Row` cleans it."""

    def __init__(self, width: int, appearance: Appearance) -> None:
        self.width = max(1, width)
        self.appearance = appearance
        self.rows: list[Strip] = []

    def line(self, line: Row) -> Self:
        """Add a row that is written already."""
        self.rows.append(line.strip())
        return self

    def gap(self) -> Self:
        """Add an empty row, unless nothing is above it."""
        return self.line(Row(self.appearance, self.width)) if self.rows else self

    def heading(self, text: str) -> Self:
        """Start a section titled `text`."""
        return self.gap().line(Row(self.appearance, self.width).add(text, "title"))

    def text(self, text: str, style: str = "text", *, indent: int = 0) -> Self:
        """Add a text that wraps."""
        return self.row("", text, style, label_width=indent)

    def row(self, label: str, text: str, style: str = "text", *, label_width: int = LABEL_WIDTH) -> Self:
        """Add a label with a text that wraps beside it."""
        at = min(label_width, self.width // 2)
        for number, part in enumerate(fold(self.appearance.text(text), self.width - at)):
            line = Row(self.appearance, self.width)
            if number == 0 and at:
                line.add(label, "dim", limit=at - 1)
            self.line(line.to(at).add(part, style))
        return self

    def headings(self, columns: Sequence[Column], *, indent: int = 0) -> Self:
        """Add the headings of a table."""
        return self.cells(columns, [column.heading for column in columns], "dim", indent=indent)

    def cells(
        self, columns: Sequence[Column], texts: Sequence[str], style: str = "text", *, lead: str = "", indent: int = 0
    ) -> Self:
        """Add a row of a table; `lead` stands in the `indent` cells before it."""
        line = Row(self.appearance, self.width).add(lead, style, limit=indent)
        at = indent
        for column, text in zip(columns, texts, strict=True):
            if column.metrics:
                line.right(text, at + column.width, style)
            else:
                line.to(at).add(text, style, limit=column.width or None)
            at += column.width + 2
        return self.line(line)
