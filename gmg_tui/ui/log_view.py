"""The log of the chosen worker: following or held, scrolled and searched."""

from __future__ import annotations

from rich.segment import Segment
from textual import events
from textual.strip import Strip

from gmg_tui import units
from gmg_tui.protocol import Lines
from gmg_tui.ui.line import Line
from gmg_tui.ui.log_buffer import LogBuffer
from gmg_tui.ui.look import Look
from gmg_tui.ui.pace import Pace
from gmg_tui.ui.renderables.log_line import log_line
from gmg_tui.ui.rows import Rows

REPAINT_S = 1.0
"""Shortest time between two drawings of lines that arrive by themselves, seconds: nobody reads faster."""
_ACROSS = 16
"""Columns that the log moves to the side at a time."""


class LogView(Rows):
    """A title row and the visible part of one worker's log. Only what is visible is ever drawn."""

    def __init__(self, look: Look, *, id: str | None = None) -> None:  # noqa: A002 - as Textual names it
        super().__init__(id=id)
        self.look = look
        self.buffer = LogBuffer()
        self.following = True
        self._slot = ""
        self._top = 0
        self._offset = 0
        self._found: int | None = None
        self.pace = Pace(self, self.draw, REPAINT_S)

    @property
    def page(self) -> int:
        """Rows of the log that are visible."""
        return max(0, self.size.height - 1)

    def open(self, slot: str) -> None:
        """Show the log of `slot` from now on, from an empty beginning."""
        query = self.buffer.query
        self._slot = slot
        self.buffer = LogBuffer()
        self.buffer.search(query)
        self.following = True
        self._top = self._offset = 0
        self._found = None
        self.draw()

    def take(self, lines: Lines) -> None:
        """Add lines, and draw them soon; those of another worker, still on their way, are passed over."""
        if lines.slot != self._slot:
            return
        first_ones = self.buffer.next_line is None
        self.buffer.extend(lines.first, lines.lines)
        self.pace.ask(now=first_ones)

    def on_resize(self) -> None:
        """Fill the new size."""
        self.draw()

    def draw(self) -> None:
        """Draw the title and the visible rows."""
        width, height = self.size
        if height <= 0:
            return
        self._settle_top()
        buffer = self.buffer
        last = min(buffer.end, self._top + self.page)
        rows = [
            log_line(buffer.row(number), width, self._offset, buffer.query, self.look)
            for number in range(self._top, last)
        ]
        blank = Strip([Segment(" " * width, self.look.style("text"))], width)
        self.show_rows([self._title(width), *rows, *[blank] * (self.page - len(rows))])

    def _settle_top(self) -> None:
        lowest = max(self.buffer.first, self.buffer.end - self.page)
        if self._top >= lowest and not self.following:
            self.following = self._found is None
        self._top = lowest if self.following else max(self.buffer.first, min(self._top, lowest))

    def _title(self, width: int) -> Strip:
        signs = self.look.signs
        line = Line(self.look, width)
        buffer = self.buffer
        if buffer.query:
            line.end(f" {self._search_words()} ", "strong")
        elif buffer.next_line is not None:
            line.end(f" {units.count(buffer.next_line, 'line')} ", "dim")
        if self._offset:
            line.end(f" from column {self._offset + 1} ", "dim")
        line.add(f"{signs.line[0]}{signs.line[0]} ", "border").add(f"{self._slot} log", "title")
        below = buffer.end - self._top - self.page
        if self.following:
            line.add(" following ", "ok")
        else:
            line.add(f" held, {units.count(max(0, below), 'line')} below {signs.down} ", "warn")
        return line.strip(signs.line[0], "border")

    def _search_words(self) -> str:
        matches = self.buffer.matches
        if not matches:
            return "nothing found"
        place = matches.index(self._found) + 1 if self._found in matches else 0
        return f"{place or self.look.signs.ellipsis} of {len(matches):,} found"

    def toggle_follow(self) -> None:
        """Follow the end, or hold the log where it is."""
        self.following = not self.following
        self._found = None if self.following else self._found
        if not self.following:
            self._top = max(self.buffer.first, self._top - 1)
        self.draw()

    def scroll_by(self, rows: int) -> None:
        """Move the log down by `rows` (up when negative); at its end it is followed again."""
        self.following = False
        self._top += rows
        self._found = None if rows > 0 else self._found
        self.draw()

    def go(self, direction: str) -> None:
        """Move by a page `up` or `down`, or to the first (`home`) or last row (`end`)."""
        far = self.buffer.end - self.buffer.first
        self.scroll_by({"up": 1 - self.page, "down": self.page - 1, "home": -far, "end": far}[direction])

    def across(self, steps: int) -> None:
        """Move the log to the side."""
        self._offset = max(0, self._offset + steps * _ACROSS)
        self.draw()

    def search(self, query: str) -> None:
        """Search for `query`, beginning at the newest visible row; an empty one ends the search and follows again."""
        self.buffer.search(query)
        self._found = None
        if not query:
            self.following = True
            self.draw()
            return
        self._go_to(self.buffer.match(min(self.buffer.end, self._top + self.page), "up"))

    def search_next(self, direction: str) -> None:
        """Go to the next match `up` or `down`."""
        here = self._found if self._found is not None else self._top
        self._go_to(self.buffer.match(here, direction))

    def _go_to(self, number: int | None) -> None:
        self._found = number
        if number is not None:
            self.following = False
            if not self._top <= number < self._top + self.page:
                self._top = number - self.page // 2
        self.draw()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll up by three rows."""
        event.stop()
        self.scroll_by(-3)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll down by three rows."""
        event.stop()
        self.scroll_by(3)
