"""The log of the selected worker, or of its group: following or paused, scrolled, searched and filtered."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from types import MappingProxyType

from textual import events
from textual.message import Message
from textual.strip import Strip

from gmg_tui import units
from gmg_tui.protocol import Lines
from gmg_tui.ui.drawing import log_line
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.log_buffer import LogBuffer
from gmg_tui.ui.terminal.refresh_limiter import RefreshLimiter
from gmg_tui.ui.widgets.log_place import LogPlace, Place
from gmg_tui.ui.widgets.rows import Rows

_NONE: Mapping[str, int] = MappingProxyType({})
"""No ranks: the log of one slot."""
REPAINT_S = 1.0
"""Shortest time between two redraws for arriving lines, seconds: nobody reads faster."""
_PROGRESS_PERIODS = 5
"""So many times longer for lines that only contain the rate, as the worker's tile does each second."""


class LogView(Rows):
    """A title row and the visible part of the log of a worker or a group. Only what is visible is ever drawn."""

    DEFAULT_CSS = "LogView { width: 100%; height: 1fr; }"

    class Behind(Message):
        """The log is followed again, and lines came meanwhile that it did not take."""

    class Searched(Message):
        """Another text is searched for, or filtered by."""

    def __init__(self, session: str) -> None:
        super().__init__()
        self._session = session
        self._opened = ""
        """The name of the slot, or of the group."""
        self._ranks: Mapping[str, int] = {}
        """Of a group: its ranks, by slot."""
        self.buffer = LogBuffer(shown=log_line.clock_first)
        self._paused = False
        """Whether the end is not followed although it is visible, because the user paused it."""
        self._top = Place(0, 0)
        self._match_line: int | None = None
        """The `LogRow.end` of the row with the present match: unlike its index it stays the same."""
        self._has_progress = False
        """Whether progress lines have come: of a worker that prints nothing else, the first stands for the newest."""
        self.pace = RefreshLimiter(self, self.update_rows, REPAINT_S)

    def update_snapshot(self) -> None:
        """Draw arriving lines together with the rest of the screen."""
        self.pace.settle()

    @property
    def _match(self) -> int | None:
        """The index of the row with the present match."""
        return None if self._match_line is None else self.buffer.at(self._match_line - 1)

    @_match.setter
    def _match(self, index: int | None) -> None:
        self._match_line = None if index is None else self.buffer.rows[index].end

    @property
    def following(self) -> bool:
        """Whether the newest lines are visible; else the visible rows stay, whatever comes."""
        return not self.buffer.held

    @following.setter
    def following(self, following: bool) -> None:
        line = self._line_at_top
        released, self.buffer.held = following and self.buffer.held, not following
        if released:
            self._top = Place(self.buffer.at(line), 0)
            if self.buffer.below > 0:
                self.post_message(self.Behind())

    @property
    def _page(self) -> int:
        """Rows of the log that are visible."""
        return max(0, self.size.height - 1)

    @property
    def _place(self) -> LogPlace:
        return LogPlace(self.buffer, self.size.width)

    @property
    def _line_at_top(self) -> int:
        """The number of the first visible line."""
        rows = self.buffer.rows
        return rows[self._top.row].end - 1 if self._top.row < len(rows) else 0

    @property
    def source(self) -> tuple[str, Mapping[str, int]]:
        """The name of the slot or group that the log is of, and the group's ranks, by slot."""
        return self._opened, self._ranks

    def open(self, name: str, ranks: Mapping[str, int] = _NONE) -> None:
        """Show the log of the slot called `name`, starting empty; or those of a group's `ranks`, by slot."""
        query, only = self.buffer.query, self.buffer.filter
        self._opened, self._ranks = name, ranks
        self.buffer = LogBuffer(ranks=ranks, shown=log_line.clock_first)
        self.buffer.only(only)
        self.buffer.search(query)
        self._paused = self._has_progress = False
        self._top, self._match = Place(0, 0), None
        self.update_rows()

    def take(self, lines: Lines) -> None:
        """Add lines, and draw them soon; late lines of another worker are ignored."""
        if lines.slot not in self._ranks and (self._ranks or lines.slot != self._opened):
            return
        first_ones = self.buffer.next_line is None
        notable = self.buffer.extend(lines.first, lines.lines, slot=lines.slot if self._ranks else "")
        self.pace.ask(now=first_ones, periods=_PROGRESS_PERIODS if self._has_progress and not notable else 1)
        self._has_progress |= not notable

    def make_rows(self, width: int, height: int) -> list[Strip]:
        """The title and the visible lines."""
        self._settle_top()
        buffer, strips = self.buffer, list[Strip]()
        for index in range(self._top.row, buffer.end):
            if len(strips) >= self._page + self._top.part:
                break
            row, here = buffer.rows[index], index == self._match
            strips += log_line.wrapped(row, buffer.text_of(row), width, buffer.query, self.appearance, here=here)
        strips = strips[self._top.part : self._top.part + self._page]
        blank = Row(self.appearance, width).strip()
        return [self._title(width), *strips, *[blank] * (self._page - len(strips))]

    def _settle_top(self) -> None:
        place = self._place
        lowest = place.back(place.end, self._page)
        if self._top >= lowest and not self.following and not self._paused:
            self.following = self._match is None
            lowest = place.back(place.end, self._page)
        self._top = lowest if self.following else max(Place(0, 0), min(self._top, lowest))

    def _title(self, width: int) -> Strip:
        signs, buffer, line = self.appearance.signs, self.buffer, Row(self.appearance, width)
        if buffer.query:
            line.end(f" {self._search_text()} ", "strong")
        elif buffer.filter:
            count = sum(not row.gap for row in buffer.rows)
            line.end(f" {count:,} of {units.count(buffer.kept, 'line')} ", "strong")
        elif buffer.next_line is not None:
            line.end(f" {units.count(buffer.known, 'line')} ", "dim")
        if self._more_in_file:
            line.end(f" above: gmg-tui logs {self._session} {'SLOT' if self._ranks else self._opened} ", "warn")
        what = f"{self._opened} log, {len(self._ranks)} ranks" if self._ranks else f"{self._opened} log"
        line.add(f"{signs.line[0]}{signs.line[0]} ", "border").add(what, "title")
        if self.following:
            line.add(" following ", "ok")
        else:
            below = self._below
            more = f", {units.count(below, 'line')} below {signs.down}" if below > 0 else ""
            line.add(f" paused{more} ", "warn")
        if buffer.filter:
            line.add(f"filter: {buffer.filter} ", "strong")
        return line.strip(signs.line[0], "border")

    @property
    def _below(self) -> int:
        """How many lines are below the visible ones."""
        last = self._place.forth(self._top, self._page - 1).row
        return sum(row.lines for row in islice(self.buffer.rows, last + 1, None)) + self.buffer.below

    @property
    def _more_in_file(self) -> bool:
        """Whether the first row that is kept is visible, but is not the first that the worker has printed."""
        buffer = self.buffer
        at_start = self._top == (0, 0) and buffer.end > 0
        return at_start and not self.following and (buffer.rows[0].gap or (bool(buffer.filter) and not buffer.complete))

    def _search_text(self) -> str:
        matches = self.buffer.matches
        if not matches:
            return "no match"
        number = matches.index(self._match) + 1 if self._match in matches else 0
        return f"match {number or self.appearance.signs.ellipsis} of {len(matches):,}"

    # Scrolling

    def toggle_follow(self) -> None:
        """Follow the end, or pause the log where it is."""
        self.following = not self.following
        self._paused = not self.following
        self._match = None if self.following else self._match
        self.update_rows()

    def scroll_by(self, rows: int) -> None:
        """Scroll down by `rows` (up when negative); at its end the log is followed again."""
        self.following = self._paused = False
        place = self._place
        self._top = place.forth(self._top, rows) if rows > 0 else place.back(self._top, -rows)
        self._match = None if rows > 0 else self._match
        self.update_rows()

    def go(self, direction: str) -> None:
        """Scroll by a page `up` or `down`, or to the first (`home`) or last row (`end`)."""
        if direction in {"up", "down"}:
            self.scroll_by((1 - self._page) if direction == "up" else self._page - 1)
            return
        self.following = self._paused = False
        self._top = Place(0, 0) if direction == "home" else self._place.end
        self._match = self._match if direction == "home" else None
        self.update_rows()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll up by three rows."""
        event.stop()
        self.scroll_by(-3)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll down by three rows."""
        event.stop()
        self.scroll_by(3)

    # Search and filter

    @property
    def line(self) -> str:
        """The line of the present match, else the newest visible one, whole; empty where there is none."""
        rows = self.buffer.rows
        if self._match is not None and self._match < len(rows):
            return rows[self._match].text
        last = self._place.forth(self._top, max(0, self._page - 1)).row
        return next((row.text for row in reversed(rows[: last + 1]) if not row.gap), "")

    def filter(self, text: str) -> None:
        """Show only lines that contain `text`; all when it is empty."""
        line = self._line_at_top
        self.buffer.only(text)
        self._top, self._match = Place(self.buffer.at(line), 0), None
        self.update_rows()
        self.post_message(self.Searched())

    def search(self, query: str) -> None:
        """Search for `query` from the newest visible row; an empty one ends the search, and follows again."""
        self.buffer.search(query)
        self._match = None
        if query:
            below = self._place.forth(self._top, self._page)
            self._go_to(self.buffer.match(min(self.buffer.end, below.row), "up"))
        else:
            self.following, self._paused = True, False
            self.update_rows()
        self.post_message(self.Searched())

    def search_next(self, direction: str) -> None:
        """Go to the next match `up` or `down`."""
        here = self._match if self._match is not None else self._top.row
        self._go_to(self.buffer.match(here, direction))

    def _go_to(self, number: int | None) -> None:
        self._match = number
        if number is not None:
            self.following = False
            place = self._place
            match = Place(number, place.part_of(number))
            if not self._top <= match < place.forth(self._top, self._page):
                self._top = place.back(match, self._page // 2)
        self.update_rows()
