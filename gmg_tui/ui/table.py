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
_MIN_CELLS = 8
"""Minimum cells of `FILL_COLUMN` and `SHRINK_COLUMN`."""
_MAX_LAST_COLUMN_CELLS = 300
"""Maximum cells of the last column, whatever its own limit: it takes nothing from others."""


class ColumnSpan(NamedTuple):
    """A column's position in a row."""

    column: Column[Any]
    start: int
    width: int

    @property
    def end(self) -> int:
        """The first cell after it."""
        return self.start + self.width

    def put(self, row: Row, text: str, style: str, click: OnClick | None = None) -> None:
        """Adds the column's text to a row; a text that is too wide extends into free cells on its left."""
        if not text:
            return
        start = self.start if self.column.align_left else max(row.used, self.end - width_of(text))
        if self.column.align_left and width_of(text) > self.width:
            start = min(start, row.used + 1)
        row.to(start).add(text, style, limit=self.end - start, click=click)


class Table(Rows, Generic[T], can_focus=True):
    """A sortable table: a click on a heading sorts, and the cursor stays on its row when rows change.

    Empty columns are hidden, and columns never shrink. Numbers are sorted from the largest at first; unknown values come
    last.
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
        """The cursor has moved to another row."""

        def __init__(self, table: Table[Any]) -> None:
            super().__init__()
            self.table = table

    class Chosen(Moved):
        """The row that was already under the cursor was clicked."""

    def __init__(
        self,
        columns: Sequence[Column[T]],
        *,
        key: Callable[[T], str],
        style: Callable[[T], str] = lambda row: "text",
        sort_by: str = "",
        follow: Callable[[Sequence[T]], T | None] = lambda rows: None,
    ) -> None:
        """Makes a table without rows.

        Args:
            columns: All columns, most important first; scroll to reach those beyond the width.
            key: Returns the identity of a row.
            style: Returns the style of a row's columns `state` and `reason`.
            sort_by: The initial sort column; empty to keep the given order.
            follow: Returns the row for the cursor until the user moves it; None to leave it.
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
        """True while the cursor stays on the row from `follow`."""

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
        """Sets the columns for the next rows, without those not meant for screens."""
        self._columns = {column.name: column for column in columns if Outputs.SCREEN in column.outputs}
        self._drawn: dict[str, tuple[T, object, Strip]] = {}
        """Cache of visible rows by key: the row, how it was drawn, and the result."""

    # Rows

    def show(self, rows: Sequence[T]) -> None:
        """Replaces all rows."""
        before, self._rows = self._rows, {self._key_of(row): row for row in rows}
        self._update([row for key, row in self._rows.items() if before.get(key) is not row], sort=True)

    def replace(self, rows: Iterable[T]) -> None:
        """Adds rows, or replaces those with the same keys."""
        changed = [row for row in rows if self._rows.get(self._key_of(row)) is not row]
        sorting = self._columns.get(self._sort_by)
        sort = sorting is not None and any(
            (old := self._rows.get(self._key_of(row))) is None or sorting.value(old) != sorting.value(row)
            for row in changed
        )
        self._rows |= {self._key_of(row): row for row in changed}
        self._update(changed, sort=sort or len(self._rows) != len(self._keys))

    def _update(self, changed: Sequence[T], *, sort: bool) -> None:
        """Shows columns that have their first value, sorts if asked, keeps the cursor on its row, and redraws."""
        for name, column in self._columns.items():
            if name not in self._widths and any(column.value(row) is not None for row in changed):
                self._widths[name] = width_of(column.heading) + 1  # for the sort arrow
        if sort:
            rows: Iterable[T] = self._rows.values()
            if self._sort_by in self._columns:
                rows = sort_rows(self._columns[self._sort_by], rows, descending=self._descending)
            self._keys = list(map(self._key_of, rows))
        followed = self._follow(list(self._rows.values())) if self.following else None
        before, in_sight = self._cursor, 0 <= self.cursor_row - round(self.scroll_y) < self.size.height - 1
        if followed is not None:
            self._cursor = self._key_of(followed)
        if self._cursor not in self._rows:
            self._cursor = self._keys[min(self.cursor_row, len(self._keys) - 1)] if self._keys else ""
        self.cursor_row = self._keys.index(self._cursor) if self._keys else 0
        self._update_virtual_size()
        if in_sight or before != self._cursor:  # else the user has scrolled it away
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
                over = max(0, min(used + _MIN_CELLS - self.room.width, widths[self.SHRINK_COLUMN] - _MIN_CELLS))
                widths[self.SHRINK_COLUMN] -= over
                used -= over
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
        """Moves the cursor to the row `number`, or the nearest one, and stops following."""
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
        """Scrolls sideways."""
        self.scroll_relative(x=step * 8, animate=False)

    def follow(self) -> None:
        """Puts the cursor on the row from `follow` again."""
        self.following = True
        self._update((), sort=False)

    def on_click(self, event: Click) -> None:
        """Selects the clicked row; the headings handle their clicks themselves."""
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
        """Returns the cells of rows by key, and widens columns for them."""
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
        keys, before = self._keys[top : top + height - 1], dict(self._widths)
        new = {key: row for key in keys if (row := self._rows[key]) is not self._drawn.get(key, (None,))[0]}
        cells = self.measure(new)
        if before != self._widths:
            self.call_next(self._update_virtual_size)
        if not keys:
            return [Row(width).add(self.empty, "dim").strip(self.appearance)]
        edge = left + width
        drawn, look = self._drawn, (self.app.theme, width, left, tuple(self._widths.items()))
        self._drawn = {}
        for number, key in enumerate(keys, top):
            row, here = self._rows[key], number == self.cursor_row
            if key in new or drawn[key][1] != (look, here):
                line = self.line(row, cells.get(key) or self.measure({key: row})[key], edge)
                cursor = self.get_component_rich_style("table--cursor") if here else None
                self._drawn[key] = row, (look, here), line.strip(self.appearance, cursor).crop(left, edge)
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
