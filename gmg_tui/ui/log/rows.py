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
"""Maximum characters to show of a line."""
_WORD: Final = re.compile(r"[A-Za-z0-9]+")
_MAX_RAW_CHARS = 20
"""Maximum characters to compare in the bytes of a line: the pattern's size is the square of it."""
_STYLES: Final = {Severity.INFO: "text", Severity.WARNING: "warn", Severity.ERROR: "error"}


class LogRow(NamedTuple):
    """A line, or a run of progress lines, of which only the newest is shown."""

    text: str
    start: int
    """The first line's offset in the file."""
    end: int
    """The offset after the last line."""
    lines: int = 1
    progress: bool = False

    @property
    def position(self) -> int:
        """An offset in the newest line; it remains inside this row when more lines are folded in."""
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
    """Appends a row; merges a progress line into a run before it."""
    if rows and (last := rows[-1]).progress and row.progress:
        rows[-1] = row._replace(start=last.start, lines=last.lines + row.lines)
    else:
        rows.append(row)


def join(above: Sequence[LogRow], below: Sequence[LogRow]) -> list[LogRow]:
    """Joins two lists of rows; drops an unfinished line above if the first row below has more of it."""
    rows = [*above]
    if rows and below and below[0].start < rows[-1].end:
        rows.pop()
    for row in below[:1]:
        fold(rows, row)
    return [*rows, *below[1:]]


def index_of(rows: Sequence[LogRow], position: int) -> int:
    """Returns the index of the row at a position, else of the nearest row."""
    return max(0, min(bisect_right(rows, position, key=lambda row: row.end), len(rows) - 1))


class Query:
    """A case-insensitive search text; an empty one matches nothing.

    Attributes:
        pattern: A pattern for the text of rows.
        raw: A pattern for the lower-case bytes of lines, to rule out a match; not valid for lines with backspaces.
    """

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.pattern = re.compile(re.escape(text) if text else r"(?!)", re.IGNORECASE)
        word = max(_WORD.findall(text), key=len, default="").lower()[:_MAX_RAW_CHARS]
        self.raw = re.compile("|".join([word, *(f"{word[:cut]}\x1b" for cut in range(1, len(word)))]).encode())

    def spans(self, row: LogRow) -> list[tuple[int, int]]:
        """Returns the start and end of each match in the shown text."""
        return [match.span() for match in self.pattern.finditer(row.shown)] if self.text else []


# Wrapping


class Place(NamedTuple):
    """A screen row in a log whose rows may be wrapped."""

    row: int
    piece: int
    """The index of the screen row within the wrapped row."""


def move_place(rows: Sequence[LogRow], width: int, place: Place, count: int) -> Place:
    """Returns the place `count` screen rows below (above if negative), between the first row and one past the last."""
    index, piece = place.row, place.piece + count
    while piece < 0 and index > 0:
        index -= 1
        piece += len(split_row(rows[index], width))
    while index < len(rows) and piece >= (pieces := len(split_row(rows[index], width))):
        piece -= pieces
        index += 1
    return Place(index, max(0, piece) if index < len(rows) else 0)


def wrap(row: LogRow, width: int, spans: Sequence[tuple[int, int]], *, current: bool = False) -> list[Row]:
    """Returns the screen rows of a row, with its line count at the right end.

    Highlights the matches at `spans` of the shown text; with `current`, as the current match.
    """
    pieces, screen_rows = split_row(row, width), list[Row]()
    style, match_style = "dim" if row.progress else _STYLES[severity(row.text)], "match-here" if current else "match"
    count, start = _count_text(row), 0
    for number, piece in enumerate(pieces, 1):
        screen_row, done = Row(width), 0
        if number == len(pieces):
            screen_row.end(count, "dim")
            piece = piece[: max(0, len(piece) - len(count))]
        for match_start, match_end in spans:
            begin, stop = max(match_start - start, done), min(match_end - start, len(piece))
            if begin < stop:
                screen_row.add(piece[done:begin], style).add(piece[begin:stop], match_style)
                done = stop
        screen_rows.append(screen_row.add(piece[done:], style))
        start += len(piece)
    return screen_rows


def _count_text(row: LogRow) -> str:
    return f" ×{row.lines:,}" if row.lines > 1 else ""


def split_row(row: LogRow, width: int) -> list[str]:
    """Returns the shown text in pieces of at most `width` cells, at least one; the last has room for the line count."""
    text, width = row.shown + " " * len(_count_text(row)), max(2, width)  # room for one wide character
    if not text.isascii():
        return chop_cells(text, width)
    return [text[start : start + width] for start in range(0, len(text), width)] or [""]


def first_match_piece(row: LogRow, width: int, spans: Sequence[tuple[int, int]]) -> int:
    """Returns the index of the piece where the first match starts; 0 without matches."""
    end = 0
    for index, piece in enumerate(split_row(row, width)):
        end += len(piece)
        if spans and spans[0][0] < end:
            return index
    return 0


def highlight(strip: Strip, start: int, end: int, style: Style) -> Strip:
    """Returns a strip with a style applied to the characters from `start` to `end` (exclusive; -1: to the end)."""
    begin = cell_len(strip.text[:start])
    stop = strip.cell_length if end < 0 else max(begin, cell_len(strip.text[:end]))
    marked = Strip(Segment.apply_style(strip.crop(begin, stop), post_style=style))
    return Strip.join([strip.crop(0, begin), marked, strip.crop(stop)])
