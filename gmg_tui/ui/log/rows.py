"""Rows of the log: text, wrapping, colours and search matches."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from gmg_tui.model.alert import Severity
from gmg_tui.scripts.genesis.output.log_text import head, severity
from gmg_tui.ui.drawing import Row, safe

MAX_SHOWN_CHARS: Final = 610
"""Maximum characters shown of a line."""
_WORD: Final = re.compile(r"[A-Za-z0-9]+")
_STYLES: Final = {Severity.INFO: "text", Severity.WARNING: "warn", Severity.ERROR: "error"}


class LogRow(NamedTuple):
    """A line, or a run of progress lines, represented by the newest."""

    text: str
    start: int
    """Offset of its first line in the file."""
    end: int
    """Offset after its last line."""
    lines: int = 1
    progress: bool = False

    @property
    def position(self) -> int:
        """An offset in its newest line, still valid after folding."""
        return self.end - 1

    @property
    def shown(self) -> str:
        """The text as drawn and searched: Genesis' prefix shortened to time and level, very long lines cut."""
        text, prefix = self.text, head(self.text)
        if prefix is not None:
            level = f"{prefix.level} " if severity(text) is not Severity.INFO else ""
            text = f"{prefix.clock} {level}{text[prefix.length :]}"
        if (missing := len(text) - MAX_SHOWN_CHARS) > 0:
            text = f"{text[:MAX_SHOWN_CHARS]} … (+{missing:,} characters)"
        return safe(text)


def fold(rows: list[LogRow], row: LogRow) -> None:
    """Appends a row, merging consecutive progress lines."""
    if rows and (last := rows[-1]).progress and row.progress:
        rows[-1] = row._replace(start=last.start, lines=last.lines + row.lines)
    else:
        rows.append(row)


def join(above: Sequence[LogRow], below: Sequence[LogRow]) -> list[LogRow]:
    """Joins two lists; drops an unfinished line above that has grown into the first one below."""
    rows = [*above]
    if rows and below and below[0].start < rows[-1].end:
        rows.pop()
    for row in below[:1]:
        fold(rows, row)
    return [*rows, *below[1:]]


def index_of(rows: Sequence[LogRow], position: int) -> int:
    """Returns the index of the row at a position, clamped to the rows."""
    return max(0, min(bisect_right(rows, position, key=lambda row: row.end), len(rows) - 1))


class Query:
    """A case-insensitive search text; an empty one matches nothing.

    Attributes:
        pattern: Matches the text of rows.
        raw: Matches the lower-case bytes of each matching line, except lines with backspaces.
    """

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.pattern = re.compile(re.escape(text) if text else r"(?!)", re.IGNORECASE)
        word = max(_WORD.findall(text), key=len, default="").lower()
        self.raw = re.compile("|".join([word, *(f"{word[:cut]}\x1b" for cut in range(1, len(word)))]).encode())

    def marks(self, row: LogRow) -> list[tuple[int, int]]:
        """Returns the start and end of each match in the shown text."""
        return [match.span() for match in self.pattern.finditer(row.shown)] if self.text else []


# Wrapping


class Place(NamedTuple):
    """A screen row in a log whose rows may be wrapped."""

    row: int
    part: int
    """The index of the piece of the wrapped row."""


def move_place(rows: Sequence[LogRow], width: int, place: Place, count: int) -> Place:
    """Returns the place `count` screen rows below (above if negative), clamped to the first row and one past the last."""
    index, part = place.row, place.part + count
    while part < 0 and index > 0:
        index -= 1
        part += len(pieces(rows[index], width))
    while index < len(rows) and part >= (parts := len(pieces(rows[index], width))):
        part -= parts
        index += 1
    return Place(index, max(0, part) if index < len(rows) else 0)


def wrap(row: LogRow, width: int, marks: Sequence[tuple[int, int]], *, here: bool = False) -> list[Row]:
    """Returns the screen rows of a row, with its count at the right end and `marks` highlighted (`here`: as current)."""
    parts, lines = pieces(row, width), list[Row]()
    style = "dim" if row.progress else _STYLES[severity(row.text)]
    count, start = _count_of(row), 0
    for number, piece in enumerate(parts, 1):
        line, done = Row(width), 0
        if number == len(parts):
            line.end(count, "dim")
            piece = piece[: max(0, len(piece) - len(count))]
        for first, last in marks:
            begin, stop = max(first - start, done), min(last - start, len(piece))
            if begin < stop:
                line.add(piece[done:begin], style).add(piece[begin:stop], "match-here" if here else "match")
                done = stop
        lines.append(line.add(piece[done:], style))
        start += len(piece)
    return lines


def _count_of(row: LogRow) -> str:
    return f" ×{row.lines:,}" if row.lines > 1 else ""


def pieces(row: LogRow, width: int) -> list[str]:
    """Returns the text in one or more pieces of at most `width` cells, the last with room for the count."""
    text, width = row.shown + " " * len(_count_of(row)), max(2, width)  # room for one wide character
    if not text.isascii():
        return chop_cells(text, width)
    return [text[start : start + width] for start in range(0, len(text), width)] or [""]


def part_of(row: LogRow, width: int, marks: Sequence[tuple[int, int]]) -> int:
    """Returns the index of the piece where the first mark starts; 0 without marks."""
    end = 0
    for number, part in enumerate(pieces(row, width)):
        end += len(part)
        if marks and marks[0][0] < end:
            return number
    return 0


def highlight(strip: Strip, start: int, end: int, style: Style) -> Strip:
    """Returns a strip with a style applied from `start` to `end` (-1: to its end)."""
    begin = cell_len(strip.text[:start])
    stop = strip.cell_length if end < 0 else max(begin, cell_len(strip.text[:end]))
    marked = Strip(Segment.apply_style(strip.crop(begin, stop), post_style=style))
    return Strip.join([strip.crop(0, begin), marked, strip.crop(stop)])
