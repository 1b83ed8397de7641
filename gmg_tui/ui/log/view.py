"""The widget that shows a log, with scrolling, search and selection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from textual import work
from textual.binding import BindingType
from textual.message import Message
from textual.selection import Selection
from textual.strip import Strip

from gmg_tui.model import units
from gmg_tui.ui import keys
from gmg_tui.ui.drawing import WHEEL_ROWS, Piece, Row
from gmg_tui.ui.log.rows import Place, Query, first_match_piece, highlight, index_of, move_place, wrap
from gmg_tui.ui.log.source import LogSource, Search
from gmg_tui.ui.rows import Rows, is_seen

if TYPE_CHECKING:
    from gmg_tui.ui.log.file import LogFile

_AFTER_ALL_LINES: Final = 1 << 62
"""An offset after every line."""


class LogView(Rows):
    """A view of a log that follows new lines or is paused.

    Attributes:
        empty_text: The text to show if there are no lines.
        source: The log.
        search: The current or last search, with an empty query if there is none.
        match: The position of the current match; None if there is none.
    """

    DEFAULT_CSS = "LogView { height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.SCROLL, *keys.MATCHES]
    ALLOW_SELECT = True

    class Changed(Message):
        """Posted when the log, or its visible part, may have changed."""

    def __init__(self) -> None:
        super().__init__()
        self.empty_text = ""
        self.source = LogSource("")
        self.match: int | None = None
        self.search = Search(Query(), None)
        self._top_position, self._top_piece = 0, 0
        """The position of the first visible row, and the index of the first visible piece of that row."""
        self._pending_position: int | None = None
        """The position to scroll to once the view has a size again."""
        self._current_read: Callable[[], Awaitable[object]] | None = None
        self._grew_during_read = False
        self._error = ""
        self._printed_lines, self._printed_at_pause = 0, 0
        """The number of lines printed so far, and the number when the log was paused."""
        self._continued: list[bool] = []
        """For each screen row, True if it continues the line above."""

    def open(self, source: LogSource) -> None:
        """Shows another log."""
        self.workers.cancel_group(self, "search")
        self.source = source
        self._top_position, self._top_piece, self._pending_position = 0, 0, None
        self.search, self.match, self._error = Search(self.search.query, None), None, ""
        self._load(source.refresh, replaces=True)
        self.update_rows()

    def show_newest(self, printed: int) -> None:
        """Shows newly written lines; `printed` is the number of lines printed so far."""
        self._printed_lines = printed
        if self.display and is_seen(self):
            self._grew_during_read = self._current_read is not None
            self._load(self.source.refresh)
        else:
            self.update_rows()

    # Drawing

    def update_rows(self) -> None:
        """Redraws changed cells, and reports the change."""
        super().update_rows()
        self.post_message(self.Changed())

    def make_rows(self, width: int, height: int) -> list[Row]:
        """Returns the visible lines."""
        if self._pending_position is not None and self.source.rows:
            self._scroll_to_row(self._pending_position)
            self.post_message(self.Changed())
        rows, match = self.source.rows, self._match_index
        if not rows:
            return [Row(width).add(f" {self._error or self.empty_text}", "dim")]
        lowest = self._move(Place(len(rows), 0), -self.size.height)
        top = lowest if self.source.following else min(self._top, lowest)
        self._place_top(top)
        screen_rows, continued = list[Row](), list[bool]()
        for index in range(top.row, len(rows)):
            wrapped = wrap(rows[index], width, self.search.query.spans(rows[index]), current=index == match)
            screen_rows += wrapped
            continued += [False, *[True] * (len(wrapped) - 1)]
            if len(screen_rows) >= self.size.height + top.piece:
                break
        self._continued = continued[top.piece :]
        return screen_rows[top.piece : top.piece + self.size.height]

    def status(self) -> list[Piece]:
        """Returns the log's status for the row of tabs, most important first."""
        if not (name := self.source.name):
            return []
        state = ("following", "ok") if self.source.following else (self._paused_text(), "warn")
        title = (f"{name} log", "title")
        error = [(self._error, "warn")] if self._error and self.source.rows else []
        if self.search.query.text:
            return [*error, (self._search_text(), "strong"), state, title]
        count = (units.count(self._printed_lines, "line") if self.source.rows else "", "dim")
        return [*error, *((count, title, state) if self.source.following else (state, count, title))]

    def _paused_text(self) -> str:
        if not self.source.rows:
            return "paused"
        end = self.source.rows[min(self._bottom, len(self.source.rows)) - 1].end
        new_lines = self._printed_lines - self._printed_at_pause
        new_text = f", {units.count(new_lines, 'new line')} ↓" if new_lines > 0 else ""
        return f"paused at {100 * end // max(self.source.size, end, 1)} %{new_text}"

    def _search_text(self) -> str:
        search = self.search
        if self._is_other_log and self.source.file is not None:
            return f"/{search.query.text}"
        progress = f"searching, {search.searched_pct} %" if search.running else ""
        if not search.matches:
            return progress or "no match"
        count, more = len(search.matches), "+" if search.is_full else ""
        number = f"{count - search.matches.index(self.match):,}" if self.match in search.matches else "…"
        return f"match {number} of {count:,}{more}{', ' if progress else ''}{progress}"

    # Selection

    def render_line(self, y: int) -> Strip:
        """Returns a screen row, with the selection highlighted."""
        strip, selection = super().render_line(y).apply_offsets(0, y), self.text_selection
        span = selection.get_span(y) if selection is not None else None
        if span is None:
            return strip
        return highlight(strip, *span, self.screen.get_component_rich_style("screen--selection"))

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
        """Pauses the log, as selected rows must not move."""
        if selection is not None and self.source.following:
            self.pause()
        super().selection_updated(selection)

    @property
    def text(self) -> str:
        """The text of the row with the current match, else of the last visible row; empty without rows."""
        rows, match = self.source.rows, self._match_index
        if match is not None:
            return rows[match].text
        return rows[min(self._bottom, len(rows)) - 1].text if rows else ""

    # Following and scrolling

    def _move(self, place: Place, count: int) -> Place:
        return move_place(self.source.rows, self.size.width, place, count)

    @property
    def _top(self) -> Place:
        """The place of the first visible row among the rows that are loaded now."""
        return Place(index_of(self.source.rows, self._top_position), self._top_piece)

    def _place_top(self, place: Place) -> None:
        if self.source.rows:
            row = self.source.rows[min(place.row, len(self.source.rows) - 1)]
            self._top_position, self._top_piece = row.position, place.piece

    @property
    def _bottom(self) -> int:
        """The index after the last visible row."""
        end = self._move(self._top, self.size.height)
        return end.row + (end.piece > 0)

    def follow(self) -> None:
        """Follows the newest lines."""
        self.source.following = True
        self.match = self._pending_position = None
        self._load(self.source.refresh, replaces=True)

    def pause(self) -> None:
        """Stops following, so that the visible rows stay in place."""
        if self.source.following:
            self.source.following, self._printed_at_pause = False, self._printed_lines
        self.update_rows()

    def scroll_lines(self, count: int) -> None:
        """Scrolls down by `count` screen rows (up if negative), and follows the log again at its end."""
        self.screen.clear_selection()
        self.pause()
        self._place_top(self._move(self._top, count))
        if count > 0 and self._move(self._top, self.size.height).row >= len(self.source.rows):
            self._load(self._load_below) if self.source.has_below else self.follow()
        elif count < 0 and self._top.row == 0 and self.source.has_above:
            self._load(self._load_above)
        self.update_rows()

    def action_go(self, direction: str) -> None:
        """Scrolls a line (`line-up`, `line-down`) or a page (`up`, `down`), or to an end (`home`, `end`)."""
        page = self.size.height - 1
        if direction == "end":
            self.follow()
        elif direction != "home":
            self.scroll_lines({"line-up": -1, "line-down": 1, "up": -page, "down": page}[direction])
        else:
            self.pause()
            self._place_top(Place(0, 0))
            if self.source.has_above:
                self._load(partial(self._jump, 0), replaces=True)
            self.update_rows()

    def scroll_wheel(self, steps: int) -> None:
        """Scrolls by steps of the mouse wheel."""
        self.scroll_lines(steps * WHEEL_ROWS)

    # The file

    def _load(self, read: Callable[[], Awaitable[object]], *, replaces: bool = False) -> None:
        """Starts a read in the background, unless another one is running; with `replaces`, cancels that one."""
        if self._current_read is None or replaces:
            self._current_read = read
            self._run_read(read)

    @work(group="log", exclusive=True)
    async def _run_read(self, read: Callable[[], Awaitable[object]]) -> None:
        await self._read(read)
        if self._current_read is read:
            self._current_read = None
        if self._grew_during_read:
            self.show_newest(self._printed_lines)
        else:
            self.update_rows()

    async def _read(self, read: Callable[[], Awaitable[object]]) -> None:
        try:
            await read()
            self._error = ""
        except OSError as error:
            self._error = f"The log file cannot be read: {error.strerror}."

    async def _load_above(self) -> None:
        if await self.source.load_above():
            self._place_top(self._move(self._top, -1))

    async def _load_below(self) -> None:
        if not await self.source.load_below():
            self.call_later(self.follow)

    async def _jump(self, offset: int, file: LogFile | None = None) -> None:
        if await self.source.jump(offset, self.search.query, file):
            self._scroll_to_row(offset)

    def _scroll_to_row(self, position: int) -> None:
        """Scrolls to the row at `position`, or to the first match in it, unless that is visible."""
        self._pending_position = None if self.size else position  # wrapping needs a size
        if self._pending_position is not None:
            return
        row = self.source.rows[index := index_of(self.source.rows, position)]
        place = Place(index, first_match_piece(row, self.size.width, self.search.query.spans(row)))
        if not self._top <= place < self._move(self._top, self.size.height):
            self._place_top(self._move(place, -(self.size.height // 2)))

    # Search

    @property
    def _match_index(self) -> int | None:
        """The index of the row with the current match; None if there is none, or if it is not loaded."""
        return None if self.match is None else self.source.index_at(self.match, self.search.file)

    @property
    def _is_other_log(self) -> bool:
        """True if this log has not been searched: the last search was in another one, as of the slot's last job."""
        file = self.search.file
        return file is None or (self.source.following and file is not self.source.file)

    def search_for(self, text: str) -> None:
        """Searches upwards from the last visible row; an empty text ends the search and follows the log again."""
        self.workers.cancel_group(self, "search")
        self.search, self.match = Search(Query(text), None), None
        if text:
            self._search()
        else:
            self.follow()
        self.screen.refresh_bindings()  # `esc` ends the search

    @work(group="search", exclusive=True)
    async def _search(self) -> None:
        """Goes to the first match above the last visible row's end, or else to the last match below it."""
        await self._read(self._search_file)
        self.update_rows()

    async def _search_file(self) -> None:
        source, rows = self.source, self.source.rows[: self._bottom]
        origin = rows[-1].end if rows and not source.following else _AFTER_ALL_LINES
        self.search = search = Search(self.search.query, await source.open())
        while True:
            if self.match is None and search.matches and (search.matches[-1] < origin or not search.running):
                self._go_to_match(search.nearest("up", origin))
            self.update_rows()
            if not search.running:
                return
            await search.step()

    @work
    async def action_search_next(self, direction: str) -> None:
        """Goes to the next match `up` or `down`; after the last one, to a newly written one or the first."""
        search = self.search
        if self._is_other_log:
            if search.query.text:
                self.search_for(search.query.text)
            return
        if direction == "down" and not search.running and search.matches[:1] in ([], [self.match]):
            await self._read(search.catch_up)
        origin = self.match
        if origin is None:
            origin = self.source.rows[self._top.row].position if self.source.rows else 0
        unsearched = direction == "up" and search.running and search.matches[-1:] == [origin]
        if search is self.search and not unsearched:
            self._go_to_match(search.nearest(direction, origin))

    def _go_to_match(self, match: int | None) -> None:
        self.match = match
        if match is None or self.search.file is None:
            self.update_rows()
            return
        self.pause()
        if (index := self._match_index) is not None and self.search.query.spans(self.source.rows[index]):
            self._scroll_to_row(self.source.rows[index].position)
            self.update_rows()
        else:
            self._load(partial(self._jump, match, self.search.file), replaces=True)
