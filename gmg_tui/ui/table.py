"""A table with the columns of `gmg_tui.results.column`, which formats only visible cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, takewhile
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from gmg_tui.model import units
from gmg_tui.results.column import Column, Outputs, sort_rows
from gmg_tui.ui import keys
from gmg_tui.ui.drawing import OnClick, Piece, Row, safe, width_of
from gmg_tui.ui.facts import Fact, Facts
from gmg_tui.ui.rows import Rows

T = TypeVar("T")
_POINTER_CELLS = 2
_MIN_COLUMN_CELLS = 8
"""Minimum cells of `FILL_COLUMN` and `SHRINK_COLUMN`."""
_MAX_LAST_COLUMN_CELLS = 300
"""Maximum cells of the last column, whatever its own limit: its width takes no room from the others."""


class ColumnSpan(NamedTuple):
    """A column's position in a row."""

    column: Column[Any]
    start: int
    width: int

    @property
    def end(self) -> int:
        """The first cell after the column."""
        return self.start + self.width

    def put(self, row: Row, text: str, style: str, click: OnClick | None = None) -> None:
        """Adds the column's text to a row; a text that is too wide extends into free cells on its left."""
        if not text:
            return
        start = self.start if self.column.align_left else max(row.used, self.end - width_of(text))
        if self.column.align_left and width_of(text) > self.width:
            start = min(start, row.used + 1)
        row.pad_to(start).add(text, style, limit=self.end - start, click=click)


class Table(Rows, Generic[T], can_focus=True):
    """A sortable table: a click on a heading sorts, and the cursor stays on its row when rows change.

    A column is hidden until a row has a value for it, and its measured width never shrinks. The first click on a column
    of numbers sorts the largest first; unknown values come last.
    """

    DEFAULT_CSS = """
    Table {
        height: 1fr; overflow-y: auto; overflow-x: hidden; scrollbar-size-vertical: 1;
        & > .table--cursor {
            background: $block-cursor-background;
            color: $block-cursor-foreground;
            text-style: $block-cursor-text-style;
        }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"table--cursor"}
    GAP: ClassVar[int] = 2
    """Cells between columns."""
    FILL_COLUMN: ClassVar[str] = ""
    """The name of the column that takes the remaining cells."""
    SHRINK_COLUMN: ClassVar[str] = ""
    """The name of the column that shrinks if the others would not fit."""
    BINDINGS: ClassVar[list[BindingType]] = [
        *keys.SCROLL,
        Binding("left,h", "scroll_columns(-1)", "Left", show=False, id="left"),
        Binding("right,l", "scroll_columns(1)", "Right", show=False, id="right"),
    ]

    class Moved(Message):
        """Posted when the user moves the cursor to another row."""

        def __init__(self, table: Table[Any]) -> None:
            super().__init__()
            self.table = table

    class Chosen(Moved):
        """Posted when the row under the cursor is clicked."""

    def __init__(
        self,
        columns: Sequence[Column[T]],
        *,
        key: Callable[[T], str],
        style: Callable[[T], str] = lambda row: "text",
        sort_by: str = "",
        follow: Callable[[Sequence[T]], T | None] = lambda rows: None,
    ) -> None:
        """Creates a table without rows.

        Args:
            columns: All columns, most important first; the user can scroll to those that do not fit.
            key: Returns the identity of a row.
            style: Returns the style of a row's columns `state` and `reason`.
            sort_by: The initial sort column; empty to keep the given order.
            follow: Returns the row to put the cursor on until the user moves it, or None to leave the cursor.
        """
        super().__init__()
        self.set_columns(columns)
        self._key_of = key
        self._style = style
        self._follow = follow
        self._rows: dict[str, T] = {}
        self._keys: list[str] = []
        self._widths: dict[str, int] = {}
        self._spans: list[ColumnSpan] = []
        self._sort_by = sort_by
        self._descending = sort_by in self._columns and not self._columns[sort_by].align_left
        self._cursor = ""
        self.cursor_row = 0
        self.empty = ""
        """The text shown if there are no rows."""
        self.following = True
        """True while `follow` decides on the cursor's row."""

    @property
    def selected(self) -> T | None:
        """The row under the cursor; None in an empty table."""
        return self._rows.get(self._cursor)

    @property
    def text(self) -> str:
        """The cells of the row under the cursor, to copy; empty in an empty table."""
        row = self.selected
        cells = [self.cell(row, column)[0] for column in self.shown_columns] if row is not None else []
        return "  ".join(filter(None, cells))

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return len(self._keys)

    @property
    def shown_columns(self) -> list[Column[T]]:
        """The columns that have had a value in any row."""
        return [column for column in self._columns.values() if column.name in self._widths]

    def set_columns(self, columns: Iterable[Column[T]]) -> None:
        """Sets the columns, except those not meant for screens; takes effect with the next rows."""
        self._columns = {column.name: column for column in columns if Outputs.SCREEN in column.outputs}
        self._drawn: dict[str, tuple[T, object, Strip]] = {}
        """Cache of visible rows by key: the row, its look when drawn, and its strip."""

    # Rows

    def show(self, rows: Sequence[T]) -> None:
        """Replaces all rows."""
        old_rows, self._rows = self._rows, {self._key_of(row): row for row in rows}
        self._update([row for key, row in self._rows.items() if old_rows.get(key) is not row], sort=True)

    def replace(self, rows: Iterable[T]) -> None:
        """Adds rows, or replaces those with the same keys."""
        changed = [row for row in rows if self._rows.get(self._key_of(row)) is not row]
        column = self._columns.get(self._sort_by)
        sort = column is not None and any(
            (old := self._rows.get(self._key_of(row))) is None or column.value(old) != column.value(row)
            for row in changed
        )
        self._rows |= {self._key_of(row): row for row in changed}
        self._update(changed, sort=sort or len(self._rows) != len(self._keys))

    def _update(self, changed: Sequence[T], *, sort: bool) -> None:
        """Shows columns with their first value, sorts if `sort`, updates the cursor's position, and redraws."""
        for name, column in self._columns.items():
            if name not in self._widths and any(column.value(row) is not None for row in changed):
                self._widths[name] = width_of(column.heading) + 1  # for the sort arrow
        if sort:
            rows: Iterable[T] = self._rows.values()
            if self._sort_by in self._columns:
                rows = sort_rows(self._columns[self._sort_by], rows, descending=self._descending)
            self._keys = list(map(self._key_of, rows))
        followed = self._follow(list(self._rows.values())) if self.following else None
        old_cursor, was_visible = self._cursor, 0 <= self.cursor_row - round(self.scroll_y) < self.size.height - 1
        if followed is not None:
            self._cursor = self._key_of(followed)
        if self._cursor not in self._rows:
            self._cursor = self._keys[min(self.cursor_row, len(self._keys) - 1)] if self._keys else ""
        self.cursor_row = self._keys.index(self._cursor) if self._keys else 0
        self._update_virtual_size()
        if was_visible or old_cursor != self._cursor:  # else the user has scrolled away from the cursor
            self.reveal_cursor()
        self.update_rows()

    def _update_virtual_size(self) -> None:
        self.virtual_size = Size(self._full_width, len(self._keys) + 1)

    @property
    def _laid_out_spans(self) -> list[ColumnSpan]:
        shown = self.shown_columns
        widths = {column.name: self._widths[column.name] for column in shown}
        if self.FILL_COLUMN in widths:
            widths[self.FILL_COLUMN] = 0
            used = _POINTER_CELLS + sum(widths.values()) + self.GAP * (len(widths) - 1)
            if self.SHRINK_COLUMN in widths:
                shrinkable = widths[self.SHRINK_COLUMN] - _MIN_COLUMN_CELLS
                excess = max(0, min(used + _MIN_COLUMN_CELLS - self.room.width, shrinkable))
                widths[self.SHRINK_COLUMN] -= excess
                used -= excess
            widths[self.FILL_COLUMN] = max(0, self.room.width - used)
        starts = accumulate((width + self.GAP for width in widths.values()), initial=_POINTER_CELLS)
        return list(map(ColumnSpan, shown, starts, widths.values()))

    @property
    def _visible_spans(self) -> Iterator[ColumnSpan]:
        edge = round(self.scroll_x) + self.room.width  # a number that is cut off looks like another number
        return takewhile(lambda span: span.column.align_left or span.end <= edge, self._spans)

    @property
    def _full_width(self) -> int:
        return max((span.end for span in self._laid_out_spans), default=0)

    # The cursor

    def on_resize(self) -> None:
        """Keeps the cursor in view."""
        self.reveal_cursor()

    def reveal_cursor(self) -> None:
        """Scrolls to the row under the cursor."""
        self.reveal(self.cursor_row, self.cursor_row + 1, 1)

    def move_to(self, number: int) -> None:
        """Moves the cursor to row `number`, or to the nearest row, and stops following."""
        number = max(0, min(number, len(self._keys) - 1))
        self.following = False
        if self._keys and number != self.cursor_row:
            self.cursor_row, self._cursor = number, self._keys[number]
            self.reveal_cursor()
            self.update_rows()
            self.post_message(self.Moved(self))

    def action_go(self, direction: str) -> None:
        """Moves the cursor: `line-up`, `line-down`, a page `up` or `down`, `home` or `end`."""
        page = max(1, self.size.height - 2)
        steps = {"line-up": -1, "line-down": 1, "up": -page, "down": page}
        end = 0 if direction == "home" else len(self._keys)
        self.move_to(self.cursor_row + steps[direction] if direction in steps else end)

    def action_scroll_columns(self, step: int) -> None:
        """Scrolls sideways, to the right if `step` is positive."""
        self.scroll_relative(x=step * 8, animate=False)

    def follow(self) -> None:
        """Lets the constructor's `follow` decide on the cursor's row again."""
        self.following = True
        self._update((), sort=False)

    def on_click(self, event: Click) -> None:
        """Selects the clicked row; headings are clickable pieces with their own action."""
        event.stop()
        if event.y and (number := round(self.scroll_y) + event.y - 1) < len(self._keys):
            self.click_row(number)

    def click_row(self, number: int) -> None:
        """Selects a row, or posts `Chosen` if it was selected already."""
        if number == self.cursor_row:
            self.post_message(self.Chosen(self))
        else:
            self.move_to(number)

    def action_sort_by(self, name: str) -> None:
        """Sorts by the column called `name`, or reverses the order if already sorted by it."""
        self._descending = not self._descending if name == self._sort_by else not self._columns[name].align_left
        self._sort_by = name
        self._update((), sort=True)

    # Drawing

    def measure(self, rows: Mapping[str, T]) -> dict[str, list[Piece]]:
        """Returns the cells of rows by key, and widens columns to fit them."""
        columns = self.shown_columns
        cells = {key: [self.cell(row, column) for column in columns] for key, row in rows.items()}
        for number, column in enumerate(columns):
            widest = max((width_of(row[number][0]) for row in cells.values()), default=0)
            limit = column.max_width if column is not columns[-1] else _MAX_LAST_COLUMN_CELLS
            self._widths[column.name] = min(limit, max(self._widths[column.name], widest))
        self._spans = self._laid_out_spans
        return cells

    def cell(self, row: T, column: Column[T]) -> Piece:
        """Returns the text and the style of a cell."""
        if column.value(row) is None:
            return "" if column.align_left else units.NOT_KNOWN, "dim"
        return safe(column.text(row)), self._style(row) if column.name in {"state", "reason"} else "text"

    def make_strips(self, width: int, height: int) -> list[Strip]:
        """Returns the headings and the visible rows, reusing unchanged ones."""
        top, left = round(self.scroll_y), round(self.scroll_x)
        keys, old_widths = self._keys[top : top + height - 1], dict(self._widths)
        new = {key: row for key in keys if (row := self._rows[key]) is not self._drawn.get(key, (None,))[0]}
        cells = self.measure(new)
        if old_widths != self._widths:
            self.call_next(self._update_virtual_size)
        if not keys:
            return [Row(width).add(self.empty, "dim").strip(self.appearance)]
        edge = left + width
        drawn, look = self._drawn, (self.app.theme, width, left, tuple(self._widths.items()))
        self._drawn = {}
        for number, key in enumerate(keys, top):
            row, is_cursor = self._rows[key], number == self.cursor_row
            if key in new or drawn[key][1] != (look, is_cursor):
                line = self.line(row, cells.get(key) or self.measure({key: row})[key], edge)
                cursor = self.get_component_rich_style("table--cursor") if is_cursor else None
                self._drawn[key] = row, (look, is_cursor), line.strip(self.appearance, cursor).crop(left, edge)
            else:
                self._drawn[key] = drawn[key]
        heading = self._heading(edge).strip(self.appearance).crop(left, edge)
        return [heading, *(self._drawn[key][2] for key in keys)]

    def _heading(self, width: int) -> Row:
        row = Row(width).end("→" if self._full_width > width else "", "dim")
        for span in self._visible_spans:
            column, arrow = span.column, "↓" if self._descending else "↑"
            text = f"{column.heading}{arrow if column.name == self._sort_by else ''}"
            span.put(row, text, "dim", ("sort_by", column.name))
        return row

    def line(self, row: T, cells: Sequence[Piece], width: int) -> Row:
        """Returns a row with these cells."""
        line = Row(width).add("▸" if self._key_of(row) == self._cursor else " ", "selected")
        for span, (text, style) in zip(self._visible_spans, cells, strict=False):
            span.put(line, text, style)
        return line


class DescribedTable(Vertical, Generic[T]):
    """A table above the facts about its selected row."""

    DEFAULT_CSS = "DescribedTable { height: 1fr; & > Facts { max-height: 40%; } }"

    def __init__(self, table: Table[T], describe: Callable[[T], Iterable[Fact]]) -> None:
        super().__init__()
        self.table = table
        self._describe = describe
        self._facts = Facts()

    def compose(self) -> ComposeResult:
        """Yields the table and the facts."""
        yield from (self.table, self._facts)

    def show(self, rows: Sequence[T], empty: str) -> None:
        """Shows these rows, or the text `empty` if there are none."""
        self.table.empty = empty
        self.table.show(rows)
        self.on_table_moved()

    @property
    def text(self) -> str:
        """The cells of the row under the cursor; empty in an empty table."""
        return self.table.text

    def action_go(self, direction: str) -> None:
        """Moves the cursor."""
        self.table.action_go(direction)

    def on_table_moved(self) -> None:
        """Shows the row under the cursor in full."""
        row = self.table.selected
        self._facts.show(self._describe(row) if row is not None else ())
