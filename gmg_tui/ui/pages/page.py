"""The base classes of pages and of pages with a table, and the page with a job's log."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gmg_tui.model import units
from gmg_tui.model.errors import GmgError
from gmg_tui.ui import keys
from gmg_tui.ui.dialogs import LineBar, open_line
from gmg_tui.ui.drawing import Piece, Row
from gmg_tui.ui.facts import Fact
from gmg_tui.ui.log.source import LogSource
from gmg_tui.ui.log.view import LogView
from gmg_tui.ui.rows import KeysFooter, Lines
from gmg_tui.ui.session_app import SessionApp
from gmg_tui.ui.table import DescribedTable, Table
from gmg_tui.ui.terminal import TrueSizeScreen

T = TypeVar("T")


class Page(TrueSizeScreen[None]):
    """A screen with a title and a footer, which covers the main screen until `esc`."""

    DEFAULT_CSS = "Page { layout: vertical; overflow: hidden; #title { height: 1; padding: 0 1; } }"
    app: SessionApp
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "back", "Back", id="back", tooltip="Go back one step.")]
    POLL_INTERVAL_S: ClassVar[float] = 3.0
    """Seconds from an answer of the engine to the next query."""
    OPENED_BY: ClassVar[str] = ""
    """The action that opens the page from any screen; unavailable while the page is open."""

    def __init__(self) -> None:
        super().__init__()
        self._title, self._keys = Lines(self._title_rows, id="title"), KeysFooter(self.has_effect)
        self.failure = ""
        """The reason why the page may be out of date; empty if it is current."""

    def compose(self) -> ComposeResult:
        """Yields the title, the body and the keys."""
        yield self._title
        yield from self.body()
        yield self._keys

    def body(self) -> ComposeResult:
        """Yields the widgets between the title and the keys."""
        raise NotImplementedError

    def title_pieces(self) -> Iterable[Piece]:
        """Returns the pieces of the title, most important first."""
        raise NotImplementedError

    def _title_rows(self, width: int, height: int) -> list[Row]:
        silent_s = self.app.view.silent_s
        failure = f"engine silent for {units.span(silent_s)}" if silent_s else self.failure
        row = Row(width).add(f"⚠ {failure}  " if failure else "", "warn")
        for text, style in self.title_pieces():
            row.add(text, style)
        return [row]

    def redraw_bars(self) -> None:
        """Redraws the title and the keys."""
        self._title.update_rows()
        self._keys.update_rows()

    @work(exclusive=True, group="poll")
    async def poll(self) -> None:
        """Calls `fetch` now, and again `POLL_INTERVAL_S` after each answer or error."""
        while True:
            try:
                await self.fetch()
                self.failure = ""
            except GmgError as error:
                self.failure = str(error)
            self.redraw_bars()
            await asyncio.sleep(self.POLL_INTERVAL_S)

    async def fetch(self) -> None:
        """Queries the engine for data that snapshots lack, and shows it. Raises `GmgError` if there is no answer."""
        raise NotImplementedError

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Returns True if `action` is available; on a read-only screen, actions that change the session are not."""
        return not self.app.unavailable_reason(action)

    def has_effect(self, action: str) -> bool:
        """Returns False if the keys of `action` would do nothing, or only show a message."""
        return True

    def action_back(self) -> None:
        """Returns to the previous screen."""
        self.dismiss(None)


class LogPage(Page):
    """The log of a job that no longer has a worker."""

    BINDINGS: ClassVar[list[BindingType]] = [keys.SEARCH]

    def __init__(self, name: str, path: Path) -> None:
        super().__init__()
        self._log, self._source = LogView(), LogSource(name, lambda: path)
        self._log.can_focus = True  # for its keys

    def body(self) -> ComposeResult:
        """Yields the log."""
        yield self._log

    def on_mount(self) -> None:
        """Opens the log at its end."""
        self._log.focus()
        self._log.empty_text = "The log is empty, or cannot be read."
        self._log.open(self._source)

    def title_pieces(self) -> Iterable[Piece]:
        """Returns the job's name, and the status of its log."""
        pieces = [piece for piece in self._log.status() if piece[1] not in {"dim", "ok"}]  # no counts, no `following`
        return [(f"{text}  ", style) for text, style in reversed(pieces)]

    def on_log_view_changed(self) -> None:
        """Updates the title with the status of the log."""
        self.redraw_bars()

    async def action_search(self) -> None:
        """Opens the search line."""
        await open_line(self, LineBar(self._log.search.query.text, "search the log", self._log.search_for))

    def action_back(self) -> None:
        """Ends the search, else returns to the previous screen."""
        if self._log.search.query.text:
            self._log.search_for("")
        else:
            super().action_back()


class TablePage(Page, Generic[T]):
    """A page with a table of data from the engine, and the details of the selected row."""

    DEFAULT_CSS = "TablePage DescribedTable > Facts { min-height: 3; max-height: 25%; padding: 0 1; }"
    ENTER: ClassVar[str] = ""
    """The action of `enter`, and of a click on the selected row."""
    PALETTE: ClassVar[Sequence[tuple[str, str, str]]] = ()
    """Commands without a key: title, explanation and action."""

    def __init__(self, table: Table[T]) -> None:
        super().__init__()
        self.table = table
        self.listing = DescribedTable(table, self.facts)

    def body(self) -> ComposeResult:
        """Yields the table with the details of the selected row."""
        yield self.listing

    def facts(self, row: T) -> Iterable[Fact]:
        """Returns the facts about a row in full, as its cells may be cut."""
        raise NotImplementedError

    def on_table_moved(self) -> None:
        """Updates the keys: not all have an effect on every row."""
        self.redraw_bars()

    async def on_table_chosen(self, event: Table.Chosen) -> None:
        """Runs the action of `enter` after a click on the selected row."""
        if self.ENTER and event.table is self.table:
            await self.app.run_action(self.ENTER, self)

    @property
    def palette(self) -> Sequence[tuple[str, str, str]]:
        """The page's palette entries: its own, and one for sorting by each column."""
        explanation = "Sort the rows, or reverse their order."
        sort = ((f"Sort by {by.heading}", explanation, f"sort_by({by.name!r})") for by in self.table.shown_columns)
        return (*self.PALETTE, *sort)

    def action_sort_by(self, name: str) -> None:
        """Sorts by the column called `name`."""
        self.table.action_sort_by(name)
