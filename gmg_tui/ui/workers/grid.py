"""The widget with all workers: tiles in a grid where they have room, or a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from textual import events
from textual.message import Message

from gmg_tui.ui.drawing import Row, Rows
from gmg_tui.ui.view import Band, View
from gmg_tui.ui.workers import table, tile

LOG_MIN: Final = 6
"""Rows kept for the log, with its title."""
_LOG_BELOW_TILES: Final = 8
"""Rows kept for it before tiles give way to the table, unless the user wants tiles."""
_AROUND_TABLE: Final = 2
"""Rows of the heading above and of the selected worker's line below the table."""
_WHEEL: Final = 3
"""Rows of a table for each step of the wheel; tiles scroll by one row of theirs."""


class Plan(NamedTuple):
    """How the workers are laid out."""

    tiles: bool
    columns: int
    """Tiles side by side; 1 in the table."""
    height: int
    """Rows of cells that the grid takes."""


def plan(view: View, width: int, height: int, wanted: bool | None) -> Plan:
    """How to lay out the workers in `width` times `height` cells, shared with the log, in tiles if `wanted`, as in `View.tiles`."""
    widest = max(1, min(len(view.slots), width // tile.MIN_WIDTH))

    def rows_of(columns: int) -> int:
        return sum(1 if band.node else tile.HEIGHT for band in view.bands(columns))

    # As few columns as make no more rows: their tiles are wider.
    rows, room = rows_of(widest), height - LOG_MIN
    columns = next(each for each in range(1, widest + 1) if rows_of(each) == rows)
    fits = 0 < rows <= height - _LOG_BELOW_TILES and width >= tile.MIN_WIDTH
    if wanted is False or (wanted is None and not fits) or room < tile.HEIGHT:
        return Plan(tiles=False, columns=1, height=max(3, min(len(view.bands(1)) + _AROUND_TABLE, room)))
    return Plan(tiles=True, columns=columns, height=rows if rows <= room else room - room % tile.HEIGHT)


class Grid(Rows):
    """The tiles or the table. It scrolls by whole rows, and keeps the selected worker visible."""

    class Clicked(Message):
        """A worker has been clicked, or the line of a `node`, with the first of its slots."""

        def __init__(self, slot: str, node: str = "") -> None:
            super().__init__()
            self.slot = slot
            self.node = node

    def __init__(self, view: View) -> None:
        super().__init__()
        self._view = view
        self.plan = Plan(tiles=False, columns=1, height=2)
        self._height = 1
        """Rows of the screen that it shares with the log."""
        self._bands: list[Band] = []
        self._first = 0
        """The band at the top."""
        self._scrolled_from: str | None = None
        """The worker that was selected when the wheel was turned: until another is, it may be out of sight."""

    def lay_out(self, height: int) -> None:
        """Take as much of `height` rows as the workers need; the rest is for the log."""
        self._height = height
        self.update_rows()

    @property
    def has_room_for_tiles(self) -> bool:
        """Whether tiles can be drawn in this terminal."""
        return plan(self._view, self.app.size.width, self._height, True).tiles

    def update_rows(self) -> None:
        """Refresh what has changed, in the layout that suits now."""
        self.plan = plan(self._view, self.app.size.width, self._height, self._view.tiles)
        self.styles.height = self.plan.height
        super().update_rows()

    def make_rows(self, width: int, height: int) -> list[Row]:
        """The visible workers."""
        view = self._view
        if not view.slots:
            return [Row(width).add(f"  {view.why_empty}", "warn")]
        self._bands = view.bands(self.plan.columns)
        self._scroll_to_selected()
        return self._tiles(width) if self.plan.tiles else self._table(width)

    # Scrolling

    def _band_height(self, band: Band) -> int:
        return tile.HEIGHT if self.plan.tiles and not band.node else 1

    def _fitting(self, bands: Sequence[Band]) -> int:
        """How many of `bands`, from the first, fit below each other; at least 1."""
        room = self.size.height - (0 if self.plan.tiles else _AROUND_TABLE)
        for number, band in enumerate(bands):
            room -= self._band_height(band)
            if room < 0:
                return max(1, number)
        return max(1, len(bands))

    @property
    def _visible(self) -> list[Band]:
        bands = self._bands[self._first :]
        return bands[: self._fitting(bands)]

    def _scroll_to_selected(self) -> None:
        bands, selected = self._bands, self._view.selected
        if self._scrolled_from != selected:
            self._scrolled_from = None
            row = next((number for number, band in enumerate(bands) if selected in band.slots), 0)
            first = row - 1 if row and not bands[row - 1].slots else row  # the line of its node is in sight too
            self._first = max(row + 1 - self._fitting(bands[row::-1]), min(self._first, first))
        self._first = max(0, min(self._first, len(bands) - self._fitting(bands[::-1])))

    def go_to_top(self) -> None:
        """Show the first workers; the selected one stays selected, in sight or not."""
        self._scrolled_from, self._first = self._view.selected, 0

    def _wheel(self, steps: int) -> None:
        """Scroll; the selected worker stays selected, in sight or not."""
        self._scrolled_from = self._view.selected
        self._first += steps if self.plan.tiles else steps * _WHEEL
        self.update_rows()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll up."""
        event.stop()
        self._wheel(-1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll down."""
        event.stop()
        self._wheel(1)

    # Drawing

    def _tiles(self, width: int) -> list[Row]:
        columns, visible, position = self.plan.columns, self._visible, self._position()
        edges = [round(column * width / columns) for column in range(columns + 1)]
        rows: list[Row] = []
        for band in visible:
            beside = position if band is visible[-1] else ""
            if band.node:
                rows.append(table.node_line(self._view, band, width, beside))
                continue
            lines = [Row(width) for _ in range(tile.HEIGHT)]
            for name, left, right in zip(band.slots, edges, edges[1:], strict=False):
                last = beside if name == band.slots[-1] else ""
                for line, row in zip(lines, tile.tile(self._view.of(name), right - left, last), strict=True):
                    line.append(row)
            rows += lines
        return rows

    def _table(self, width: int) -> list[Row]:
        view, placed, position = self._view, table.columns(self._view, width), self._position()
        rows = [table.heading(placed, width)]
        for band in self._visible:
            if band.node:
                rows.append(table.node_line(view, band, width))
            else:
                rows.append(table.row(view.of(band.slots[0]), placed, width))
        if view.folded_node:
            return [*rows, Row(width).end(position, "strong")]
        return [*rows, table.detail(view.of(view.selected), width, position)]

    def _position(self) -> str:
        """Which workers and folded nodes are visible, unless all are."""

        def number(bands: Sequence[Band]) -> int:
            return sum(min(1, len(band.slots)) if band.node else len(band.slots) for band in bands)

        total, first, here = number(self._bands), number(self._bands[: self._first]), number(self._visible)
        return f" {first + 1}-{first + here} of {total}" if here < total else ""

    def on_click(self, event: events.Click) -> None:
        """Report which worker or node is under the mouse."""
        y = event.y if self.plan.tiles else event.y - 1  # below the heading
        for band in self._visible:
            if 0 <= y < self._band_height(band):
                column = event.x * self.plan.columns // max(1, self.size.width)
                slots = self._view.of_node(band.node)[:1] if band.node else band.slots[column : column + 1]
                for slot in slots:
                    self.post_message(self.Clicked(slot, band.node))
                return
            y -= self._band_height(band)
