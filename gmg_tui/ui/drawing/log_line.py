"""A line of a worker's log: what is shown of it, and how."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.cells import cell_len, chop_cells
from textual.strip import Strip

from gmg_tui.genesis.output.log_text import Severity, head, severity
from gmg_tui.ui.drawing.appearance import ASCII, Appearance
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.log_buffer import LogRow

_STYLES: Final = {Severity.NONE: "text", Severity.WARNING: "warn", Severity.ERROR: "error"}


def shown_text(text: str, appearance: Appearance, *, whole: bool) -> str:
    """What is shown of a line: unless `whole`, the head of a line of Genesis is shortened to the time.

    A warning or an error also has its level's name there, any line where only ASCII is drawn.
    """
    found = None if whole else head(text)
    if found is not None:
        named = appearance.signs is ASCII or severity(text) is not Severity.NONE
        text = f"{found.clock} {f'{found.level} ' if named else ''}{text[found.length :]}"
    return appearance.text(text)


def style_of(row: LogRow) -> str:
    """The name of the style for a whole row."""
    return "dim" if row.gap or row.progress else _STYLES[severity(row.text)]


def log_line(
    row: LogRow, text: str, width: int, offset: int, query: str, appearance: Appearance, *, here: bool = False
) -> Strip:
    """A row of the log as `text`, with `offset` cells scrolled out at the left, and each match of `query` marked.

    The query is in lower case; `here` says that this row's are the present matches. How many lines are folded into the
    row stands at its right end.
    """
    line = Row(appearance, width).end(_count_of(row), "dim")
    return _write(line, _from_cell(text, offset if not row.gap else 0), query, style_of(row), here=here).strip()


def wrapped(
    row: LogRow, text: str, width: int, query: str, appearance: Appearance, *, here: bool = False
) -> list[Strip]:
    """A row of the log as `text` in as many rows as it needs, each match of `query` marked as `log_line` does."""
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


def span_of(text: str, query: str) -> tuple[int, int] | None:
    """The cells of the first match of `query`, from the first to behind the last; None where there is none to mark."""
    for at, end in _marks(text, query):
        start = cell_len(text[:at])
        return start, start + cell_len(text[at:end])
    return None


def _from_cell(text: str, offset: int) -> str:
    """`text` without its first `offset` cells; of a wide character that is cut in two, a space is left."""
    if text.isascii():
        return text[offset:]
    for number, character in enumerate(text):
        if offset <= 0:
            return " " * -offset + text[number:]
        offset -= cell_len(character)
    return ""


def _marks(text: str, query: str) -> list[tuple[int, int]]:
    """Where the matches of `query` are; none where a letter's lower case is longer, so that places would be wrong."""
    lowered = text.lower()
    return list(_places(lowered, query)) if query and len(lowered) == len(text) else []


def _places(text: str, query: str) -> Iterator[tuple[int, int]]:
    at = text.find(query)
    while at >= 0:
        yield at, at + len(query)
        at = text.find(query, at + len(query))


def _write(line: Row, text: str, query: str, style: str, *, here: bool) -> Row:
    done = 0
    for start, end in _marks(text, query):
        if line.room <= 0:
            break
        line.add(text[done:start], style).add(text[start:end], "match-here" if here else "match")
        done = end
    return line.add(text[done:], style)
