"""Tables for people: for the terminal, by Rich, and as HTML. Widths are in terminal cells: wide characters take two."""

import io
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Literal, TypeVar

from rich.cells import cell_len

from gmg_tui.results.column import Cell, Column, Outputs, columns_with_values, is_known

T = TypeVar("T")

_GAP = 2
"""Spaces between two columns."""
_UNLIMITED = 1 << 16
_CONTROLS = dict.fromkeys((*range(9), *range(11, 32), 127), "·")
"""Characters that HTML does not allow; some browsers stop at a NUL."""


def render_lines(
    columns: Sequence[Column[T]],
    rows: Sequence[T],
    *,
    width: int | None = None,
    colour: bool = False,
    empty: bool = False,
    styles: Mapping[str, str] = {},
) -> list[str]:
    """Returns the lines of a table: heading, rows, and the columns that did not fit.

    Omits columns without any value, unless `empty`, then columns of the lowest priority until the table fits `width`;
    None means no limit, as in a pipe. `styles` are Rich styles for the cells of a column `state`, by their texts.
    """
    from rich.console import Console  # late: it takes longer than the rest of a command
    from rich.table import Table
    from rich.text import Text

    kept = (
        [column for column in columns if Outputs.TABLES in column.outputs]
        if empty
        else columns_with_values(columns, rows)
    )
    if not kept:
        return []
    cells = {column.name: [column.text(row) for row in rows] for column in kept}
    widths = {}
    for column in kept:
        widest = max(map(cell_len, cells[column.name]), default=0)
        widths[column.name] = max(cell_len(column.heading), widest if width is None else min(widest, column.max_width))
    total, dropped = sum(widths[column.name] + _GAP for column in kept) - _GAP, dict[str, str]()
    for least in sorted(kept, key=lambda column: column.priority)[:-1]:
        if width is not None and total > width:
            total -= widths[least.name] + _GAP
            dropped[least.name] = least.heading
    kept = [column for column in kept if column.name not in dropped]
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    texts = []
    for column in kept:
        justify: Literal["left", "right"] = "left" if column.align_left else "right"
        width_of = widths[column.name]
        table.add_column(Text(column.heading), justify=justify, width=width_of, no_wrap=True, overflow="ellipsis")
        coloured = styles if column.name == "state" else {}
        texts.append([Text(cell, coloured.get(cell, "")) for cell in cells[column.name]])
    for row in zip(*texts, strict=True):
        table.add_row(*row)
    system: Literal["standard"] | None = "standard" if colour else None
    console = Console(file=io.StringIO(), width=_UNLIMITED, force_terminal=colour, color_system=system)
    with console.capture() as captured:
        console.print(table)
    note = [f"no room for: {', '.join(dropped.values())}"] if dropped else []
    return [*(line.rstrip() for line in captured.get().splitlines()), *note]


def stdout_format() -> tuple[int | None, bool]:
    """Returns the width of standard output, None if it is not a terminal, and True if it has colours."""
    if not sys.stdout.isatty():
        return None, False
    colour = os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")
    return shutil.get_terminal_size().columns, colour


def print_table(columns: Sequence[Column[T]], rows: Sequence[T], *more: str) -> None:
    """Prints a table that fits the terminal (a pipe gets all columns), and further lines; nothing if it is empty."""
    width, colour = stdout_format()
    if lines := [*render_lines(columns, rows, width=width, colour=colour), *more]:
        print("\n".join(lines))


def render_html(columns: Sequence[Column[T]], rows: Sequence[T], *, kind: Callable[[T], str] = lambda row: "") -> str:
    """Returns a sortable table with rows of the class `kind`; `data-value` has all digits of a number."""
    filled = columns_with_values(columns, rows)
    texts = {column.name for column in filled if column.align_left or all(_is_text(column.value(row)) for row in rows)}
    head = "".join(
        f'<th scope="col" class="{"text" if column.name in texts else "number"}" aria-sort="none">'
        f'<button type="button">{escape_html(column.heading)}</button></th>'
        for column in filled
    )
    cells = ((escape(kind(row)), "".join(_html_cell(column, row) for column in filled)) for row in rows)
    body = "\n".join(f'<tr class="{name}">{of_row}</tr>' for name, of_row in cells)
    return f'<div class="scroll"><table class="sortable"><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'


def _html_cell(column: Column[T], row: T) -> str:
    value, text = column.value(row), escape_html(column.text(row))
    if value is None:
        return "<td></td>"
    if column.name == "state":
        return f'<td class="text state">{text}</td>'
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f'<td data-value="{value if is_known(value) else "NaN"}">{text}</td>'
    return f'<td class="text">{text}</td>' if column.align_left or _is_text(value) else f"<td>{text}</td>"


def _is_text(value: Cell) -> bool:
    return value is None or isinstance(value, str)


def escape_html(text: str) -> str:
    """Escapes any text for a page."""
    return escape(text.translate(_CONTROLS))
