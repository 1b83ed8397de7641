"""Tables for people: fits columns into a width, and renders them with Rich for the terminal and as HTML.

Widths are counted in terminal columns, of which CJK characters and emoji take two.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from html import escape
from typing import Generic, NamedTuple, TypeVar

from rich.cells import cell_len

from gmg_tui.columns import Column, with_values

T = TypeVar("T")

GAP = 2
"""Spaces between two columns."""
_UNLIMITED = 1 << 16
_CONTROLS = dict.fromkeys((*range(9), *range(11, 32), 127), "·")
"""What HTML does not allow: a NUL ends what some browsers read."""


class Fitted(NamedTuple, Generic[T]):
    """The columns of a table that fit."""

    columns: list[Column[T]]
    rows: Sequence[T]
    cells: list[list[str]]
    """The texts of each row."""
    widths: list[int]
    dropped: list[str]
    """Headings of the columns that there is no room for."""

    @property
    def note(self) -> str:
        """Names the dropped columns, in one line; empty if there are none."""
        return f"no room for: {', '.join(self.dropped)}" if self.dropped else ""


def fit(columns: Sequence[Column[T]], rows: Sequence[T], width: int | None = None, *, empty: bool = False) -> Fitted[T]:
    """Drop the columns of the lowest priority until the table is at most `width` wide; None for no limit.

    Cells are cut to the `limit` of their column where there is a width. Columns without any value are left out, unless `empty`.
    """
    kept = [column for column in columns if column.priority] if empty else with_values(columns, rows)
    texts = {
        column.name: [column.text(row) if width is None else cut(column.text(row), column.limit) for row in rows]
        for column in kept
    }
    widths = {column.name: max(map(cell_len, (column.heading, *texts[column.name]))) for column in kept}
    dropped = []
    while width is not None and len(kept) > 1 and sum(widths[column.name] + GAP for column in kept) - GAP > width:
        least = min(kept, key=lambda column: column.priority)
        kept.remove(least)
        dropped.append(least.heading)
    cells = [[texts[column.name][number] for column in kept] for number in range(len(rows))]
    return Fitted(kept, rows, cells, [widths[column.name] for column in kept], dropped)


def terminal(
    columns: Sequence[Column[T]],
    rows: Sequence[T],
    *,
    width: int | None = None,
    colour: bool = False,
    empty: bool = False,
    style: Callable[[T, Column[T]], str] = lambda row, column: "",
) -> list[str]:
    """The lines of a table: heading, rows, and what there was no room for.

    Args:
        columns: All columns.
        rows: The rows.
        width: The greatest width; None for no limit, as in a pipe.
        colour: Whether to write styles.
        empty: Whether columns without any value stay.
        style: The Rich style of a cell.
    """
    from rich.console import Console  # not before a table is written: it takes longer than the rest of a command
    from rich.table import Table
    from rich.text import Text

    fitted = fit(columns, rows, width, empty=empty)
    if not fitted.columns:
        return []
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for column, wide in zip(fitted.columns, fitted.widths, strict=True):
        justify = "left" if column.left else "right"
        table.add_column(Text(column.heading), justify=justify, no_wrap=True, min_width=wide)  # type: ignore[arg-type]
    for row, cells in zip(rows, fitted.cells, strict=True):
        table.add_row(*(Text(cell, style(row, column)) for cell, column in zip(cells, fitted.columns, strict=True)))
    console = Console(
        file=io.StringIO(), width=_UNLIMITED, force_terminal=colour, color_system="standard" if colour else None
    )
    with console.capture() as captured:
        console.print(table)
    return [*(line.rstrip() for line in captured.get().splitlines()), *([fitted.note] if fitted.note else [])]


def output() -> tuple[int | None, bool]:
    """The width of standard output, None where it is no terminal, and whether it takes colours."""
    if not sys.stdout.isatty():
        return None, False
    colour = os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")
    return shutil.get_terminal_size().columns, colour


def html(columns: Sequence[Column[T]], rows: Sequence[T], *, kind: Callable[[T], str] = lambda row: "") -> str:
    """A table that a page's script can sort, each row of the class `kind`; `data-value` has a number in full."""
    filled = with_values(columns, rows)
    head = "".join(
        f'<th scope="col" aria-sort="none"><button type="button">{in_html(column.heading)}</button></th>'
        for column in filled
    )
    body = "\n".join(
        f'<tr class="{escape(kind(row))}">{"".join(_html_cell(column, row) for column in filled)}</tr>' for row in rows
    )
    return f'<div class="scroll"><table class="sortable"><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'


def _html_cell(column: Column[T], row: T) -> str:
    value, text = column.value(row), in_html(column.text(row))
    if value is None:
        return "<td></td>"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f'<td data-value="{value}">{text}</td>'
    return f'<td class="text">{text}</td>' if column.left or isinstance(value, str) else f"<td>{text}</td>"


def in_html(text: str) -> str:
    """Text as a page may have it, whatever is in it."""
    return escape(text.translate(_CONTROLS))


def cut(text: str, limit: int) -> str:
    """`text` in at most `limit` columns, with an ellipsis where something is missing."""
    if cell_len(text) <= limit:
        return text
    from rich.text import Text

    cell = Text(text)
    cell.truncate(limit, overflow="ellipsis")
    return cell.plain
