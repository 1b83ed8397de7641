"""A line of a worker's log: what is shown of it, and how."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.cells import chop_cells
from textual.strip import Strip

from gmg_tui.genesis.output.log_text import Severity, head, severity
from gmg_tui.ui.drawing.appearance import Appearance, safe
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.log_buffer import LogRow

_STYLES: Final = {Severity.NONE: "text", Severity.WARNING: "warn", Severity.ERROR: "error"}


def clock_first(text: str) -> str:
    """A line with the head of Genesis's lines shortened to the time, and to the level of warnings and errors."""
    found = head(text)
    if found is None:
        return safe(text)
    level = f"{found.level} " if severity(text) is not Severity.NONE else ""
    return safe(f"{found.clock} {level}{text[found.length :]}")


def style_of(row: LogRow) -> str:
    """The name of the style for a whole row."""
    return "dim" if row.gap or row.progress else _STYLES[severity(row.text)]


def wrapped(
    row: LogRow, text: str, width: int, query: str, appearance: Appearance, *, here: bool = False
) -> list[Strip]:
    """A row of the log as `text` in as many rows as it needs, each match of `query` marked.

    The query is in lower case; `here`: this row's are the present matches. How many lines are folded into the row stands
    at its right end.
    """
    rows, style, parts = [], style_of(row), pieces(row, text, width)
    marks, count = _marks(text, query), _count_of(row)
    at = 0
    for number, piece in enumerate(parts, 1):
        line, part, done = Row(appearance, width), piece, 0
        if number == len(parts):
            line.end(count, "dim")
            part = piece[: max(0, len(piece) - len(count))]
        for start, end in marks:
            begin, stop = max(start - at, done), min(end - at, len(part))
            if begin < stop:
                line.add(part[done:begin], style).add(part[begin:stop], "match-here" if here else "match")
                done = stop
        rows.append(line.add(part[done:], style).strip())
        at += len(piece)
    return rows


def _count_of(row: LogRow) -> str:
    """How many lines are folded into a row, as its end; empty where none are."""
    return f" ×{row.lines:,}" if row.lines > 1 and not row.gap else ""


def pieces(row: LogRow, text: str, width: int) -> list[str]:
    """`text` in pieces of at most `width` cells, the last with room for the count of a folded row; at least one."""
    text += " " * len(_count_of(row))
    width = max(2, width)  # the room of one wide character
    if not text.isascii():
        return chop_cells(text, width)
    return [text[at : at + width] for at in range(0, len(text), width)] or [""]


def part_of(row: LogRow, text: str, width: int, query: str) -> int:
    """The number of the piece that the first match of `query` begins in; 0 where there is none to mark."""
    marks = _marks(text, query)
    at = 0
    for number, part in enumerate(pieces(row, text, width)):
        at += len(part)
        if marks and marks[0][0] < at:
            return number
    return 0


def _marks(text: str, query: str) -> list[tuple[int, int]]:
    """Where the matches of `query` are; none where a letter's lower case is longer, so that places would be wrong."""
    lowered = text.lower()
    return list(_places(lowered, query)) if query and len(lowered) == len(text) else []


def _places(text: str, query: str) -> Iterator[tuple[int, int]]:
    at = text.find(query)
    while at >= 0:
        yield at, at + len(query)
        at = text.find(query, at + len(query))
