"""All workers at once: tiles in a grid, or a table. One widget draws them all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from rich.segment import Segment
from textual import events
from textual.strip import Strip

from gmg_tui.model import Worker, WorkerState
from gmg_tui.ui.arrangement import Order
from gmg_tui.ui.drawing import node_line, tile, worker_table
from gmg_tui.ui.drawing.appearance import ASCII, Appearance
from gmg_tui.ui.drawing.arrangement_row import order_sign
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.drawing.words import Shown
from gmg_tui.ui.folds import Band
from gmg_tui.ui.messages import NodeClicked, SelectionChanged
from gmg_tui.ui.state import UiState
from gmg_tui.ui.widgets.plan import AROUND_TABLE, Plan, plan
from gmg_tui.ui.widgets.row_view import DrawnView

_CORNER = 2
"""Cells of a tile's lower border right of the text that says which tiles are visible."""
NO_GPU = "No GPU is enabled. Press Q, then c."
NO_MATCH = "No worker holds all words of the filter."
_WHEEL = 3
"""Rows of a table for each step of the wheel; tiles scroll by one row of theirs."""


class Grid(DrawnView):
    """The tiles or the table. It scrolls by whole rows, and keeps the selected worker in view."""

    def __init__(self, state: UiState, appearance: Appearance) -> None:
        super().__init__(appearance)
        self.state = state
        self.plan = Plan(tiles=False, columns=1, rows=1, height=2)
        self.shape_planned: object = None
        """What the layout is for, as `UiState.shape`."""
        self._first = 0
        """The band that is drawn at the top."""
        self._row = 0
        """The selected worker's band, among all."""
        self._chosen = ""
        """The worker that was selected when it was drawn last."""
        self._wheeled = False
        """Whether it was scrolled since the selection was moved: the selected worker may be out of sight."""

    def lay_out(self, width: int, height: int) -> None:
        """Choose a layout for `width` times `height` cells, shared with the log, and take its rows."""
        digits = self.appearance.signs is not ASCII
        self.shape_planned = self.state.shape
        size = max((len(group.slots) for group in self.state.snapshot.groups), default=0)
        parts = [number for _, number in self.shape_planned if number]
        lines = sum(headed for headed, _ in self.shape_planned)
        self.plan = plan(
            sum(parts), width, height, self.state.view, digits=digits, group=size, parts=parts, lines=lines
        )
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
    def _bands(self) -> tuple[Band, ...]:
        return self.state.bands(self.plan.columns)

    @property
    def _room(self) -> int:
        """Cells from top to bottom that are for workers and nodes."""
        return self.size.height - (0 if self.plan.tiles else AROUND_TABLE)

    def _height(self, band: Band) -> int:
        return 1 if band.node else self.plan.row_height

    def _fitting(self, bands: Sequence[Band]) -> int:
        """How many of `bands`, from the first, fit below each other; at least 1."""
        room = self._room
        for number, band in enumerate(bands):
            room -= self._height(band)
            if room < 0:
                return max(1, number)
        return max(1, len(bands))

    @property
    def _visible(self) -> tuple[Band, ...]:
        bands = self._bands[self._first :]
        return bands[: self._fitting(bands)]

    def _keep_in_sight(self) -> None:
        chosen, bands = self.state.chosen, self._bands
        row = next((at for at, band in enumerate(bands) if chosen in band.slots), 0)
        if chosen != self._chosen:
            self._wheeled = False
        elif not self._wheeled:
            self._first += row - self._row  # sorted anew, it stays where one looks at it
        self._chosen, self._row = chosen, row
        if not self._wheeled:
            headed = row > 0 and not bands[row - 1].slots  # the line of its node is in sight too
            self._first = max(row + 1 - self._fitting(bands[row::-1]), min(self._first, row - headed))
        self._first = max(0, min(self._first, len(bands) - self._fitting(bands[::-1])))

    def _slots(self) -> tuple[str, ...]:
        """The slots in sight; of a folded node the first."""
        return tuple(chain.from_iterable(band.slots[:1] if band.node else band.slots for band in self._visible))

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
        visible = self._visible
        place = self._place(visible)
        strips: list[Strip] = []
        for band in visible:
            if band.node:
                beside = place if band is visible[-1] else ""
                strips.append(node_line.line(self.state, band, width, self.appearance, place=beside).strip())
                continue
            drawn = [
                tile.tile(self._shown(name), right - left, self.appearance, tall=self.plan.tall)
                for name, left, right in zip(band.slots, edges, edges[1:], strict=False)
            ]
            rest = width - edges[len(band.slots)]
            filler = [Segment(" " * rest, self.appearance.style("text"))] if rest else []
            strips.extend(Strip([*chain.from_iterable(rows), *filler], width) for rows in zip(*drawn, strict=True))
        if place and not visible[-1].node:
            text, end = Strip([Segment(f"{place} ", self.appearance.style("strong"))]), width - _CORNER
            last = strips[-1]
            strips[-1] = Strip.join([last.crop(0, end - text.cell_length), text, last.crop(end, width)])
        return strips

    def _table(self) -> list[Strip]:
        state, width, look, layout = self.state, self.size.width, self.appearance, self._columns()
        visible, arrangement = self._visible, state.arrangement
        ordered = arrangement.order is not Order.SLOT or arrangement.reverse
        sign, place = order_sign(arrangement, look) if ordered else "", self._place(visible)
        if node := state.folded_node:
            detail = node_line.detail(state, node, width, look, place=place)
        else:
            detail = worker_table.detail(self._shown(state.chosen), width, look, place=place)
        rows = [
            node_line.row(state, band, layout, look)
            if band.node
            else worker_table.row(self._shown(band.slots[0]), layout, look)
            for band in visible
        ]
        return [
            worker_table.heading(layout, look, arrangement.order, sign).strip(style="dim"),
            *[line.strip() for line in (*rows, detail)],
        ]

    def _columns(self) -> worker_table.Columns:
        """The columns of the table."""
        state, width = self.state, self.size.width
        return worker_table.columns(
            state.slots,
            width,
            on_gpus=state.on_gpus,
            jobs=state.queue is not None,
            rank=self._rank_width(width),
            sms=any(sample.sm_pct is not None for sample in state.snapshot.samples),
        )

    def _rank_width(self, width: int) -> int:
        """Cells of the longest name of a rank; 0 where there are no groups, or a single one has all slots."""
        groups = self.state.snapshot.groups
        if not groups or (len(groups) == 1 and len(groups[0].slots) == len(self.state.slots)):
            return 0
        return worker_table.rank_width(self.state.snapshot.workers, width)

    def _place(self, visible: Sequence[Band]) -> str:
        """Which workers and folded nodes are visible, unless all are."""

        def number(bands: Sequence[Band]) -> int:
            return sum(min(1, len(band.slots)) if band.node else len(band.slots) for band in bands)

        total, first, here = number(self._bands), number(self._bands[: self._first]), number(visible)
        return f" {first + 1}-{first + here} of {total}" if here < total else ""

    async def on_click(self, event: events.Click) -> None:
        """Select the worker under the mouse, a double click shows its details; fold or unfold a node; sort by a column."""
        if event.y == 0 and not self.plan.tiles and self.state.slots:
            order = worker_table.order_at(self._columns(), event.x)
            if order is not None:
                await self.app.run_action(f"sort_by({order.value!r})")
            return
        y = event.y if self.plan.tiles else event.y - 1
        for band in self._visible:
            height = self._height(band)
            if 0 <= y < height:
                if self._click(band, event.x) and event.chain == 2:
                    await self.app.run_action("details")
                return
            y -= height

    def _click(self, band: Band, x: int) -> bool:
        """Whether it was on a worker."""
        columns = self.plan.columns
        column = min(columns - 1, x * columns // max(1, self.size.width))
        if band.node:
            self.post_message(NodeClicked(band.node))
            return False
        if column >= len(band.slots):
            return False
        if self.state.choose(band.slots[column]):
            self.post_message(SelectionChanged())
        return True

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
