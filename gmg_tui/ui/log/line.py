"""A row of the log as it is drawn: wrapped, coloured by its severity, with the matches of a search marked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.cells import chop_cells
from textual.strip import Strip

from gmg_tui.genesis.output.log_text import Severity, severity
from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.log.buffer import LogRow

_STYLES: Final = {Severity.NONE: "text", Severity.WARNING: "warn", Severity.ERROR: "error"}


def style_of(row: LogRow) -> str:
    """The name of the style for a whole row."""
    return "dim" if row.gap or row.progress else _STYLES[severity(row.text)]


def wrapped(row: LogRow, width: int, query: str, appearance: Appearance, *, here: bool = False) -> list[Strip]:
    """A row of the log in as many rows of the screen as it needs, each match of `query` marked.

    The query is in lower case; `here`: this row's are the present matches. How many lines the row stands for is at its
    right end.
    """
    text, style, strips = row.shown, style_of(row), []
    parts, marks, count, start = pieces(row, width), _marks(text, query), _count_of(row), 0
    for number, piece in enumerate(parts, 1):
        line, done = Row(appearance, width), 0
        if number == len(parts):
            line.end(count, "dim")
            piece = piece[: max(0, len(piece) - len(count))]
        for first, last in marks:
            begin, stop = max(first - start, done), min(last - start, len(piece))
            if begin < stop:
                line.add(piece[done:begin], style).add(piece[begin:stop], "match-here" if here else "match")
                done = stop
        strips.append(line.add(piece[done:], style).strip())
        start += len(piece)
    return strips


def _count_of(row: LogRow) -> str:
    """How many lines a row stands for, as its end; empty for one."""
    return f" ×{row.lines:,}" if row.lines > 1 and not row.gap else ""


def pieces(row: LogRow, width: int) -> list[str]:
    """The row's text in pieces of at most `width` cells, the last with room for its count; at least one."""
    text, width = row.shown + " " * len(_count_of(row)), max(2, width)  # 2: the room of one wide character
    if not text.isascii():
        return chop_cells(text, width)
    return [text[start : start + width] for start in range(0, len(text), width)] or [""]


def part_of(row: LogRow, width: int, query: str) -> int:
    """The number of the piece that the first match of `query` begins in; 0 where there is none to mark."""
    marks, end = _marks(row.shown, query), 0
    for number, part in enumerate(pieces(row, width)):
        end += len(part)
        if marks and marks[0][0] < end:
            return number
    return 0


def _marks(text: str, query: str) -> list[tuple[int, int]]:
    """Where the matches of `query` are; none where a letter's lower case is longer, so that indices would be wrong."""
    lowered = text.lower()
    return list(_found(lowered, query)) if query and len(lowered) == len(text) else []


def _found(text: str, query: str) -> Iterator[tuple[int, int]]:
    start = text.find(query)
    while start >= 0:
        yield start, start + len(query)
        start = text.find(query, start + len(query))
