"""The widget with the log of the selected worker, or of its group: followed or paused, scrolled, searched, selected."""

from __future__ import annotations

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
from gmg_tui.ui.drawing import WHEEL_ROWS, Piece, Row
from gmg_tui.ui.log.buffer import NO_RANKS, LogBuffer
from gmg_tui.ui.log.pages import LogPages, paused_text, search_text
from gmg_tui.ui.log.rows import LogRow, Position, Query, back, forth, highlighted, index_of, next_of, part_of, wrapped
from gmg_tui.ui.rows import Rows

if TYPE_CHECKING:
    from gmg_tui.ui.log.file import FileSearch, LogFile

_UNASKED_PAGES: Final = 32
"""Pages read without a scroll, to fill the view with what precedes a long run of progress."""


class LogView(Rows):
    """The visible part of a log."""

    DEFAULT_CSS = "LogView { height: 1fr; }"
    ALLOW_SELECT = True

    class Behind(Message):
        """The log is followed again, and newer lines must be requested."""

    class Changed(Message):
        """The log, or which part of it is shown, may have changed."""

    def __init__(self) -> None:
        super().__init__()
        self.empty = ""
        """The text shown without lines."""
        self.source: tuple[str, Mapping[str, int]] = ("", NO_RANKS)
        """The name of the slot or group, and the group's ranks by slot."""
        self.pages = LogPages()
        self.sought = Query()
        self._search: FileSearch | None = None
        self._top = Position(0, 0)
        self._match_end: int | None = None
        """The `LogRow.end` of the current match."""
        self._loading: Callable[[], Awaitable[Position | None]] | None = None
        self._pages_left = _UNASKED_PAGES
        self._continued: list[bool] = []
        """For each screen row, whether it continues the line above."""

    def open(
        self, name: str, ranks: Mapping[str, int] = NO_RANKS, path: Callable[[], Path | None] = lambda: None
    ) -> None:
        """Show the log of the slot `name`, or of a group's `ranks`; `path` returns the path of its file."""
        self._stop_search()
        self.source, self.pages = (name, ranks), LogPages(ranks, path)
        self._top, self._match_end, self._loading = Position(0, 0), None, None
        self._pages_left = _UNASKED_PAGES
        self.update_rows()

    def add_lines(self, lines: Lines) -> None:
        """Add lines, and draw the first ones; late lines of another worker are ignored."""
        name, ranks = self.source
        if lines.slot not in (ranks or {name}):
            return
        is_first = self.buffer.empty
        self.buffer.extend(lines.first, lines.lines, slot=lines.slot if ranks else "")
        if is_first:
            self.update_rows()

    @property
    def buffer(self) -> LogBuffer:
        """The newest rows."""
        return self.pages.buffer

    @property
    def rows(self) -> Sequence[LogRow]:
        """The rows that can be scrolled through without reading the file."""
        return self.pages.rows

    # Drawing

    def update_rows(self) -> None:
        """Redraws what has changed."""
        super().update_rows()
        self.post_message(self.Changed())

    def make_rows(self, width: int, height: int) -> list[Row]:
        """Returns the visible lines."""
        rows, match = self.rows, self._match
        if not rows:
            return [Row(width).add(f" {self.empty}", "dim")]
        lowest = self._back(Position(len(rows), 0), self._page)
        self._top = lowest if self.following else max(Position(0, 0), min(self._top, lowest))
        lines: list[Row] = []
        self._continued = []
        for index in range(self._top.row, len(rows)):
            row = rows[index]
            lines += wrapped(row, width, self.sought.marks(row), here=index == match)
            self._continued += [number > 0 for number in range(len(lines) - len(self._continued))]
            if len(lines) >= self._page + self._top.part:
                break
        is_filled = len(lines) >= self._page
        if self._pages_left > 0 and ((self._top.row == 0 and self.pages.starts_later) or not is_filled):
            self._pages_left -= 1
            self.call_later(self._fill)
        self._continued = self._continued[self._top.part :]
        return lines[self._top.part : self._top.part + self._page]

    def status(self) -> list[Piece]:
        """Returns what the row of tabs says of the log, the most important first."""
        buffer, (name, ranks) = self.buffer, self.source
        if not name:
            return []
        last = self._forth(self._top, self._page - 1).row
        state = ("following", "ok") if self.following else (paused_text(self.pages, last), "warn")
        title = (f"{name} log, {len(ranks)} ranks" if ranks else f"{name} log", "title")
        if self.sought.text:
            return [(search_text(self._match_ends(), self._match_end, self._search, buffer), "strong"), state, title]
        count = (units.count(buffer.printed, "line"), "dim")
        return [count, title, state] if self.following else [state, count, title]

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
        """Pause: selected rows must not move."""
        if selection is not None and self.following:
            self.pause()
        super().selection_updated(selection)

    # Positions

    @property
    def _page(self) -> int:
        return max(0, self.size.height)

    def _back(self, position: Position, rows: int) -> Position:
        return back(self.rows, self.size.width, position, rows)

    def _forth(self, position: Position, rows: int) -> Position:
        return forth(self.rows, self.size.width, position, rows)

    # Following and scrolling

    @property
    def following(self) -> bool:
        """True if the newest lines are visible; otherwise the visible rows stay."""
        return not self.buffer.paused

    def follow(self) -> None:
        """Show the newest lines from now on."""
        self.pages.close()
        if self.buffer.paused:
            self.buffer.resume()
            self._pages_left = _UNASKED_PAGES
            if self.buffer.below > 0:
                self.post_message(self.Behind())
        self._match_end = None
        self.update_rows()

    def pause(self) -> None:
        """Leave the visible rows where they are."""
        if not self.buffer.paused:
            self.buffer.pause()
        self.update_rows()

    def scroll_lines(self, rows: int) -> None:
        """Scroll down by `rows` (up if negative); at its end the log is followed again."""
        self.screen.clear_selection()
        self._top = self._forth(self._top, rows) if rows > 0 else self._back(self._top, -rows)
        if rows > 0 and self._forth(self._top, self._page).row >= len(self.rows):
            if self.pages.window is None:
                self.follow()
            else:
                self._load_below()
            return
        self.pause()
        if rows < 0 and self._top.row == 0 and self.pages.starts_later:
            self._load_above()

    def go(self, direction: str) -> None:
        """Scroll by a page `up` or `down`, or to the first (`home`) or last row (`end`)."""
        match direction:
            case "end":
                self.follow()
            case "home":
                self.pause()
                self._top = Position(0, 0)
                if self.pages.starts_later:
                    self._load(partial(self._jump, 0))
                self.update_rows()
            case "line-up" | "line-down":
                self.scroll_lines(1 if direction == "line-down" else -1)
            case _:
                self.scroll_lines((self._page - 1) * (1 if direction == "down" else -1))

    def wheel(self, steps: int) -> None:
        """Scroll."""
        self.scroll_lines(steps * WHEEL_ROWS)

    # The file

    def _load(self, read: Callable[[], Awaitable[Position | None]]) -> None:
        """Read rows from the file; `read` returns the new position, None to keep it."""
        self._loading = read
        self._finish(read)

    @work(group="log", exclusive=True)
    async def _finish(self, read: Callable[[], Awaitable[Position | None]]) -> None:
        try:
            self._top = await read() or self._top
        except OSError as error:
            self.notify(f"The log file cannot be read: {error.strerror}.", markup=False)
        finally:
            if self._loading is read:
                self._loading = None
        self.update_rows()

    def _load_above(self) -> None:
        """Read what precedes the first row, unless something is being read."""
        if self._loading is None:
            self._load(partial(self._above, self.pages))

    async def _above(self, pages: LogPages) -> Position | None:
        moved = await pages.load_above()
        return None if moved is None else self._back(Position(moved, 0), 1)

    def _load_below(self, *, follows: bool = True) -> None:
        """Read what follows the last row, unless something is being read; at its end the log is followed again."""
        if self._loading is None:
            self._load(partial(self._below, self.pages, follows=follows))

    async def _below(self, pages: LogPages, *, follows: bool) -> Position | None:
        end, part = self.rows[self._top.row].end, self._top.part
        if await pages.load_below():
            return Position(index_of(pages.rows, end - 1), part)
        if follows:
            self.follow()
        return None

    def _fill(self) -> None:
        """Read more if the view has room, as after a jump into a long run of progress."""
        if self._top.row == 0 and self.pages.starts_later:
            self._load_above()
        elif self.pages.window is not None and self.pages.window.rows:
            self._load_below(follows=False)

    async def _jump(self, offset: int, file: LogFile | None = None) -> Position | None:
        """Show the rows around an offset of the file."""
        self.pause()
        self._pages_left = _UNASKED_PAGES
        if not await self.pages.jump(offset, self.sought, file):
            return None
        row = self.rows[index := index_of(self.rows, offset)]
        part = part_of(row, self.size.width, self.sought.marks(row))
        return self._back(Position(index, part), self._page // 2 if offset else 0)

    # Search

    @property
    def _match(self) -> int | None:
        """The index of the row with the current match."""
        if self._match_end is None or not self.rows:
            return None
        index = index_of(self.rows, self._match_end - 1)
        return index if self.rows[index].end == self._match_end else None

    def _match_ends(self) -> list[int]:
        """The `LogRow.end` of all matching rows, ascending: in the file, or else in the buffer."""
        if self._search is not None:
            return [offset + 1 for offset in reversed(self._search.found)]
        return [row.end for row in self.rows if self.sought.marks(row)]

    @property
    def line(self) -> str:
        """The line of the current match, or else the newest visible one; empty if there is none."""
        rows, match = self.rows, self._match
        if match is not None:
            return rows[match].text
        last = self._forth(self._top, max(0, self._page - 1)).row
        return next((row.text for row in reversed(rows[: last + 1]) if not row.gap), "")

    def search(self, query: str) -> None:
        """Search for `query` from the newest visible row upwards; an empty one ends the search and follows again."""
        self._stop_search()
        self.sought, self._match_end = Query(query), None
        if query:
            self._start_search(self.sought)
        else:
            self.follow()
        self.screen.refresh_bindings()  # `esc` ends the search

    @work(group="search", exclusive=True)
    async def _start_search(self, query: Query) -> None:
        """Search the file, or what the engine has sent if there is none."""
        try:
            file = await self.pages.open()
            if query is not self.sought:
                return
            if file is None or not file.size:
                self._visit(next_of(self._match_ends(), "up", self._bottom))
                return
            origin = file.size
            if self.pages.window is not None:
                origin = self._bottom
            elif not self.following:
                rows = self.rows[: self._forth(self._top, self._page).row]
                origin = await self.pages.offset_of(rows[-1], file) if rows else origin
            from gmg_tui.ui.log.file import FileSearch  # the first frame needs none

            self._search = search = FileSearch(file, query)
            await search.run(lambda: self._show_progress(search, origin))
            if search is self._search:
                self._show_progress(search, origin)
        except OSError as error:
            self.notify(f"The log file cannot be searched: {error.strerror}.", markup=False)

    def _show_progress(self, search: FileSearch, origin: int) -> None:
        """Visit the first match above the origin, or below it if there is none above."""
        if search is not self._search:
            search.stop()
        elif self._match_end is None and search.found and (search.found[-1] < origin or not search.running):
            self._visit(next_of(self._match_ends(), "up", origin + 1))
        else:
            self.update_rows()

    def _stop_search(self) -> None:
        if self._search is not None:
            self._search.stop()
        self._search = None

    @property
    def _bottom(self) -> int:
        """The `LogRow.end` below the visible rows."""
        last = self._forth(self._top, self._page).row
        return self.rows[last].end if last < len(self.rows) else self.rows[-1].end + 1 if self.rows else 0

    def search_next(self, direction: str) -> None:
        """Go to the next match `up` or `down`."""
        if not self.sought.text:
            return
        search, ends, here = self._search, self._match_ends(), self._match_end
        if search is not None and direction == "down" and ends and here == ends[-1] and not search.running:
            self._catch_up(search)
        elif search is not None and search.running and direction == "up" and ends and here == ends[0]:
            return  # more may be found
        else:
            origin = here if here is not None else self.rows[self._top.row].end if self.rows else 0
            self._visit(next_of(ends, direction, origin))

    @work(group="search", exclusive=True)
    async def _catch_up(self, search: FileSearch) -> None:
        """Go on to a match that was written since the search, or to the first one."""
        await search.catch_up()
        if search is self._search and self._match_end is not None:
            self._visit(next_of(self._match_ends(), "down", self._match_end))

    def _visit(self, end: int | None) -> None:
        """Make a match the current one, and show it."""
        self._match_end = end
        if end is None:
            self.update_rows()
        elif self._search is not None and (self.pages.window is None or self._match is None):
            self._load(partial(self._jump, end - 1, self._search.file))
        elif (index := self._match) is not None:
            row = self.rows[index]
            match = Position(index, part_of(row, self.size.width, self.sought.marks(row)))
            if not self._top <= match < self._forth(self._top, self._page):
                self._top = self._back(match, self._page // 2)
            self.pause()
