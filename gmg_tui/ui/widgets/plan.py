"""How many tiles stand side by side, and how many rows of cells they or the table take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gmg_tui.ui.drawing import tile
from gmg_tui.ui.view import Layout

LOG_MIN = 6
"""Rows kept for the log, with its title, before tiles give way to the table."""
_LOG_MIN_TALL = 14
"""Rows kept for the log before tiles are drawn with large digits."""
AROUND_TABLE = 2
"""Rows of the heading above and of the selected worker's line below the table."""


class Plan(NamedTuple):
    """How the workers are laid out in a given area."""

    tiles: bool
    columns: int
    """Tiles side by side; 1 in the table."""
    rows: int
    """Rows of tiles, or of the table."""
    height: int
    """Rows of cells that the grid takes."""
    tall: bool = False
    """Whether the tiles have large digits."""

    @property
    def row_height(self) -> int:
        """Cells from one row to the next."""
        if not self.tiles:
            return 1
        return tile.TALL_HEIGHT if self.tall else tile.HEIGHT


def plan(width: int, height: int, layout: Layout, *, parts: Sequence[int], lines: int = 0, group: int = 0) -> Plan:
    """How to lay out workers in `width` times `height` cells, shared with the log.

    Args:
        width: Columns.
        height: Rows.
        layout: Which layout the user wants.
        parts: The numbers of workers that begin a row of tiles each: those of nodes.
        lines: Lines of nodes, one row of cells each.
        group: How many ranks a group has, which stand beside each other where there is room; 0 without groups.
    """
    number = max(0 if lines else 1, sum(parts))
    parts = parts or (number,)

    def rows_of(columns: int) -> int:
        return sum(-(-each // columns) for each in parts)

    across = max(1, min(max(parts), width // tile.MIN_WIDTH))
    rows = rows_of(across)
    columns = next(each for each in range(1, across + 1) if rows_of(each) == rows)
    room = height - LOG_MIN - lines
    whole = next((each for each in range(columns, 0, -1) if group and not (each % group and group % each)), columns)
    if rows_of(whole) * tile.HEIGHT <= room:
        rows, columns = rows_of(whole), whole
    fits = number > 0 and rows * tile.HEIGHT <= room and width >= tile.MIN_WIDTH
    if layout is Layout.TABLE or (layout is Layout.AUTO and not fits) or room + lines < tile.HEIGHT:
        rows = number + lines
        return Plan(tiles=False, columns=1, rows=rows, height=max(3, min(rows + AROUND_TABLE, height - LOG_MIN)))
    tall = rows * tile.TALL_HEIGHT <= height - lines - _LOG_MIN_TALL
    full = Plan(tiles=True, columns=columns, rows=rows, height=0, tall=tall)
    whole_rows = min(rows, max(1, (room + lines) // full.row_height))
    return full._replace(height=max(1, min(whole_rows * full.row_height + lines, max(full.row_height, room + lines))))
