"""The widget with the log of the selected worker, or of its group: following or paused, scrolled, searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from rich.cells import chop_cells
from textual.message import Message

from gmg_tui.model import units
from gmg_tui.scripts.genesis.output.log_text import Severity, severity
from gmg_tui.session.protocol import Lines
from gmg_tui.ui.drawing import SIGNS, WHEEL_ROWS, Row, Rows
from gmg_tui.ui.log.buffer import NO_RANKS, LogBuffer, LogRow

_STYLES: Final = {Severity.NONE: "text", Severity.WARNING: "warn", Severity.ERROR: "error"}


class Position(NamedTuple):
    """A row of the screen in a log whose rows may be wrapped."""

    row: int
    """Index of a row of the buffer."""
    part: int
    """Which of the pieces that it is wrapped into."""


class LogView(Rows):
    """A title row and the visible part of the log of a worker or a group. Only what is visible is ever drawn."""

    class Behind(Message):
        """The log is followed again, and lines came meanwhile that it did not take."""

    def __init__(self) -> None:
        super().__init__()
        self.source: tuple[str, Mapping[str, int]] = ("", NO_RANKS)
        """The name of the slot or group that the log is of, and the group's ranks, by slot."""
        self.buffer = LogBuffer()
        self._top = Position(0, 0)
        self._match_line: int | None = None
        """The `LogRow.end` of the row with the present match: unlike its index it stays the same."""

    def open(self, name: str, ranks: Mapping[str, int] = NO_RANKS) -> None:
        """Show the log of the slot called `name`, starting empty; or those of a group's `ranks`, by slot."""
        before, self.source = self.buffer, (name, ranks)
        self.buffer = LogBuffer(ranks=ranks)
        self.buffer.search(before.query)
        self._top, self._match_line = Position(0, 0), None
        self.update_rows()

    def take(self, lines: Lines) -> None:
        """Add lines, and draw the first ones; late lines of another worker are ignored."""
        name, ranks = self.source
        if lines.slot not in (ranks or {name}):
            return
        first_ones = self.buffer.empty
        self.buffer.extend(lines.first, lines.lines, slot=lines.slot if ranks else "")
        if first_ones:
            self.update_rows()

    # Drawing

    def make_rows(self, width: int, height: int) -> list[Row]:
        """The title and the visible lines."""
        buffer, match = self.buffer, self._match
        lowest = self._back(Position(len(buffer.rows), 0), self._page)
        self._top = lowest if self.following else max(Position(0, 0), min(self._top, lowest))
        lines: list[Row] = []
        for index in range(self._top.row, len(buffer.rows)):
            row = buffer.rows[index]
            lines += wrapped(row, width, buffer.marks(row), here=index == match)
            if len(lines) >= self._page + self._top.part:
                break
        return [self._title(width), *lines[self._top.part : self._top.part + self._page]]

    def _title(self, width: int) -> Row:
        buffer, line = self.buffer, Row(width, SIGNS.line[0], "border")
        name, ranks = self.source
        if buffer.query:
            line.end(f" {self._search_text()} ", "strong")
        elif not buffer.empty:
            line.end(f" {units.count(buffer.printed, 'line')} ", "dim")
        line.add(SIGNS.line[0] * 2 + " ", "border")
        line.add(f"{name} log, {len(ranks)} ranks" if ranks else f"{name} log".lstrip(), "title")
        if self.following:
            line.add(" following ", "ok")
        else:
            last = self._forth(self._top, self._page - 1).row
            below = sum(row.lines for row in islice(buffer.rows, last + 1, None)) + buffer.below
            more = f", {units.count(below, 'line')} below {SIGNS.down}" if below > 0 else ""
            line.add(f" paused{more} ", "warn")
        return line

    def _search_text(self) -> str:
        matches, match = self.buffer.matches, self._match
        if not matches:
            gone = self.buffer.rows[0].lines if self.buffer.rows and self.buffer.rows[0].gap else 0
            return f"no match in the newest {units.count(self.buffer.printed - gone, 'line')}" if gone else "no match"
        number = str(matches.index(match) + 1) if match in matches else SIGNS.ellipsis
        return f"match {number} of {len(matches):,}"

    # Positions

    @property
    def _page(self) -> int:
        """Rows of the log that are visible."""
        return max(0, self.size.height - 1)

    def _parts(self, index: int) -> int:
        return len(pieces(self.buffer.rows[index], self.size.width))

    def _back(self, position: Position, rows: int) -> Position:
        """The position so many rows of the screen above, at most the first."""
        index, part = position
        part -= rows
        while part < 0 and index > 0:
            index -= 1
            part += self._parts(index)
        return Position(index, max(0, part))

    def _forth(self, position: Position, rows: int) -> Position:
        """The position so many rows of the screen below, at most the one after the last."""
        (index, part), end = position, len(self.buffer.rows)
        part += rows
        while index < end and part >= (parts := self._parts(index)):
            part -= parts
            index += 1
        return Position(index, part if index < end else 0)

    @property
    def _line_at_top(self) -> int:
        """The number of the first visible line."""
        rows = self.buffer.rows
        return rows[self._top.row].end - 1 if self._top.row < len(rows) else 0

    # Following and scrolling

    @property
    def following(self) -> bool:
        """Whether the newest lines are visible; else the visible rows stay, whatever comes."""
        return not self.buffer.paused

    def follow(self) -> None:
        """Show the newest lines from now on."""
        if self.buffer.paused:
            line = self._line_at_top
            self.buffer.resume()
            self._top = Position(self.buffer.at(line), 0)
            if self.buffer.below > 0:
                self.post_message(self.Behind())
        self._match_line = None
        self.update_rows()

    def pause(self) -> None:
        """Leave the visible rows where they are."""
        if not self.buffer.paused:
            self.buffer.pause()
        self.update_rows()

    def scroll_lines(self, rows: int) -> None:
        """Scroll down by `rows` (up when negative); at its end the log is followed again."""
        self._top = self._forth(self._top, rows) if rows > 0 else self._back(self._top, -rows)
        if rows > 0 and self._forth(self._top, self._page).row >= len(self.buffer.rows):
            self.follow()
        else:
            self.pause()

    def go(self, direction: str) -> None:
        """Scroll by a page `up` or `down`, or to the first (`home`) or last row (`end`)."""
        match direction:
            case "end":
                self.follow()
            case "home":
                self._top = Position(0, 0)
                self.pause()
            case _:
                self.scroll_lines((self._page - 1) * (1 if direction == "down" else -1))

    def wheel(self, steps: int) -> None:
        """Scroll."""
        self.scroll_lines(steps * WHEEL_ROWS)

    # Search

    @property
    def _match(self) -> int | None:
        """The index of the row with the present match."""
        return None if self._match_line is None else self.buffer.at(self._match_line - 1)

    @property
    def line(self) -> str:
        """The line of the present match, else the newest visible one, whole; empty where there is none."""
        rows, match = self.buffer.rows, self._match
        if match is not None and match < len(rows):
            return rows[match].text
        last = self._forth(self._top, max(0, self._page - 1)).row
        return next((row.text for row in reversed(rows[: last + 1]) if not row.gap), "")

    def search(self, query: str) -> None:
        """Search for `query` from the newest visible row; an empty one ends the search, and follows again."""
        self.buffer.search(query)
        self._match_line = None
        if query:
            below = self._forth(self._top, self._page).row
            self._go_to(self.buffer.match(below, "up"))
        else:
            self.follow()
        self.screen.refresh_bindings()  # `esc` ends the search

    def search_next(self, direction: str) -> None:
        """Go to the next match `up` or `down`."""
        match = self._match
        self._go_to(self.buffer.match(self._top.row if match is None else match, direction))

    def _go_to(self, index: int | None) -> None:
        self._match_line = None if index is None else self.buffer.rows[index].end
        if index is not None:
            row = self.buffer.rows[index]
            match = Position(index, part_of(row, self.size.width, self.buffer.marks(row)))
            if not self._top <= match < self._forth(self._top, self._page):
                self._top = self._back(match, self._page // 2)
            self.pause()
        self.update_rows()


# A row of the log: wrapped, coloured by its severity, with the matches of a search marked


def wrapped(row: LogRow, width: int, marks: Sequence[tuple[int, int]], *, here: bool = False) -> list[Row]:
    """A row of the log in as many rows of the screen as it needs, with marks from some to other characters.

    `here`: these are the present matches. How many lines the row stands for is at its
    right end.
    """
    parts, lines = pieces(row, width), list[Row]()
    style = "dim" if row.gap or row.progress else _STYLES[severity(row.text)]
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
    """How many lines a row stands for, as its end; empty for one."""
    return f" ×{row.lines:,}" if row.lines > 1 and not row.gap else ""


def pieces(row: LogRow, width: int) -> list[str]:
    """The row's text in pieces of at most `width` cells, the last with room for its count; at least one."""
    text, width = row.shown + " " * len(_count_of(row)), max(2, width)  # 2: the room of one wide character
    if not text.isascii():
        return chop_cells(text, width)
    return [text[start : start + width] for start in range(0, len(text), width)] or [""]


def part_of(row: LogRow, width: int, marks: Sequence[tuple[int, int]]) -> int:
    """The number of the piece that the first mark begins in; 0 where there is none."""
    end = 0
    for number, part in enumerate(pieces(row, width)):
        end += len(part)
        if marks and marks[0][0] < end:
            return number
    return 0
