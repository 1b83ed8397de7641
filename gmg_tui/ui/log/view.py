"""The widget that shows a log: followed or paused, with scrolling, search and selection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from textual import work
from textual.message import Message
from textual.selection import Selection
from textual.strip import Strip

from gmg_tui.model import units
from gmg_tui.session.protocol import Lines
from gmg_tui.ui.drawing import SIGNS, WHEEL_ROWS, Piece, Row
from gmg_tui.ui.log.rows import LIVE, Place, Query, highlighted, index_of, moved, part_of, wrapped
from gmg_tui.ui.log.source import LogSource, Search
from gmg_tui.ui.rows import Rows

if TYPE_CHECKING:
    from gmg_tui.ui.log.file import LogFile

_MAX_FILL_PAGES: Final = 128
"""Maximum pages read to fill the view with what precedes a long run of progress."""


class LogView(Rows):
    """The visible part of a log.

    Attributes:
        empty: The text shown if there are no lines.
        source: The log.
        sought: The search text.
        found: The matches found so far; None without a search.
        match: The position of the current match.
    """

    DEFAULT_CSS = "LogView { height: 1fr; }"
    ALLOW_SELECT = True

    class Changed(Message):
        """The log, or its visible part, may have changed."""

    def __init__(self) -> None:
        super().__init__()
        self.empty = ""
        self.source = LogSource("")
        self.sought = Query()
        self.match: int | None = None
        self.found: Search | None = None
        self._top_position, self._top_part = 0, 0
        """The position of the first visible row, and the index of its first visible piece."""
        self._wanted: int | None = None
        """The position to scroll to once the view has a size again."""
        self._loading: Callable[[], Awaitable[object]] | None = None
        self._pages_left = _MAX_FILL_PAGES
        self._continued: list[bool] = []
        """For each screen row, True if it continues the line above."""

    def open(self, source: LogSource, *, file_only: bool = False) -> None:
        """Shows another log, from its file if no engine sends its lines."""
        self.workers.cancel_group(self, "search")
        self.source = source
        self._top_position, self._top_part, self._wanted = 0, 0, None
        self.found, self.match, self._loading = None, None, None
        self._pages_left = _MAX_FILL_PAGES
        if file_only:
            self._load(source.load_end)
        self.update_rows()

    def add_lines(self, lines: Lines) -> None:
        """Adds lines, drawing the first ones at once; ignores late lines of another worker."""
        if lines.slot != self.source.name:
            return
        is_first = not self.source.printed
        self.source.extend(lines.first, lines.lines)
        if is_first:
            self.update_rows()

    # Drawing

    def update_rows(self) -> None:
        """Redraws what has changed."""
        super().update_rows()
        self.post_message(self.Changed())

    def make_rows(self, width: int, height: int) -> list[Row]:
        """Returns the visible lines."""
        if self._wanted is not None and self.source.rows:
            self._show(self._wanted)
            self.post_message(self.Changed())
        rows, match = self.source.rows, self._match_index
        if not rows:
            return [Row(width).add(f" {self.empty}", "dim")]
        lowest = self._moved(Place(len(rows), 0), -self._page)
        top = lowest if self.source.following else min(self._top, lowest)
        self._place_top(top)
        lines, continued = list[Row](), list[bool]()
        for index in range(top.row, len(rows)):
            parts = wrapped(rows[index], width, self.sought.marks(rows[index]), here=index == match)
            lines += parts
            continued += [False, *[True] * (len(parts) - 1)]
            if len(lines) >= self._page + top.part:
                break
        if self._pages_left > 0 and ((top.row == 0 and self.source.has_above) or len(lines) < self._page):
            self._pages_left -= 1
            self.call_later(self._fill)
        self._continued = continued[top.part :]
        return lines[top.part : top.part + self._page]

    def status(self) -> list[Piece]:
        """Returns the log's status for the row of tabs, most important first."""
        if not (name := self.source.name):
            return []
        state = ("following", "ok") if self.source.following else (self._paused_text(), "warn")
        title = (f"{name} log", "title")
        if self.sought.text:
            return [(self._search_text(), "strong"), state, title]
        count = (units.count(self.source.printed, "line"), "dim")
        return [count, title, state] if self.source.following else [state, count, title]

    def _paused_text(self) -> str:
        if not self.source.rows:
            return "paused"
        last, file = min(self._bottom, len(self.source.rows)) - 1, self.source.file
        below = self.source.lines_below(last)
        if below is None and file is not None:
            return f"paused at {100 * self.source.rows[last].end / max(file.size, 1):.0f} % of {units.size(file.size)}"
        return f"paused, {units.count(below, 'line')} below {SIGNS.down}" if below else "paused"

    def _search_text(self) -> str:
        """Returns the match number and count, and the search's progress."""
        source, found = self.source, self.found
        if found is None:
            return f"/{self.sought.text}"
        progress = f"searching, {found.searched_pct} %" if found.running else ""
        if not found.found:
            if found.file is not None or not source.has_above:
                return progress or "no match"
            return f"no match in the newest {units.count(source.printed - source.rows[0].lines, 'line')}"
        count, more = len(found.found), "+" if found.is_full else ""
        number = f"{count - found.found.index(self.match):,}" if self.match in found.found else SIGNS.ellipsis
        return f"match {number} of {count:,}{more}{', ' if progress else ''}{progress}"

    # Selection

    def render_line(self, y: int) -> Strip:
        """Returns a screen row, with the selection marked."""
        strip, selection = super().render_line(y).apply_offsets(0, y), self.text_selection
        span = selection.get_span(y) if selection is not None else None
        if span is None:
            return strip
        return highlighted(strip, *span, self.screen.get_component_rich_style("screen--selection"))

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Returns the selected text, with wrapped lines joined."""
        text = ""
        for y, continued in enumerate(self._continued):
            span = selection.get_span(y)
            if span is None or y >= len(self._strips):
                continue
            line = self._strips[y].text[span[0] : span[1] if span[1] >= 0 else None].rstrip()
            text += line if continued or not text else f"\n{line}"
        return text, "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Pauses: selected rows must not move."""
        if selection is not None and self.source.following:
            self.pause()
        super().selection_updated(selection)

    @property
    def text(self) -> str:
        """The line of the current match, else the newest visible one; empty if there is none."""
        rows, match = self.source.rows, self._match_index
        if match is not None:
            return rows[match].text
        return next((row.text for row in reversed(rows[: self._bottom]) if not row.gap), "")

    # Following and scrolling

    @property
    def _page(self) -> int:
        return max(0, self.size.height)

    def _moved(self, place: Place, count: int) -> Place:
        return moved(self.source.rows, self.size.width, place, count)

    @property
    def _top(self) -> Place:
        """The first visible row, corrected for added and dropped rows."""
        return Place(index_of(self.source.rows, self._top_position), self._top_part)

    def _place_top(self, place: Place) -> None:
        if self.source.rows:
            row = self.source.rows[min(place.row, len(self.source.rows) - 1)]
            self._top_position, self._top_part = row.position, place.part

    @property
    def _bottom(self) -> int:
        """The index after the last visible row."""
        end = self._moved(self._top, self._page)
        return end.row + (end.part > 0)

    def follow(self) -> None:
        """Follows the newest lines."""
        if not self.source.following:
            self.source.follow()
            self._pages_left = _MAX_FILL_PAGES
        self.match = self._wanted = None
        self.update_rows()

    def pause(self) -> None:
        """Leaves the visible rows where they are."""
        self.source.pause()
        self.update_rows()

    def scroll_lines(self, count: int) -> None:
        """Scrolls down by `count` rows (up if negative), and follows the log again at its end."""
        self.screen.clear_selection()
        self.source.pause()
        self.source.catch_up()
        self._place_top(self._moved(self._top, count))
        if count > 0 and self._moved(self._top, self._page).row >= len(self.source.rows):
            if self.source.has_below:
                self._load(self._load_below)
            else:
                self.follow()
        elif count < 0:
            self.source.cut_at_gap(min(self._bottom, len(self.source.rows)) - 1)
            if self._top.row == 0 and self.source.has_above:
                self._load(self._load_above)
        self.update_rows()

    def action_go(self, direction: str) -> None:
        """Scrolls a line or a page, or to the first (`home`) or last row (`end`)."""
        page = self._page - 1
        if direction == "end":
            self.follow()
        elif direction != "home":
            self.scroll_lines({"line-up": -1, "line-down": 1, "up": -page, "down": page}[direction])
        else:
            self.pause()
            self._place_top(Place(0, 0))
            if self.source.has_above or any(row.gap for row in self.source.rows):
                self._load(partial(self._jump, 0), replaces=True)
            self.update_rows()

    def wheel(self, steps: int) -> None:
        """Scrolls."""
        self.scroll_lines(steps * WHEEL_ROWS)

    # The file

    def _load(self, read: Callable[[], Awaitable[object]], *, replaces: bool = False) -> None:
        """Reads rows from the file in the background; skipped during another read unless it `replaces` that."""
        if self._loading is None or replaces:
            self._loading = read
            self._finish(read)

    @work(group="log", exclusive=True)
    async def _finish(self, read: Callable[[], Awaitable[object]]) -> None:
        with self._errors_shown():
            await read()
        if self._loading is read:
            self._loading = None
        self.update_rows()

    @contextmanager
    def _errors_shown(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.notify(f"The log file cannot be read: {error.strerror}.", markup=False)

    async def _load_above(self) -> None:
        """Loads rows above the first, and scrolls up by one."""
        if await self.source.load_above():
            self._place_top(self._moved(self._top, -1))

    async def _load_below(self) -> None:
        """Loads rows below the last, and follows the log again at its end."""
        position = self.source.rows[-1].position
        if (now := await self.source.load_below()) is None:
            self.follow()
        elif now != position:
            self._place_top(Place(index_of(self.source.rows, now), 0))

    def _fill(self) -> None:
        """Loads more rows while the view has room, such as after a jump into a long run of progress."""
        if self._top.row == 0 and self.source.has_above:
            self._load(self._load_above)
        elif self.source.has_below:
            self._load(self.source.load_below)

    async def _jump(self, offset: int, file: LogFile | None = None) -> None:
        """Shows the rows around an offset of the file."""
        self._pages_left = _MAX_FILL_PAGES
        if await self.source.jump(offset, self.sought, file):
            self._show(offset)

    def _show(self, position: int) -> None:
        """Scrolls to the first match in the row at a position, else to the row, unless visible."""
        self._wanted = None if self.size else position  # wrapping needs a size
        if self._wanted is not None:
            return
        row = self.source.rows[index := index_of(self.source.rows, position)]
        place = Place(index, part_of(row, self.size.width, self.sought.marks(row)))
        if not self._top <= place < self._moved(self._top, self._page):
            self._place_top(self._moved(place, -(self._page // 2)))

    # Search

    @property
    def _match_index(self) -> int | None:
        """The index of the row with the current match; None if not loaded."""
        if self.match is None or self.found is None:
            return None
        return self.source.index(self.match, self.found.file)

    def search(self, text: str) -> None:
        """Searches upwards from the newest visible row; an empty text ends the search and follows the log again."""
        self.workers.cancel_group(self, "search")
        self.sought, self.found, self.match = Query(text), None, None
        if text:
            self._search(self.sought)
        else:
            self.follow()
        self.screen.refresh_bindings()  # `esc` ends the search

    @work(group="search", exclusive=True)
    async def _search(self, query: Query) -> None:
        """Goes to the first match above the newest visible row, or else below it."""
        with self._errors_shown():
            source, rows, origin = self.source, self.source.rows[: self._bottom], 2 * LIVE
            if (file := await source.open()) is not None and not file.size:
                file = None
            if not source.following and rows:
                origin = rows[-1].end if file is None else await source.offset_after(rows[-1], file)
            origin = origin if origin >= 0 else 2 * LIVE
            self.found = found = Search(query, file, source.rows)
            while True:
                if self.match is None and found.found and (found.found[-1] < origin or not found.running):
                    self._visit(found.nearest("up", origin))
                self.update_rows()
                if not found.running:
                    return
                await found.step()

    @work
    async def search_next(self, direction: str) -> None:
        """Goes to the next match `up` or `down`; after the newest, to a newly written one or the first."""
        found, origin = self.found, self.match
        if self.sought.text and found is None:  # the log has changed since
            self._search(self.sought)
        if found is None:
            return
        if origin is None:
            origin = self.source.rows[self._top.row].position if self.source.rows else 0
        if direction == "up" and found.running and found.found[-1:] == [origin]:
            return  # more may be found
        if direction == "down" and not found.running and found.found[:1] in ([], [origin]):
            with self._errors_shown():
                await found.catch_up()
        if found is self.found:
            self._visit(found.nearest(direction, origin))

    def _visit(self, match: int | None) -> None:
        """Makes a match current, and shows it."""
        self.match, file = match, self.found.file if self.found is not None else None
        if (index := self._match_index) is not None and self.sought.marks(self.source.rows[index]):
            self.source.pause()
            self._show(self.source.rows[index].position)
        elif match is not None and file is not None:
            self._load(partial(self._jump, match, file), replaces=True)
        self.update_rows()
