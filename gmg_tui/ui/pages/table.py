"""A `DataTable` for any row model of `gmg_tui.results.column`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Generic, NamedTuple, TypeVar

from rich.cells import cell_len
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.widgets import DataTable

from gmg_tui.model import units
from gmg_tui.results.column import Column, Where, ranked
from gmg_tui.ui.drawing import SIGNS, Appearance, ink, safe

T = TypeVar("T")


class _Cell(NamedTuple, Generic[T]):
    """A cell, whose text is made only when it comes into view."""

    table: RowTable[T]
    key: str
    column: Column[T]

    def __rich__(self) -> Text:
        return self.table.cell_text(self.key, self.column)


class RowTable(DataTable[_Cell[T]], Generic[T], inherit_bindings=False):
    """Rows of one kind, sorted by a click on a heading; the cursor stays on its row while rows change.

    Columns without any value are left out, and a column only ever becomes wider. Numbers are first sorted from the
    largest; unknown values are always last.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "cursor_up", "Up", show=False, id="up"),
        Binding("down,j", "cursor_down", "Down", show=False, id="down"),
        Binding("left,h", "cursor_left", "Left", show=False, id="left"),
        Binding("right,l", "cursor_right", "Right", show=False, id="right"),
        Binding("pageup", "page_up", "Page up", show=False, id="page-up"),
        Binding("pagedown", "page_down", "Page down", show=False, id="page-down"),
        Binding("home", "scroll_top", "First", show=False, id="first"),
        Binding("end", "scroll_bottom", "Last", show=False, id="last"),
    ]
    """Textual's without `enter`, which is the page's."""

    def __init__(
        self,
        columns: Sequence[Column[T]],
        *,
        key: Callable[[T], str],
        style: Callable[[T], str] = lambda row: "text",
        sort_by: str = "",
        follow: Callable[[Sequence[T]], T | None] = lambda rows: None,
    ) -> None:
        """A table without rows.

        Args:
            columns: All columns, the most important first: those beyond the width are reached by scrolling.
            key: The identity of a row.
            style: The name of the style of a row's state, in which its columns `state` and `reason` are written.
            sort_by: The column by which the rows are sorted at first; empty for the order in which they are given.
            follow: The row that has the cursor until the user moves it.
        """
        super().__init__(cursor_type="row", cursor_background_priority="css")
        self.use(columns)
        self._key = key
        self._style = style
        self._follow = follow
        self._rows: dict[str, T] = {}
        """The rows, by their key, in the order in which they are given."""
        self._widths: dict[str, int] = {}
        """Of each column with a value in any row, by its name."""
        self._sort_by = sort_by
        self._descending = sort_by in self._all and not self._all[sort_by].left
        self._updating = False
        self.following = True
        """Whether the cursor stays on the row of `follow`."""

    def on_resize(self) -> None:
        """Keep the cursor in view, and draw again what Textual 8.2.8 may have drawn from lines of the size before."""
        self.move_cursor(row=self.cursor_row, animate=False)
        self.refresh()

    @property
    def selected(self) -> T | None:
        """The row under the cursor; None in an empty table."""
        return self._rows.get(self._key_at(self.cursor_row))

    def _key_at(self, number: int) -> str:
        """The key of the row with this number; empty where there is none."""
        return self.ordered_rows[number].key.value or "" if 0 <= number < self.row_count else ""

    @property
    def shown_columns(self) -> list[Column[T]]:
        """Those with a value in any row."""
        return [column for column in self._all.values() if column.name in self._widths]

    def use(self, columns: Iterable[Column[T]]) -> None:
        """Have these columns, if they are for a screen, from the next rows on."""
        self._all = {column.name: column for column in columns if Where.SCREEN in column.where}

    # Rows

    def show(self, rows: Sequence[T]) -> None:
        """Show these rows from now on."""
        before, self._rows = self._rows, {self._key(row): row for row in rows}
        number, key = self.cursor_row, self._key_at(self.cursor_row)
        changed = [row for name, row in self._rows.items() if (old := before.get(name)) is not row and old != row]
        self._updating = True
        if self._widen(changed) or before.keys() != self._rows.keys():
            self.clear(columns=True)
            for column in self.shown_columns:
                self.add_column(self._heading(column), width=self._widths[column.name], key=column.name)
            for name in self._rows:
                self.add_row(*(_Cell(self, name, column) for column in self.shown_columns), key=name)
        elif changed:  # the cells are as they were, and are to be drawn again
            self.update_cell_at(Coordinate(0, 0), self.get_cell_at(Coordinate(0, 0)))
        self._sort()
        self._move_cursor(key, number)
        self._updating = False

    def _widen(self, rows: Iterable[T]) -> bool:
        """Make room for the texts of these rows; whether any column changes."""
        before = dict(self._widths)
        for row in rows:
            for name, column in self._all.items():
                if column.value(row) is not None:
                    width = min(column.limit, cell_len(column.text(row)))
                    heading = cell_len(column.heading) + 1  # for the sign of the order
                    self._widths[name] = max(width, self._widths.get(name, heading))
        return before != self._widths

    def _move_cursor(self, key: str, number: int) -> None:
        """Put the cursor on the followed row, or back on the row with this key, or else the nearest to its number."""
        followed = self._follow(list(self._rows.values())) if self.following else None
        wanted = self._key(followed) if followed is not None else key
        number = self.get_row_index(wanted) if wanted in self._rows else min(number, self.row_count - 1)
        if number != self.cursor_row:
            self.move_cursor(row=max(0, number), animate=False)

    def watch_cursor_coordinate(self, old_coordinate: Coordinate, new_coordinate: Coordinate) -> None:
        """Stop following once the user moves the cursor."""
        super().watch_cursor_coordinate(old_coordinate, new_coordinate)
        if not self._updating and old_coordinate.row != new_coordinate.row:
            self.following = False

    def follow(self) -> None:
        """Have the cursor follow again."""
        self.following = True
        self._move_cursor("", 0)

    # Order

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """Sort by the column; again the other way round."""
        event.stop()
        self.sort_by(event.column_key.value or "")

    def sort_by(self, name: str) -> None:
        """Sort by the column with this name, or the other way round where the rows are sorted by it."""
        self._descending = not self._descending if name == self._sort_by else not self._all[name].left
        self._sort_by = name
        for column in self.shown_columns:
            self.columns[column.name].label = self._heading(column)  # type: ignore[index]
        self.show(list(self._rows.values()))

    def _heading(self, column: Column[T]) -> Text:
        sign = SIGNS.down if self._descending else SIGNS.up
        text = f"{safe(column.heading)}{sign if column.name == self._sort_by else ''}"
        return Text(text, justify="left" if column.left else "right", no_wrap=True)

    def _sort(self) -> None:
        """Put the rows in order, if they are not."""
        rows = list(self._rows.values())
        if self._sort_by in self._all:
            rows = ranked(self._all[self._sort_by], rows, descending=self._descending)
        keys = list(map(self._key, rows))
        if [row.key.value for row in self.ordered_rows] != keys:
            numbers = {key: number for number, key in enumerate(keys)}
            self.sort(self.shown_columns[0].name, key=lambda cell: numbers[cell.key])

    # Cells

    def cell_text(self, key: str, column: Column[T]) -> Text:
        """A cell, in the colours of the theme but without a background: that is the cursor's."""
        row = self._rows[key]
        has_value = column.value(row) is not None
        name = self._style(row) if column.name in {"state", "reason"} else "text" if has_value else "dim"
        appearance: Appearance = self.app.appearance  # type: ignore[attr-defined]
        return Text(
            safe(column.text(row) if has_value else "" if column.left else units.NOT_KNOWN),
            ink(appearance[name]),
            justify="left" if column.left else "right",
            no_wrap=True,
            overflow="ellipsis",
        )
