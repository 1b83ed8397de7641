"""Plain-text tables for standard output: the one place that aligns columns and cuts cells to a width.

Widths are counted in terminal columns, of which CJK characters and emoji take two.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

GAP = 2
"""Spaces between two columns."""


def text_width(text: str) -> int:
    """The width of `text` (Unicode Standard Annex #11)."""
    return len(text) if text.isascii() else sum(map(_char_width, text))


def _char_width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def width(cells: Sequence[str]) -> int:
    """The width of a column with these cells."""
    return max(map(text_width, cells), default=0)


def cut(text: str, limit: int) -> str:
    """`text` in at most `limit` columns, with an ellipsis where something is missing."""
    if text_width(text) <= limit:
        return text
    room = limit - 1
    for end, char in enumerate(text):
        room -= _char_width(char)
        if room < 0:
            return f"{text[:end]}…"
    return text


def lines(
    rows: Sequence[Sequence[str]], align: str, *, style: Callable[[int, int, str], str] = lambda row, column, cell: cell
) -> list[str]:
    """The lines of a table, each column as wide as its widest cell.

    Args:
        rows: The cells; a header is a row like any other.
        align: A letter for each column: `l` for text, `r` for numbers.
        style: Given a cell's row, column and text, returns the text with the escape sequences that colour it.
    """
    widths = [width(column) for column in zip(*rows, strict=True)]
    drawn = []
    for number, row in enumerate(rows):
        cells = []
        for column, cell in enumerate(row):
            padding = " " * (widths[column] - text_width(cell))
            styled = style(number, column, cell)
            cells.append(styled + padding if align[column] == "l" else padding + styled)
        drawn.append((" " * GAP).join(cells).rstrip())
    return drawn
