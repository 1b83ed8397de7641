"""Renders tables for the terminal, with Rich, and as HTML. Widths are in terminal cells; wide characters take two."""

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

_COLUMN_GAP = 2
_MAX_WIDTH = 1 << 16
_CONTROL_REPLACEMENTS = dict.fromkeys((*range(9), *range(11, 32), 127), "·")
"""Replacements for characters that HTML does not allow; some browsers stop at a NUL."""


def render_lines(
    columns: Sequence[Column[T]],
    rows: Sequence[T],
    *,
    width: int | None = None,
    colour: bool = False,
    keep_empty: bool = False,
    styles: Mapping[str, str] = {},
) -> list[str]:
    """Returns the lines of a table: headings, rows, and a note that names the columns that did not fit.

    Omits columns without any value, unless `keep_empty`, then those of the lowest priority until the table fits `width`,
    where None means no limit, as in a pipe. `styles` maps texts in a column `state` to Rich styles.
    """
    from rich.console import Console  # imported late: this takes longer than the rest of a command
    from rich.table import Table
    from rich.text import Text

    shown = [column for column in columns if Outputs.TABLES in column.outputs]
    if not keep_empty:
        shown = columns_with_values(columns, rows)
    if not shown:
        return []
    cells = {column.name: [column.text(row) for row in rows] for column in shown}
    widths = {}
    for column in shown:
        widest = max(map(cell_len, cells[column.name]), default=0)
        widths[column.name] = max(cell_len(column.heading), widest if width is None else min(widest, column.max_width))
    total, dropped = sum(widths[column.name] + _COLUMN_GAP for column in shown) - _COLUMN_GAP, dict[str, str]()
    for column in sorted(shown, key=lambda column: column.priority)[:-1]:
        if width is not None and total > width:
            total -= widths[column.name] + _COLUMN_GAP
            dropped[column.name] = column.heading
    shown = [column for column in shown if column.name not in dropped]
    table = Table(box=None, pad_edge=False, padding=(0, _COLUMN_GAP, 0, 0), header_style="bold")
    texts = []
    for column in shown:
        justify: Literal["left", "right"] = "left" if column.align_left else "right"
        cell_width = widths[column.name]
        table.add_column(Text(column.heading), justify=justify, width=cell_width, no_wrap=True, overflow="ellipsis")
        cell_styles = styles if column.name == "state" else {}
        texts.append([Text(cell, cell_styles.get(cell, "")) for cell in cells[column.name]])
    for row in zip(*texts, strict=True):
        table.add_row(*row)
    colours: Literal["standard"] | None = "standard" if colour else None
    console = Console(file=io.StringIO(), width=_MAX_WIDTH, force_terminal=colour, color_system=colours)
    with console.capture() as captured:
        console.print(table)
    note = [f"no room for: {', '.join(dropped.values())}"] if dropped else []
    return [*(line.rstrip() for line in captured.get().splitlines()), *note]


def stdout_format() -> tuple[int | None, bool]:
    """Returns the width of standard output, None if it is not a terminal, and True if it shows colours."""
    if not sys.stdout.isatty():
        return None, False
    colour = os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")
    return shutil.get_terminal_size().columns, colour


def print_table(columns: Sequence[Column[T]], rows: Sequence[T], *footer: str) -> None:
    """Prints a table that fits the terminal (a pipe gets all columns), then the lines of the footer."""
    width, colour = stdout_format()
    if lines := [*render_lines(columns, rows, width=width, colour=colour), *footer]:
        print("\n".join(lines))


def render_html(
    columns: Sequence[Column[T]], rows: Sequence[T], *, row_class: Callable[[T], str] = lambda row: ""
) -> str:
    """Returns a sortable table; the attribute `data-value` of a cell has all digits of its number."""
    filled = columns_with_values(columns, rows)
    texts = {column.name for column in filled if column.align_left or all(_is_text(column.value(row)) for row in rows)}
    head = "".join(
        f'<th scope="col" class="{"text" if column.name in texts else "number"}" aria-sort="none">'
        f'<button type="button">{escape_html(column.heading)}</button></th>'
        for column in filled
    )
    classed = ((escape(row_class(row)), "".join(_render_cell(column, row) for column in filled)) for row in rows)
    body = "\n".join(f'<tr class="{name}">{cells}</tr>' for name, cells in classed)
    return f'<div class="scroll"><table class="sortable"><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'


def _render_cell(column: Column[T], row: T) -> str:
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
    """Escapes a text for HTML, and replaces control characters."""
    return escape(text.translate(_CONTROL_REPLACEMENTS))
