"""The widget with the log of the selected worker, or of its group: followed or paused, scrolled, searched, selected."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from textual import work
from textual.message import Message
from textual.selection import Selection
from textual.strip import Strip

from gmg_tui.model import units
from gmg_tui.session.protocol import Lines
from gmg_tui.ui.drawing import SIGNS, WHEEL_ROWS, Piece, Row
from gmg_tui.ui.log.rows import LogRow, Place, Query, highlighted, index_of, moved, part_of, wrapped
from gmg_tui.ui.log.source import NO_RANKS, LogSource
from gmg_tui.ui.rows import Rows

if TYPE_CHECKING:
    from gmg_tui.ui.log.file import FileSearch, LogFile

_UNASKED_PAGES: Final = 32
"""Pages read without a scroll, to fill the view with what precedes a long run of progress."""


class LogView(Rows):
    """The visible part of a log.

    Attributes:
        empty: The text shown without lines.
        source: The log of a slot or group.
        sought: The text searched for.
        match: The position of the current match.
    """

    DEFAULT_CSS = "LogView { height: 1fr; }"
    ALLOW_SELECT = True

    class Changed(Message):
        """The log, or which part of it is shown, may have changed."""

    def __init__(self) -> None:
        super().__init__()
        self.empty = ""
        self.source = LogSource("")
        self.sought = Query()
        self.match: int | None = None
        self._search: FileSearch | None = None
        self._top_end, self._top_part = 0, 0
        """The `LogRow.end` of the first visible row, and the index of its first visible piece."""
        self._loading: Callable[[], Awaitable[object]] | None = None
        self._pages_left = _UNASKED_PAGES
        self._continued: list[bool] = []
        """For each screen row, whether it continues the line above."""

    def open(
        self, name: str, ranks: Mapping[str, int] = NO_RANKS, path: Callable[[], Path | None] = lambda: None
    ) -> None:
        """Shows the log of the slot `name`, or of a group's `ranks`; `path` returns the path of its file."""
        self._stop_search()
        self.source = LogSource(name, ranks, path)
        self._top_end, self._top_part, self.match, self._loading = 0, 0, None, None
        self._pages_left = _UNASKED_PAGES
        self.update_rows()

    def add_lines(self, lines: Lines) -> None:
        """Adds lines, and draws the first ones; late lines of another worker are ignored."""
        name, ranks = self.source.name, self.source.ranks
        if lines.slot not in (ranks or {name}):
            return
        is_first = not self.source.printed
        self.source.extend(lines.first, lines.lines, slot=lines.slot if ranks else "")
        if is_first:
            self.update_rows()

    @property
    def rows(self) -> Sequence[LogRow]:
        """The rows that can be scrolled through without reading the file."""
        return self.source.rows

    @property
    def following(self) -> bool:
        """True if the newest lines are visible; otherwise the visible rows stay."""
        return self.source.following

    # Drawing

    def update_rows(self) -> None:
        """Redraws what has changed."""
        super().update_rows()
        self.post_message(self.Changed())

    def make_rows(self, width: int, height: int) -> list[Row]:
        """Returns the visible lines."""
        rows, match = self.rows, self._match_index
        if not rows:
            return [Row(width).add(f" {self.empty}", "dim")]
        lowest = self._moved(Place(len(rows), 0), -self._page)
        top = lowest if self.following else min(self._top, lowest)
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
        """Returns what the row of tabs says of the log, the most important first."""
        name, ranks = self.source.name, self.source.ranks
        if not name:
            return []
        state = ("following", "ok") if self.following else (self._paused_text(), "warn")
        title = (f"{name} log, {len(ranks)} ranks" if ranks else f"{name} log", "title")
        if self.sought.text:
            return [(self._search_text(), "strong"), state, title]
        count = (units.count(self.source.printed, "line"), "dim")
        return [count, title, state] if self.following else [state, count, title]

    def _paused_text(self) -> str:
        if not self.rows:
            return "paused"
        last, file = min(self._bottom, len(self.rows)) - 1, self.source.file
        below = self.source.lines_below(last)
        if below is None and file is not None:
            return f"paused at {100 * self.rows[last].end / max(file.size, 1):.0f} % of {units.size(file.size)}"
        return f"paused, {units.count(below, 'line')} below {SIGNS.down}" if below else "paused"

    def _search_text(self) -> str:
        """Returns which match is shown of how many, and the progress of the search."""
        matches, search = self.matches(), self._search
        progress = f"searching, {search.searched_pct} %" if search is not None and search.running else ""
        if not matches and search is None and self.source.has_above:
            return f"no match in the newest {units.count(self.source.printed - self.rows[0].lines, 'line')}"
        if not matches:
            return progress or "no match"
        number = f"{matches.index(self.match) + 1:,}" if self.match in matches else SIGNS.ellipsis
        more = "+" if search is not None and search.is_full else ""
        return f"match {number} of {len(matches):,}{more}{', ' if progress else ''}{progress}"

    # Selection

    def render_line(self, y: int) -> Strip:
        """Returns a screen row, with the selection marked."""
        strip, selection = super().render_line(y).apply_offsets(0, y), self.text_selection
        span = selection.get_span(y) if selection is not None else None
        if span is None:
            return strip
        return highlighted(strip, *span, self.screen.get_component_rich_style("screen--selection"))

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Returns the selected text; a wrapped line is one line."""
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
        if selection is not None and self.following:
            self.pause()
        super().selection_updated(selection)

    @property
    def line(self) -> str:
        """The line of the current match, or else the newest visible one; empty if there is none."""
        rows, match = self.rows, self._match_index
        if match is not None:
            return rows[match].text
        return next((row.text for row in reversed(rows[: self._bottom]) if not row.gap), "")

    # Following and scrolling

    @property
    def _page(self) -> int:
        return max(0, self.size.height)

    def _moved(self, place: Place, count: int) -> Place:
        return moved(self.rows, self.size.width, place, count)

    @property
    def _top(self) -> Place:
        """The first visible row, which stays the same when rows are added or dropped."""
        return Place(index_of(self.rows, self._top_end - 1), self._top_part)

    def _place_top(self, place: Place) -> None:
        if self.rows:
            self._top_end, self._top_part = self.rows[min(place.row, len(self.rows) - 1)].end, place.part

    @property
    def _bottom(self) -> int:
        """The index after the last visible row."""
        end = self._moved(self._top, self._page)
        return end.row + (end.part > 0)

    def follow(self) -> None:
        """Shows the newest lines from now on."""
        if not self.following:
            self.source.follow()
            self._pages_left = _UNASKED_PAGES
        self.match = None
        self.update_rows()

    def pause(self) -> None:
        """Leaves the visible rows where they are."""
        self.source.pause()
        self.update_rows()

    def scroll_lines(self, count: int) -> None:
        """Scrolls down by `count` rows (up if negative); at its end the log is followed again."""
        self.screen.clear_selection()
        self.source.pause()
        self.source.catch_up()
        self._place_top(self._moved(self._top, count))
        if count > 0 and self._moved(self._top, self._page).row >= len(self.rows):
            if self.source.has_below:
                self._load(self._load_below)
            else:
                self.follow()
        elif count < 0 and self._top.row == 0 and self.source.has_above:
            self._load(self._load_above)
        self.update_rows()

    def go(self, direction: str) -> None:
        """Scrolls by a page `up` or `down`, or to the first (`home`) or last row (`end`)."""
        match direction:
            case "end":
                self.follow()
            case "home":
                self.pause()
                self._place_top(Place(0, 0))
                if self.source.has_above:
                    self._load(partial(self._jump, 0), replaces=True)
                self.update_rows()
            case "line-up" | "line-down":
                self.scroll_lines(1 if direction == "line-down" else -1)
            case _:
                self.scroll_lines((self._page - 1) * (1 if direction == "down" else -1))

    def wheel(self, steps: int) -> None:
        """Scrolls."""
        self.scroll_lines(steps * WHEEL_ROWS)

    # The file

    def _load(self, read: Callable[[], Awaitable[object]], *, replaces: bool = False) -> None:
        """Reads rows from the file, unless some are being read and `read` does not replace them."""
        if self._loading is None or replaces:
            self._loading = read
            self._finish(read)

    @work(group="log", exclusive=True)
    async def _finish(self, read: Callable[[], Awaitable[object]]) -> None:
        try:
            await read()
        except OSError as error:
            self.notify(f"The log file cannot be read: {error.strerror}.", markup=False)
        finally:
            if self._loading is read:
                self._loading = None
        self.update_rows()

    async def _load_above(self) -> None:
        """Reads what precedes the first row, and scrolls up by a row."""
        if await self.source.load_above():
            self._place_top(self._moved(self._top, -1))

    async def _load_below(self) -> None:
        """Reads what follows the last row; at the end of the log it is followed again."""
        if not await self.source.load_below():
            self.follow()

    def _fill(self) -> None:
        """Reads more if the view has room, as after a jump into a long run of progress."""
        if self._top.row == 0 and self.source.has_above:
            self._load(self._load_above)
        elif self.source.has_below:
            self._load(self.source.load_below)

    async def _jump(self, offset: int, file: LogFile | None = None) -> None:
        """Shows the rows around an offset of the file."""
        self._pages_left = _UNASKED_PAGES
        if await self.source.jump(offset, self.sought, file):
            self._show(offset, above=self._page // 2 if offset else 0)

    def _show(self, position: int, *, above: int) -> None:
        """Scrolls to the first match in the row with a position, or else to the row, below `above` others."""
        row = self.rows[index := index_of(self.rows, position)]
        part = part_of(row, self.size.width, self.sought.marks(row))
        self._place_top(self._moved(Place(index, part), -above))

    # Search

    @property
    def _match_index(self) -> int | None:
        """The index of the row with the current match; None if it is not among the rows."""
        file = self._search.file if self._search is not None else None
        if self.match is None or not self.source.has(self.match, file):
            return None
        return index_of(self.rows, self.match)

    def matches(self) -> list[int]:
        """Returns the positions of all matches, ascending: in the file, or else in the rows."""
        if self._search is not None:
            return self._search.found[::-1]
        return [row.start for row in self.rows if self.sought.marks(row)]

    def search(self, text: str) -> None:
        """Searches from the newest visible row upwards; an empty text ends the search and follows again."""
        self._stop_search()
        self.sought, self.match = Query(text), None
        if text:
            self._start_search(self.sought)
        else:
            self.follow()
        self.screen.refresh_bindings()  # `esc` ends the search

    @work(group="search", exclusive=True)
    async def _start_search(self, query: Query) -> None:
        """Searches the file, or what the engine has sent if there is none."""
        try:
            file, rows = await self.source.open(), self.rows[: self._bottom]
            if query is not self.sought:
                return
            if file is None or not file.size:
                self._visit(_next(self.matches(), "up", rows[-1].end if rows else 0))
                return
            origin = file.size if self.following or not rows else await self.source.offset_of(rows[-1], file)
            from gmg_tui.ui.log.file import FileSearch  # the first frame needs none

            self._search = search = FileSearch(file, query)
            await search.run(lambda: self._show_progress(search, origin))
            self._show_progress(search, origin)
        except OSError as error:
            self.notify(f"The log file cannot be searched: {error.strerror}.", markup=False)

    def _show_progress(self, search: FileSearch, origin: int) -> None:
        """Visits the first match above the origin, or below it if there is none above."""
        if search is not self._search:
            search.stop()
        elif self.match is None and search.found and (search.found[-1] < origin or not search.running):
            self._visit(_next(self.matches(), "up", origin))
        else:
            self.update_rows()

    def _stop_search(self) -> None:
        if self._search is not None:
            self._search.stop()
        self._search = None

    def search_next(self, direction: str) -> None:
        """Goes to the next match `up` or `down`."""
        search, matches = self._search, self.matches()
        if not self.sought.text or not matches:
            return
        is_last = self.match == matches[-1 if direction == "down" else 0]
        if search is not None and search.running and is_last and direction == "up":
            return  # more may be found
        if search is not None and not search.running and is_last and direction == "down":
            self._catch_up(search)
            return
        origin = self.match
        if origin is None:
            origin = self.rows[self._top.row].start if self.rows else 0
        self._visit(_next(matches, direction, origin))

    @work(group="search", exclusive=True)
    async def _catch_up(self, search: FileSearch) -> None:
        """Goes on to a match that was written since the search, or to the first one."""
        await search.catch_up()
        if search is self._search and self.match is not None:
            self._visit(_next(self.matches(), "down", self.match))

    def _visit(self, match: int | None) -> None:
        """Makes a match the current one, and shows it."""
        self.match, index = match, None
        if match is not None and (index := self._match_index) is not None and self.sought.marks(self.rows[index]):
            self.pause()
            row = self.rows[index]
            place = Place(index, part_of(row, self.size.width, self.sought.marks(row)))
            if not self._top <= place < self._moved(self._top, self._page):
                self._show(match, above=self._page // 2)
        elif match is not None and self._search is not None:
            self._load(partial(self._jump, match, self._search.file), replaces=True)
        self.update_rows()


def _next(matches: Sequence[int], direction: str, origin: int) -> int | None:
    """Returns the nearest match above or below the origin, wrapping around; None if there are none."""
    if not matches:
        return None
    number = bisect_right(matches, origin) % len(matches) if direction == "down" else bisect_left(matches, origin) - 1
    return matches[number]
