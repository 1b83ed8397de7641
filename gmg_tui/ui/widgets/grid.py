"""All workers at once: tiles in a grid, or a table. One widget draws them all."""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

from rich.segment import Segment
from textual import events
from textual.strip import Strip

from gmg_tui.model import Worker, WorkerState
from gmg_tui.ui.arrangement import Order
from gmg_tui.ui.drawing import tile, worker_table
from gmg_tui.ui.drawing.appearance import ASCII, Appearance
from gmg_tui.ui.drawing.arrangement_row import order_sign
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.drawing.words import Shown
from gmg_tui.ui.messages import SelectionChanged
from gmg_tui.ui.state import UiState, View
from gmg_tui.ui.widgets.row_view import DrawnView

LOG_MIN = 6
"""Rows kept for the log, with its title, before tiles give way to the table."""
_LOG_MIN_TALL = 14
"""Rows kept for the log before tiles are drawn with large digits."""
_AROUND_TABLE = 2
"""Rows of the heading above and of the selected worker's line below the table."""
_CORNER = 2
"""Cells of a tile's lower border right of the text that says which tiles are visible."""
NO_GPU = "No GPU is enabled. Press Q, then c."
NO_MATCH = "No worker holds all words of the filter."
_WHEEL = 3
"""Rows of a table for each step of the wheel; tiles scroll by one row of theirs."""


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


def plan(number: int, width: int, height: int, view: View, *, digits: bool, group: int = 0) -> Plan:
    """How to lay out `number` workers in `width` times `height` cells, shared with the log.

    `digits` says whether large ones may be drawn; `group` is how many ranks a group has, which then stand beside each
    other where there is room.
    """
    number = max(1, number)
    across = max(1, min(number, width // tile.MIN_WIDTH))
    rows = -(-number // across)
    columns = -(-number // rows)
    room = height - LOG_MIN
    whole = next((each for each in range(columns, 0, -1) if group and not (each % group and group % each)), columns)
    if -(-number // whole) * tile.HEIGHT <= room:
        rows, columns = -(-number // whole), whole
    fits = rows * tile.HEIGHT <= room and width >= tile.MIN_WIDTH
    if view is View.TABLE or (view is View.AUTO and not fits) or room < tile.HEIGHT:
        return Plan(tiles=False, columns=1, rows=number, height=max(3, min(number + _AROUND_TABLE, height - LOG_MIN)))
    tall = digits and rows * tile.TALL_HEIGHT <= height - _LOG_MIN_TALL
    full = Plan(tiles=True, columns=columns, rows=rows, height=0, tall=tall)
    visible = min(rows, max(1, room // full.row_height))
    return full._replace(height=visible * full.row_height)


class Grid(DrawnView):
    """The tiles or the table. It scrolls by whole rows, and keeps the selected worker in view."""

    def __init__(self, state: UiState, appearance: Appearance) -> None:
        super().__init__(appearance)
        self.state = state
        self.plan = Plan(tiles=False, columns=1, rows=1, height=2)
        self.slots_planned = 0
        """How many slots the layout is for."""
        self._first = 0
        self._row = 0
        """The selected worker's row, among all."""
        self._chosen = ""
        """The worker that was selected when it was drawn last."""
        self._wheeled = False
        """Whether it was scrolled since the selection was moved: the selected worker may be out of sight."""

    def lay_out(self, width: int, height: int) -> None:
        """Choose a layout for `width` times `height` cells, shared with the log, and take its rows."""
        digits = self.appearance.signs is not ASCII
        self.slots_planned = len(self.state.slots)
        size = max((len(group.slots) for group in self.state.snapshot.groups), default=0)
        self.plan = plan(self.slots_planned, width, height, self.state.view, digits=digits, group=size)
        self.styles.height = self.plan.height

    def draw(self) -> None:
        """Draw the visible workers."""
        if self.size.width <= 0 or self.size.height <= 0:
            return
        if not self.state.slots:
            text = NO_MATCH if self.state.arrangement.filter else NO_GPU
            line = Row(self.appearance, self.size.width).add(f"  {text}", "warn")
            self.show_rows([line.strip()])
            return
        self._keep_in_sight()
        self.show_rows(self._tiles() if self.plan.tiles else self._table())

    @property
    def _visible(self) -> int:
        """Rows of workers that fit."""
        around = 0 if self.plan.tiles else _AROUND_TABLE
        return max(1, (self.size.height - around) // self.plan.row_height)

    def _keep_in_sight(self) -> None:
        slots = self.state.slots
        row = slots.index(self.state.chosen) // self.plan.columns if self.state.chosen in slots else 0
        if self.state.chosen != self._chosen:
            self._wheeled = False
        elif not self._wheeled:
            self._first += row - self._row  # sorted anew, it stays where one looks at it
        self._chosen, self._row = self.state.chosen, row
        if not self._wheeled:
            self._first = max(row - self._visible + 1, min(self._first, row))
        self._first = max(0, min(self._first, self.plan.rows - self._visible))

    def _slots(self) -> tuple[str, ...]:
        columns = self.plan.columns
        return self.state.slots[self._first * columns : (self._first + self._visible) * columns]

    def _shown(self, name: str) -> Shown:
        state = self.state
        slot = state.slot(name)
        assert slot is not None  # the names are the session's own
        worker = state.worker_on(name) or Worker(name, state.slots.index(name), WorkerState.WAITING)
        sample = state.sample(name)
        chosen, marked = name == state.chosen, name in state.marked
        shown = Shown(slot, worker, sample, state.histories[name], chosen, state.snapshot.time, marked)
        if worker.group is None:
            return shown
        before, after = state.group_beside(name)
        return shown._replace(before=before, after=after)

    def _tiles(self) -> list[Strip]:
        width, columns = self.size.width, self.plan.columns
        edges = [round(column * width / columns) for column in range(columns + 1)]
        names = self._slots()
        strips: list[Strip] = []
        for begin in range(0, len(names), columns):
            here = names[begin : begin + columns]
            drawn = [
                tile.tile(self._shown(name), right - left, self.appearance, tall=self.plan.tall)
                for name, left, right in zip(here, edges, edges[1:], strict=False)
            ]
            rest = width - edges[len(here)]
            filler = [Segment(" " * rest, self.appearance.style("text"))] if rest else []
            strips.extend(Strip([*chain.from_iterable(rows), *filler], width) for rows in zip(*drawn, strict=True))
        place = self._place(len(names))
        if place:
            text, end = Strip([Segment(f"{place} ", self.appearance.style("strong"))]), width - _CORNER
            last = strips[-1]
            strips[-1] = Strip.join([last.crop(0, end - text.cell_length), text, last.crop(end, width)])
        return strips

    def _table(self) -> list[Strip]:
        state, width = self.state, self.size.width
        layout = worker_table.columns(
            state.slots,
            width,
            on_gpus=state.on_gpus,
            jobs=state.queue is not None,
            rank=self._rank_width(width),
            sms=any(sample.sm_pct is not None for sample in state.snapshot.samples),
        )
        names, arrangement = self._slots(), state.arrangement
        ordered = arrangement.order is not Order.SLOT or arrangement.reverse
        sign = order_sign(arrangement, self.appearance) if ordered else ""
        detail = worker_table.detail(self._shown(state.chosen), width, self.appearance, place=self._place(len(names)))
        rows = [worker_table.row(self._shown(name), layout, self.appearance) for name in names]
        return [
            worker_table.heading(layout, self.appearance, arrangement.order, sign).strip(style="dim"),
            *[line.strip() for line in (*rows, detail)],
        ]

    def _rank_width(self, width: int) -> int:
        """Cells of the longest name of a rank; 0 where there are no groups, or a single one has all slots."""
        groups = self.state.snapshot.groups
        if not groups or (len(groups) == 1 and len(groups[0].slots) == len(self.state.slots)):
            return 0
        return worker_table.rank_width(self.state.snapshot.workers, width)

    def _place(self, visible: int) -> str:
        """Which workers are visible, unless all are."""
        number, first = len(self.state.slots), self._first * self.plan.columns
        return f" {first + 1}-{first + visible} of {number}" if visible < number else ""

    def on_click(self, event: events.Click) -> None:
        """Select the worker under the mouse."""
        columns = self.plan.columns
        row = (event.y if self.plan.tiles else event.y - 1) // self.plan.row_height
        column = min(columns - 1, event.x * columns // max(1, self.size.width))
        place = (self._first + row) * columns + column
        there = 0 <= row < self._visible and place < len(self.state.slots)
        if there and self.state.choose(self.state.slots[place]):
            self.post_message(SelectionChanged())

    def go_to_top(self) -> None:
        """Show the first workers; the selected one stays selected, in sight or not."""
        self._wheeled, self._chosen, self._first = True, self.state.chosen, 0

    def _wheel(self, rows: int) -> None:
        """Scroll by so many rows; the selected worker stays selected, in sight or not."""
        self._wheeled = True
        self._first += rows if self.plan.tiles else rows * _WHEEL
        self.draw()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll up."""
        event.stop()
        self._wheel(-1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll down."""
        event.stop()
        self._wheel(1)
