"""All workers at once: cards in a grid, or a table. One widget draws them all."""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

from rich.segment import Segment
from textual import events
from textual.message import Message
from textual.strip import Strip

from gmg_tui.model import Worker, WorkerState
from gmg_tui.ui.line import Line
from gmg_tui.ui.look import ASCII, Look
from gmg_tui.ui.renderables import card, table
from gmg_tui.ui.renderables.words import Shown
from gmg_tui.ui.rows import Rows
from gmg_tui.ui.state import UiState, View

LOG_MIN = 6
"""Rows that the log keeps, its title among them, before cards give way to the table."""
_LOG_MIN_TALL = 14
"""Rows that the log keeps before cards are drawn with large digits."""
_AROUND_TABLE = 2
"""Rows of the heading above and of the chosen worker's line below the table."""
_CORNER = 2
"""Cells of a card's lower border right of the words which cards are visible."""


class Plan(NamedTuple):
    """How the workers are laid out in a given room."""

    cards: bool
    columns: int
    """Cards beside each other; 1 in the table."""
    rows: int
    """Rows of cards, or of the table."""
    height: int
    """Rows of cells that the board takes."""
    tall: bool = False
    """Whether the cards have large digits."""

    @property
    def row_height(self) -> int:
        """Cells from one row to the next."""
        if not self.cards:
            return 1
        return card.TALL_HEIGHT if self.tall else card.HEIGHT


def plan(number: int, width: int, height: int, view: View, *, digits: bool) -> Plan:
    """How to lay out `number` workers in `width` times `height` cells, which the log shares.

    Args:
        number: How many workers.
        width: Columns.
        height: Rows, those of the log among them.
        view: What the person wants.
        digits: Whether large digits may be drawn.
    """
    number = max(1, number)
    across = max(1, min(number, width // card.MIN_WIDTH))
    rows = -(-number // across)
    columns = -(-number // rows)
    room = height - LOG_MIN
    fits = rows * card.HEIGHT <= room and width >= card.MIN_WIDTH
    if view is View.TABLE or (view is View.AUTO and not fits) or room < card.HEIGHT:
        return Plan(cards=False, columns=1, rows=number, height=max(3, min(number + _AROUND_TABLE, height - LOG_MIN)))
    tall = digits and rows * card.TALL_HEIGHT <= height - _LOG_MIN_TALL
    full = Plan(cards=True, columns=columns, rows=rows, height=0, tall=tall)
    visible = min(rows, max(1, room // full.row_height))
    return full._replace(height=visible * full.row_height)


class Board(Rows):
    """The cards or the table. It scrolls by whole rows, and keeps the chosen worker in sight."""

    class Chosen(Message):
        """A worker was clicked."""

        def __init__(self, slot: str) -> None:
            super().__init__()
            self.slot = slot

    def __init__(self, state: UiState, look: Look, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.state = state
        self.look = look
        self.plan = Plan(cards=False, columns=1, rows=1, height=2)
        self.slots_planned = 0
        """How many slots there were when the rows were shared out."""
        self._first = 0

    def lay_out(self, width: int, height: int) -> None:
        """Choose how to draw in `width` times `height` cells, which the log shares, and take the rows for it."""
        digits = self.look.signs is not ASCII
        self.slots_planned = len(self.state.slots)
        planned = plan(len(self.state.slots), width, height, self.state.view, digits=digits)
        self.plan = planned
        self.styles.height = planned.height

    def on_resize(self) -> None:
        """Fill the new size."""
        self.draw()

    def draw(self) -> None:
        """Draw what is visible of the workers."""
        if self.size.width <= 0 or self.size.height <= 0:
            return
        if not self.state.slots:
            line = Line(self.look, self.size.width).add("  no slot is used: Q, then c, chooses cards", "warn")
            self.show_rows([line.strip()])
            return
        self._keep_in_sight()
        self.show_rows(self._cards() if self.plan.cards else self._table())

    @property
    def _visible(self) -> int:
        """Rows of workers that there is room for."""
        around = 0 if self.plan.cards else _AROUND_TABLE
        return max(1, (self.size.height - around) // self.plan.row_height)

    def _keep_in_sight(self) -> None:
        slots = self.state.slots
        row = slots.index(self.state.chosen) // self.plan.columns if self.state.chosen in slots else 0
        self._first = max(row - self._visible + 1, min(self._first, row))
        self._first = max(0, min(self._first, self.plan.rows - self._visible))

    def _slots(self) -> tuple[str, ...]:
        columns = self.plan.columns
        return self.state.slots[self._first * columns : (self._first + self._visible) * columns]

    def _shown(self, name: str) -> Shown:
        state = self.state
        slot = state.session.slot(name)
        assert slot is not None  # the names are the session's own
        worker = state.snapshot.worker(name) or Worker(name, state.slots.index(name), WorkerState.WAITING)
        reading = state.reading(name)
        return Shown(slot, worker, reading, state.histories[name], name == state.chosen, state.snapshot.time)

    def _cards(self) -> list[Strip]:
        width, columns = self.size.width, self.plan.columns
        edges = [round(column * width / columns) for column in range(columns + 1)]
        names = self._slots()
        strips: list[Strip] = []
        for begin in range(0, len(names), columns):
            here = names[begin : begin + columns]
            drawn = [
                card.card(self._shown(name), right - left, self.look, tall=self.plan.tall)
                for name, left, right in zip(here, edges, edges[1:], strict=False)
            ]
            rest = width - edges[len(here)]
            filler = [Segment(" " * rest, self.look.style("text"))] if rest else []
            strips.extend(Strip([*chain.from_iterable(rows), *filler], width) for rows in zip(*drawn, strict=True))
        place = self._place(len(names))
        if place:
            text, end = Strip([Segment(f"{place} ", self.look.style("strong"))]), width - _CORNER
            last = strips[-1]
            strips[-1] = Strip.join([last.crop(0, end - text.cell_length), text, last.crop(end, width)])
        return strips

    def _table(self) -> list[Strip]:
        state, width = self.state, self.size.width
        layout = table.columns(state.slots, width, on_cards=state.on_cards, jobs=state.queue is not None)
        names = self._slots()
        detail = table.detail(self._shown(state.chosen), width, self.look, place=self._place(len(names)))
        rows = [table.row(self._shown(name), layout, self.look) for name in names]
        return [table.heading(layout, self.look).strip(style="dim"), *[line.strip() for line in (*rows, detail)]]

    def _place(self, visible: int) -> str:
        """Which workers are visible, where not all are."""
        number, first = len(self.state.slots), self._first * self.plan.columns
        return f" {first + 1}-{first + visible} of {number}" if visible < number else ""

    def on_click(self, event: events.Click) -> None:
        """Choose the worker under the mouse."""
        columns = self.plan.columns
        row = (event.y if self.plan.cards else event.y - 1) // self.plan.row_height
        column = min(columns - 1, event.x * columns // max(1, self.size.width))
        place = (self._first + row) * columns + column
        if 0 <= row < self._visible and place < len(self.state.slots):
            self.post_message(self.Chosen(self.state.slots[place]))
