"""All workers at once: tiles in a grid, or a table. One widget draws them all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from rich.segment import Segment
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from gmg_tui.model import Worker, WorkerState
from gmg_tui.ui.arrangement import Order
from gmg_tui.ui.drawing import node_line, tile, worker_table
from gmg_tui.ui.drawing.arrangement_row import order_sign
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.drawing.words import Shown, shared_warnings
from gmg_tui.ui.folds import Band
from gmg_tui.ui.view import Layout, View
from gmg_tui.ui.widgets.header import header_height
from gmg_tui.ui.widgets.plan import AROUND_TABLE, Plan, plan
from gmg_tui.ui.widgets.rows import Rows

_CORNER = 2
"""Cells of a tile's lower border right of the text that says which tiles are visible."""
NO_GPU = "No GPU is enabled: choose one in the queue."
NO_MATCH = "No worker matches the filter."
_WHEEL = 3
"""Rows of a table for each step of the wheel; tiles scroll by one row of theirs."""


class Grid(Rows):
    """The tiles or the table. It scrolls by whole rows, and keeps the selected worker visible."""

    DEFAULT_CSS = "Grid { width: 100%; }"

    class HeadingClicked(Message):
        """The heading of a column has been clicked."""

        def __init__(self, order: Order) -> None:
            super().__init__()
            self.order = order

    class NodeClicked(Message):
        """The line of a node has been clicked."""

        def __init__(self, node: str) -> None:
            super().__init__()
            self.node = node

    class WorkerClicked(Message):
        """A worker has been clicked, once or `twice`."""

        def __init__(self, slot: str, *, twice: bool) -> None:
            super().__init__()
            self.slot = slot
            self.twice = twice

    def __init__(self, view: View) -> None:
        super().__init__()
        self._view = view
        self.plan = Plan(tiles=False, columns=1, rows=1, height=2)
        self._first = 0
        """The band at the top."""
        self._row = 0
        """The selected worker's band, among all."""
        self._chosen = ""
        """The worker that was selected when the rows were made last."""
        self._wheeled = False
        """Whether it was scrolled since the selection was moved: the selected worker may be out of sight."""

    def on_mount(self) -> None:
        """Take the rows of the layout before the first frame."""
        self._lay_out()

    def _lay_out(self) -> None:
        """Choose the layout that suits the terminal, whose rows are shared with the log."""
        self.plan = self._plan(self.app.size)
        self.styles.height = self.plan.height

    @property
    def has_room_for_tiles(self) -> bool:
        """Whether tiles can be drawn in this terminal."""
        return self._plan(self.app.size, Layout.TILES).tiles

    def _plan(self, terminal: Size, layout: Layout | None = None) -> Plan:
        """How to lay out the workers in a terminal of that size, in the layout that the user wants."""
        view, shape = self._view, self._view.shape
        return plan(
            terminal.width,
            terminal.height - header_height(view, terminal.height) - 1,
            layout or view.layout,
            parts=[number for _, number in shape if number],
            lines=sum(headed for headed, _ in shape),
            group=max((len(group.slots) for group in view.snapshot.groups), default=0),
        )

    def update_rows(self) -> None:
        """Refresh what has changed, in the layout that suits now."""
        self._lay_out()
        super().update_rows()

    def make_rows(self, width: int, height: int) -> list[Strip]:
        """The visible workers."""
        if not self._view.slots:
            text = NO_MATCH if self._view.arrangement.filter else NO_GPU
            return [Row(self.appearance, width).add(f"  {text}", "warn").strip()]
        self._keep_in_sight()
        return self._tiles() if self.plan.tiles else self._table()

    @property
    def _bands(self) -> tuple[Band, ...]:
        return self._view.bands(self.plan.columns)

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
        chosen, bands = self._view.chosen, self._bands
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
        view = self._view
        slot = view.slot(name)
        assert slot is not None  # the names are the session's own
        worker = view.worker_on(name) or Worker(name, view.slots.index(name), WorkerState.WAITING)
        sample = view.sample(name)
        chosen, marked = name == view.chosen, name in view.marked
        shown = Shown(slot, worker, sample, view.histories[name], chosen, view.snapshot.time, marked)
        if worker.group is None:
            return shown
        before, after = view.group_beside(name)
        return shown._replace(before=before, after=after)

    def _tiles(self) -> list[Strip]:
        width, columns = self.size.width, self.plan.columns
        edges = [round(column * width / columns) for column in range(columns + 1)]
        visible = self._visible
        place = self._place(visible)
        strips: list[Strip] = []
        shared = shared_warnings(self._view.snapshot.workers)
        for band in visible:
            if band.node:
                beside = place if band is visible[-1] else ""
                strips.append(node_line.line(self._view, band, width, self.appearance, place=beside).strip())
                continue
            drawn = [
                tile.tile(shown._replace(shared_warnings=shared), right - left, self.appearance, tall=self.plan.tall)
                for shown, left, right in zip(map(self._shown, band.slots), edges, edges[1:], strict=False)
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
        view, width, look, layout = self._view, self.size.width, self.appearance, self._columns()
        visible, arrangement = self._visible, view.arrangement
        ordered = arrangement.order is not Order.SLOT or arrangement.reverse
        sign, place = order_sign(arrangement, look) if ordered else "", self._place(visible)
        if node := view.folded_node:
            detail = node_line.detail(view, node, width, look, place=place)
        else:
            detail = worker_table.detail(self._shown(view.chosen), width, look, place=place)
        rows = [
            node_line.row(view, band, layout, look)
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
        view, width = self._view, self.size.width
        return worker_table.columns(
            view.slots,
            width,
            on_gpus=view.on_gpus,
            jobs=view.queue is not None,
            rank=self._rank_width(width),
            sms=any(sample.sm_pct is not None for sample in view.snapshot.samples),
        )

    def _rank_width(self, width: int) -> int:
        """Cells of the longest name of a rank; 0 where there are no groups, or a single one has all slots."""
        groups = self._view.snapshot.groups
        if not groups or (len(groups) == 1 and len(groups[0].slots) == len(self._view.slots)):
            return 0
        return worker_table.rank_width(self._view.snapshot.workers, width)

    def _place(self, visible: Sequence[Band]) -> str:
        """Which workers and folded nodes are visible, unless all are."""

        def number(bands: Sequence[Band]) -> int:
            return sum(min(1, len(band.slots)) if band.node else len(band.slots) for band in bands)

        total, first, here = number(self._bands), number(self._bands[: self._first]), number(visible)
        return f" {first + 1}-{first + here} of {total}" if here < total else ""

    def on_click(self, event: events.Click) -> None:
        """Report which worker, node or heading is under the mouse."""
        if event.y == 0 and not self.plan.tiles and self._view.slots:
            order = worker_table.order_at(self._columns(), event.x)
            if order is not None:
                self.post_message(self.HeadingClicked(order))
            return
        y = event.y if self.plan.tiles else event.y - 1
        columns = self.plan.columns
        for band in self._visible:
            height = self._height(band)
            if 0 <= y < height:
                column = min(columns - 1, event.x * columns // max(1, self.size.width))
                if band.node:
                    self.post_message(self.NodeClicked(band.node))
                elif column < len(band.slots):
                    self.post_message(self.WorkerClicked(band.slots[column], twice=event.chain == 2))
                return
            y -= height

    def go_to_top(self) -> None:
        """Show the first workers; the selected one stays selected, in sight or not."""
        self._wheeled, self._chosen, self._first = True, self._view.chosen, 0

    def _wheel(self, rows: int) -> None:
        """Scroll by so many rows; the selected worker stays selected, in sight or not."""
        self._wheeled = True
        self._first += rows if self.plan.tiles else rows * _WHEEL
        self.update_rows()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll up."""
        event.stop()
        self._wheel(-1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll down."""
        event.stop()
        self._wheel(1)
