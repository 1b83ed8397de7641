"""The log of the selected worker, or of its group: following or paused, scrolled, searched and filtered."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from types import MappingProxyType

from rich.segment import Segment
from textual import events
from textual.strip import Strip

from gmg_tui import units
from gmg_tui.protocol import Lines
from gmg_tui.ui.drawing import log_line
from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.log_buffer import LogBuffer
from gmg_tui.ui.messages import LogBehind, LogSearched
from gmg_tui.ui.terminal.refresh_limiter import RefreshLimiter
from gmg_tui.ui.widgets.log_place import LogPlace, Place
from gmg_tui.ui.widgets.row_view import DrawnView

_NONE: Mapping[str, int] = MappingProxyType({})
"""No ranks: the log of one slot."""
REPAINT_S = 1.0
"""Shortest time between two redraws for arriving lines, seconds: nobody reads faster."""
_PROGRESS_PERIODS = 5
"""So many times longer for lines that only say how fast the simulation is, as the worker's tile does each second."""
_ACROSS = 16
"""Columns per sideways step."""
_SAID_S = 4.0
"""How long the title says what a key has done."""


class LogView(DrawnView):
    """A title row and the visible part of the log of a worker or a group. Only what is visible is ever drawn."""

    def __init__(self, appearance: Appearance, session: str) -> None:
        super().__init__(appearance)
        self._session = session
        self._opened = ""
        """The name of the slot, or of the group."""
        self._ranks: Mapping[str, int] = {}
        """Of a group: its ranks, by slot."""
        self._folds = True
        self._whole = self._wraps = False
        self._past = False
        self.buffer = self._empty()
        self._paused = False
        """Whether the end is not followed although it is in view, because the user said so."""
        self._top = Place(0, 0)
        self._offset = 0
        self._found: int | None = None
        self._said = ""
        self._has_progress = False
        """Whether progress lines have come: of a worker that prints nothing else, the first stands for the newest."""
        self.pace = RefreshLimiter(self, self.draw, REPAINT_S)

    def _empty(self) -> LogBuffer:
        if self._ranks:
            from gmg_tui.ui.group_buffer import GroupBuffer

            return GroupBuffer(self._ranks, shown=self._shown, folds=self._folds)
        return LogBuffer(shown=self._shown, folds=self._folds)

    def _shown(self, text: str) -> str:
        return log_line.shown_text(text, self.appearance, whole=self._whole)

    @property
    def following(self) -> bool:
        """Whether the newest lines are shown; else the rows in view stay, whatever comes."""
        return not self.buffer.held

    @following.setter
    def following(self, following: bool) -> None:
        line = self._line_at_top
        released, self.buffer.held = following and self.buffer.held, not following
        if released:
            self._top = Place(self.buffer.at(line), 0)
            if self.buffer.below > 0:
                self.post_message(LogBehind())

    @property
    def page(self) -> int:
        """Rows of the log that are visible."""
        return max(0, self.size.height - 1)

    @property
    def _place(self) -> LogPlace:
        width = self.size.width if self._wraps else 0
        return LogPlace(self.buffer, width)

    @property
    def _line_at_top(self) -> int:
        """The number of the first line in view."""
        rows = self.buffer.rows
        return rows[self._top.row].end - 1 if self._top.row < len(rows) else 0

    @property
    def shows(self) -> tuple[str, Mapping[str, int]]:
        """What it was opened for."""
        return self._opened, self._ranks

    def open(self, name: str, ranks: Mapping[str, int] = _NONE, *, past: bool = False) -> None:
        """Show the log of the slot called `name` from now on, starting empty; or those of a group's `ranks`, by slot.

        `past` says that it is what they had printed by the moment that is looked at.
        """
        query, only = self.buffer.query, self.buffer.filter
        self._opened, self._ranks, self._past = name, ranks, past
        self.buffer = self._empty()
        self.buffer.only(only)
        self.buffer.search(query)
        self._paused = self._has_progress = False
        self._top, self._offset = Place(0, 0), 0
        self._found = None
        self.draw()

    def take(self, lines: Lines) -> None:
        """Add lines, and draw them soon; late lines of another worker are ignored."""
        if lines.slot not in self._ranks and (self._ranks or lines.slot != self._opened):
            return
        first_ones = self.buffer.next_line is None
        telling = self.buffer.extend(lines.first, lines.lines, after_progress=lines.after_progress, slot=lines.slot)
        self.pace.ask(now=first_ones, periods=_PROGRESS_PERIODS if self._has_progress and not telling else 1)
        self._has_progress |= not telling

    def draw(self) -> None:
        """Draw the title and the visible rows."""
        width, height = self.size
        if height <= 0:
            return
        self.buffer.settle()
        self._settle_top()
        rows = self._visible(width)
        blank = Strip([Segment(" " * width, self.appearance.style("text"))], width)
        self.show_rows([self._title(width), *rows, *[blank] * (self.page - len(rows))])

    def _visible(self, width: int) -> list[Strip]:
        buffer, look, strips = self.buffer, self.appearance, list[Strip]()
        skipped = self._top.part if self._wraps else 0
        for index in range(self._top.row, buffer.end):
            if len(strips) >= self.page + skipped:
                break
            row, here = buffer.rows[index], index == self._found
            text = buffer.text_of(row)
            if self._wraps:
                strips += log_line.wrapped(row, text, width, buffer.query, look, here=here)
            else:
                strips.append(log_line.log_line(row, text, width, self._offset, buffer.query, look, here=here))
        return strips[skipped : skipped + self.page]

    def _settle_top(self) -> None:
        place = self._place
        lowest = place.back(place.end, self.page)
        if self._top >= lowest and not self.following and not self._paused:
            self.following = self._found is None
            lowest = place.back(place.end, self.page)
        self._top = lowest if self.following else max(Place(0, 0), min(self._top, lowest))

    def _title(self, width: int) -> Strip:
        signs = self.appearance.signs
        line = Row(self.appearance, width)
        buffer = self.buffer
        if self._said:
            line.end(f" {self._said} ", "ok")
        if buffer.query:
            line.end(f" {self._search_words()} ", "strong")
        elif buffer.filter:
            shown = sum(not row.gap for row in buffer.rows)
            line.end(f" {shown:,} of {units.count(buffer.kept, 'line')} ", "strong")
        elif buffer.next_line is not None:
            line.end(f" {units.count(buffer.known, 'line')} ", "dim")
        if self._offset and not self._wraps:
            line.end(f" from column {self._offset + 1} ", "dim")
        if self._more_in_file:
            line.end(f" above: gmg-tui logs {self._session} {'SLOT' if self._ranks else self._opened} ", "warn")
        what = f"{self._opened} log, {len(self._ranks)} ranks" if self._ranks else f"{self._opened} log"
        line.add(f"{signs.line[0]}{signs.line[0]} ", "border").add(what, "title")
        if self.following:
            line.add(*(" up to this moment ", "dim") if self._past else (" following ", "ok"))
        else:
            below = self._below
            more = f", {units.count(below, 'line')} below {signs.down}" if below > 0 else ""
            line.add(f" paused{more} ", "warn")
        if buffer.filter:
            line.add(f"& {buffer.filter} ", "strong")
        return line.strip(signs.line[0], "border")

    @property
    def _below(self) -> int:
        """How many lines are below those in view."""
        last = self._place.forth(self._top, self.page - 1).row
        return sum(row.lines for row in islice(self.buffer.rows, last + 1, None)) + self.buffer.below

    @property
    def _more_in_file(self) -> bool:
        """Whether the first row that is kept is in view, but is not the first that the worker has printed."""
        buffer = self.buffer
        at_start = self._top == (0, 0) and buffer.end > 0
        return at_start and not self.following and (buffer.rows[0].gap or (bool(buffer.filter) and not buffer.complete))

    def _search_words(self) -> str:
        matches = self.buffer.matches
        if not matches:
            return "no match"
        number = matches.index(self._found) + 1 if self._found in matches else 0
        return f"match {number or self.appearance.signs.ellipsis} of {len(matches):,}"

    def toggle_follow(self) -> None:
        """Follow the end, or pause the log where it is."""
        self.following = not self.following
        self._paused = not self.following
        self._found = None if self.following else self._found
        self.draw()

    def scroll_by(self, rows: int) -> None:
        """Scroll down by `rows` (up when negative); at its end the log is followed again."""
        self.following = self._paused = False
        place = self._place
        self._top = place.forth(self._top, rows) if rows > 0 else place.back(self._top, -rows)
        self._found = None if rows > 0 else self._found
        self.draw()

    def go(self, direction: str) -> None:
        """Scroll by a page `up` or `down`, or to the first (`home`) or last row (`end`)."""
        if direction in {"up", "down"}:
            self.scroll_by((1 - self.page) if direction == "up" else self.page - 1)
            return
        self.following = self._paused = False
        self._top = Place(0, 0) if direction == "home" else self._place.end
        self._found = self._found if direction == "home" else None
        self.draw()

    def across(self, steps: int) -> None:
        """Scroll sideways."""
        self._offset = max(0, self._offset + steps * _ACROSS)
        self.draw()

    # How lines are shown

    def toggle_folds(self) -> None:
        """Fold lines of mere progress, or show all."""
        self._folds = not self._folds
        self._show_anew()

    def toggle_whole(self) -> None:
        """Show the head of Genesis's lines whole, or only the time."""
        self._whole = not self._whole
        self._show_anew()

    def toggle_wraps(self) -> None:
        """Wrap long lines, or cut them at the edge."""
        self._wraps = not self._wraps
        self._top = Place(self._top.row, 0)
        self.draw()

    def only(self, text: str) -> None:
        """Show only lines that hold `text`; all when it is empty."""
        line = self._line_at_top
        self.buffer.only(text)
        self._stay_at(line)
        self.post_message(LogSearched())

    def _show_anew(self) -> None:
        line = self._line_at_top
        self.buffer.show(self._shown, folds=self._folds)
        self._stay_at(line)

    def _stay_at(self, line: int) -> None:
        """Have the line with that number at the top, where rows have been made anew."""
        self._top = Place(self.buffer.at(line), 0)
        self._found = None
        self.draw()

    def say(self, text: str) -> None:
        """Say in the title, for a while, what a key has done."""
        self._said = text
        self.draw()
        self.set_timer(_SAID_S, self._hush)

    def _hush(self) -> None:
        self._said = ""
        self.pace.ask()

    @property
    def line(self) -> str:
        """The line of the present match, else the newest in view, whole; empty where there is none."""
        rows = self.buffer.rows
        if self._found is not None and self._found < len(rows):
            return rows[self._found].text
        last = self._place.forth(self._top, max(0, self.page - 1)).row
        return next((row.text for row in reversed(rows[: last + 1]) if not row.gap), "")

    # Search

    def search(self, query: str) -> None:
        """Search for `query` from the newest visible row; an empty one ends it, and follows from the left edge again."""
        self.buffer.search(query)
        self.post_message(LogSearched())
        self._found = None
        if not query:
            self.following, self._paused, self._offset = True, False, 0
            self.draw()
            return
        below = self._place.forth(self._top, self.page)
        self._go_to(self.buffer.match(min(self.buffer.end, below.row), "up"))

    def search_next(self, direction: str) -> None:
        """Go to the next match `up` or `down`."""
        here = self._found if self._found is not None else self._top.row
        self._go_to(self.buffer.match(here, direction))

    def _go_to(self, number: int | None) -> None:
        self._found = number
        if number is not None:
            self.following = False
            place = self._place
            match = Place(number, place.part_of(number))
            if not self._top <= match < place.forth(self._top, self.page):
                self._top = place.back(match, self.page // 2)
            if not self._wraps:
                self._bring_across(number)
        self.draw()

    def _bring_across(self, number: int) -> None:
        """Scroll sideways, where a row is cut before the end of its match, to have the match in the middle."""
        cells = log_line.span_of(self.buffer.text_of(self.buffer.rows[number]), self.buffer.query)
        if cells is not None and not self._offset <= cells[0] <= cells[1] < self._offset + self.size.width:
            middle = max(0, cells[1] - self.size.width // 2)
            self._offset = min(cells[0], middle) // _ACROSS * _ACROSS if cells[1] >= self.size.width else 0

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll up by three rows."""
        event.stop()
        self.scroll_by(-3)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll down by three rows."""
        event.stop()
        self.scroll_by(3)
