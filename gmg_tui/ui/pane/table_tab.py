"""A tab with a table, and all about its selected row below."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from textual.app import ComposeResult
from textual.containers import Vertical

from gmg_tui.ui.facts import Fact, Facts
from gmg_tui.ui.table import Table

T = TypeVar("T")


class TableTab(Vertical, Generic[T]):
    """A table of the pane, moved by the keys of the main screen."""

    DEFAULT_CSS = "TableTab { height: 1fr; & > Facts { max-height: 40%; } }"

    def __init__(self, table: Table[T], describe: Callable[[T], Iterable[Fact]]) -> None:
        super().__init__()
        self.table = table
        table.can_focus = False
        self._describe = describe
        self._facts = Facts()

    def compose(self) -> ComposeResult:
        """Yields the table and what is below it."""
        yield from (self.table, self._facts)

    def show(self, rows: Sequence[T], empty: str) -> None:
        """Shows these rows, or why there are none."""
        self.table.empty = empty
        self.table.show(rows)
        self.on_table_moved()

    def on_table_moved(self) -> None:
        """Describes the row under the cursor."""
        row = self.table.selected
        self._facts.show(self._describe(row) if row is not None else ())

    def update_rows(self) -> None:
        """Redraws what has changed."""
        self.table.update_rows()

    def go(self, direction: str) -> None:
        """Moves the cursor."""
        self.table.go(direction)
