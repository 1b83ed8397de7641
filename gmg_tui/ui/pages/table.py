"""A `DataTable` for any row model of `gmg_tui.columns`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Final, Generic, NamedTuple, TypeVar

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.widgets import DataTable

from gmg_tui import units
from gmg_tui.columns import Column
from gmg_tui.ui.drawing.appearance import UNICODE, Appearance, safe

T = TypeVar("T")

_SORTED: Final = 1
"""Cells that a heading keeps for the sign of the sort order."""


class Order(NamedTuple):
    """How the rows are sorted."""

    column: str
    """Its name."""
    descending: bool


class _Cell(Generic[T]):
    """A cell, whose text is made only when it comes into view."""

    __slots__ = ("column", "row", "table")

    def __init__(self, table: RowTable[T], row: T, column: Column[T]) -> None:
        self.table = table
        self.row = row
        self.column = column

    def __rich__(self) -> Text:
        column = self.column
        text = self.table.unknown if column.value(self.row) is None else column.text(self.row)
        return Text(
            safe(text),
            self.table.cell_style(self.row, column),
            justify="left" if column.left else "right",
            no_wrap=True,
            overflow="ellipsis",
        )


class RowTable(DataTable[_Cell[T]], Generic[T], inherit_bindings=False):
    """Rows of one kind, sorted by a click on a heading; the cursor stays on its row while rows change.

    Cells are updated only where their text changes. Columns without any value are left out, and a column only ever
    becomes wider. Numbers are first sorted from the largest; unknown values are always last.
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
        style: Callable[[T, Column[T]], str] = lambda row, column: "text",
        order: Order | None = None,
        follow: Callable[[Sequence[T]], T | None] = lambda rows: None,
        unknown: str = units.NOT_KNOWN,
    ) -> None:
        """A table without rows.

        Args:
            columns: All columns, the most important first: those beyond the width are reached by scrolling.
            key: The identity of a row.
            style: The name of a cell's style.
            order: How the rows are sorted at first; None for the order in which they are given.
            follow: The row that has the cursor until the user moves it.
            unknown: What a cell without a value has.
        """
        super().__init__(cursor_type="row", cursor_background_priority="css")
        self._all = tuple(columns)
        self._key = key
        self._style = style
        self._follow = follow
        self.unknown = unknown
        self._rows: dict[str, T] = {}
        """The rows, by their key, as they are given."""
        self._widths = {column.name: cell_len(column.heading) + _SORTED for column in columns}
        self._valued: set[str] = set()
        """Columns with a value in any row."""
        self._placing = False
        self._styles: dict[str, Style] = {}
        self.order = order
        self.following = True
        """Whether the cursor stays on the row of `follow`."""

    def on_mount(self) -> None:
        """Follow the theme."""
        self.app.theme_changed_signal.subscribe(self, lambda _: self._styles.clear())

    def on_resize(self) -> None:
        """Keep the cursor in view."""
        self.move_cursor(row=self.cursor_row, animate=False)

    @property
    def selected(self) -> T | None:
        """The row under the cursor; None in an empty table."""
        return self._rows.get(self._at(self.cursor_row))

    def _at(self, number: int) -> str:
        """The key of the row with this number; empty where there is none."""
        return self.ordered_rows[number].key.value or "" if 0 <= number < self.row_count else ""

    # Rows

    def show(self, rows: Sequence[T]) -> None:
        """Show these rows from now on."""
        before, self._rows = self._rows, {self._key(row): row for row in rows}
        at, key = self.cursor_row, self._at(self.cursor_row)
        changed = {name: row for name, row in self._rows.items() if before.get(name) != row}
        gone = [name for name in before if name not in self._rows]
        self._placing = True
        if self._widen(changed.values()) or len(gone) > len(self._rows) // 4:
            self._build()
        else:
            for name in gone:
                self.remove_row(name)
            for name, row in changed.items():
                if name in before:
                    self._change(name, before[name], row)
                else:
                    self._add(name, row)
        self._sort()
        self._place(key, at)
        self._placing = False

    def _widen(self, rows: Iterable[T]) -> bool:
        """Make room for the texts of these rows; whether the columns change."""
        wider = False
        for row in rows:
            for column in self._all:
                if column.value(row) is None:
                    continue
                width = min(column.limit, cell_len(column.text(row)))
                if column.name not in self._valued or width > self._widths[column.name]:
                    self._valued.add(column.name)
                    self._widths[column.name] = max(width, self._widths[column.name])
                    wider = True
        return wider

    def _build(self) -> None:
        """Fill the table anew."""
        self.clear(columns=True)
        for column in self.shown_columns:
            self.add_column(self._heading(column), width=self._widths[column.name], key=column.name)
        for name, row in self._rows.items():
            self._add(name, row)

    @property
    def shown_columns(self) -> list[Column[T]]:
        """Those with a value in any row."""
        return [column for column in self._all if column.name in self._valued]

    def _add(self, name: str, row: T) -> None:
        self.add_row(*(_Cell(self, row, column) for column in self.shown_columns), key=name)

    def _change(self, name: str, before: T, row: T) -> None:
        for column in self.shown_columns:
            if column.text(before) != column.text(row) or self._style(before, column) != self._style(row, column):
                self.update_cell(name, column.name, _Cell(self, row, column))

    def _place(self, key: str, at: int) -> None:
        """Put the cursor on the followed row, or back on the row with this key, or else the nearest to where it was."""
        followed = self._follow(list(self._rows.values())) if self.following else None
        wanted = self._key(followed) if followed is not None else key
        number = self.get_row_index(wanted) if wanted in self._rows else min(at, self.row_count - 1)
        if number != self.cursor_row:
            self.move_cursor(row=max(0, number), animate=False)

    def watch_cursor_coordinate(self, old_coordinate: Coordinate, new_coordinate: Coordinate) -> None:
        """Stop following once the user moves the cursor."""
        super().watch_cursor_coordinate(old_coordinate, new_coordinate)
        if not self._placing and old_coordinate.row != new_coordinate.row:
            self.following = False

    def select(self, key: str) -> bool:
        """Move the cursor to the row with this key; whether there is one."""
        if key not in self._rows:
            return False
        self.move_cursor(row=self.get_row_index(key), animate=False)
        return True

    def action_follow(self) -> None:
        """Have the cursor follow again."""
        self.following = True
        self.show(list(self._rows.values()))

    # Order

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """Sort by the column; again the other way round."""
        event.stop()
        self.sort_by(event.column_key.value or "")

    def sort_by(self, name: str) -> None:
        """Sort by the column with this name, or the other way round where the rows are sorted by it."""
        column = next(column for column in self._all if column.name == name)
        again = self.order is not None and self.order.column == name
        descending = not self.order.descending if self.order is not None and again else not column.left
        self.order = Order(name, descending)
        for shown in self.shown_columns:
            self.columns[shown.name].label = self._heading(shown)  # type: ignore[index]
        self.show(list(self._rows.values()))

    def _heading(self, column: Column[T]) -> Text:
        sign = ""
        if self.order is not None and self.order.column == column.name:
            sign = UNICODE.down if self.order.descending else UNICODE.up
        text = f"{safe(column.heading)}{sign}"
        return Text(text, justify="left" if column.left else "right", no_wrap=True)

    def _sort(self) -> None:
        """Put the rows in order, if they are not."""
        wanted = {key: number for number, key in enumerate(self._sorted())}
        if wanted and [row.key.value for row in self.ordered_rows] != list(wanted):
            first = self.shown_columns[0].name
            self.sort(first, key=lambda cell: wanted[self._key(cell.row)])

    def _sorted(self) -> list[str]:
        if self.order is None:
            return list(self._rows)
        name = self.order.column
        column = next(column for column in self._all if column.name == name)
        values = {key: column.value(row) for key, row in self._rows.items()}
        valued = [key for key, value in values.items() if value is not None]
        valued.sort(key=lambda key: values[key], reverse=self.order.descending)  # type: ignore[arg-type,return-value]
        return [*valued, *(key for key, value in values.items() if value is None)]

    # Style

    def cell_style(self, row: T, column: Column[T]) -> Style:
        """The style of a cell, in the colours of the theme and without a background: that is the cursor's."""
        if not self._styles:
            appearance: Appearance = self.app.appearance  # type: ignore[attr-defined]
            styles = appearance.styles
            self._styles = {
                name: Style(color=style.color, bold=style.bold, dim=style.dim) for name, style in styles.items()
            }
        return self._styles[self._style(row, column)]
