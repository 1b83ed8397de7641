"""A comparison for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from gmg_tui import tables, units
from gmg_tui.report import table
from gmg_tui.report.compare import words
from gmg_tui.report.compare.comparison import Comparison
from gmg_tui.report.compare.remarks import remarks
from gmg_tui.text import clean

MAX_ROWS = 40
_CELL = 32
"""The greatest width of a cell."""
_BOLD = "\x1b[1m{}\x1b[0m"


def render(made: Comparison, *, width: int | None = None, colour: bool | None = None) -> str:
    """All of it, without a line end at the end. Width and colour are by default what standard output has."""
    there = table.output()
    width = there[0] if width is None else width
    colour = there[1] if colour is None else colour
    lines = [table.heading(side.data, side.state) for side in made.sides]
    apart = [
        [one.name.name, *(words.value(one, place) for place in range(len(made.sides)))] for one in made.differences
    ]
    if apart:
        header = ["what differs", *(side.name for side in made.sides)]
        lines += ["", *_table([header, *apart], "l", 1, width, colour=colour)]
    else:
        lines += ["", "nothing differs of what was recorded"]
    if same := words.same(made):
        lines.append(f"the same: {_safe(same)}")
    rates = words.rate_rows(made, MAX_ROWS)
    lines += ["", *_table(rates, "r", 2, width, colour=colour)]
    if len(made.rows) > MAX_ROWS:
        lines.append(f"and {len(made.rows) - MAX_ROWS:,} more {made.unit}s (--csv has all)")
    if confidence := words.confidence(made):
        lines.append(confidence)
    if said := remarks(made):
        lines += ["", *map(_safe, said)]
    return "\n".join(lines)


def _table(rows: Sequence[Sequence[str]], align: str, of_one: int, width: int, *, colour: bool) -> list[str]:
    """A table whose first column is text; the last sessions, of `of_one` columns each, are left out where it is narrow."""
    drawn = [[tables.cut(_safe(cell), _CELL) for cell in row] for row in rows]
    left_out = 0
    while len(drawn[0]) > 1 + of_one and _width(drawn) > width:
        drawn = [row[:-of_one] for row in drawn]
        left_out += 1

    def style(row: int, column: int, cell: str) -> str:
        return _BOLD.format(cell) if colour and row == 0 else cell

    made = tables.lines(drawn, "l" + align * (len(drawn[0]) - 1), style=style)
    if left_out:
        made.append(f"not enough room for {units.count(left_out, 'more session')} (--csv has all)")
    return made


def _width(rows: Sequence[Sequence[str]]) -> int:
    return sum(tables.width(column) + tables.GAP for column in zip(*rows, strict=True)) - tables.GAP


def _safe(text: str) -> str:
    return clean(text.encode(errors="replace"))
