"""What the interface knows: the newest snapshot, the recent past of each worker, and which worker is chosen.

Everything else lives in the engine. This module knows no Textual.
"""

from __future__ import annotations

from enum import StrEnum

from gmg_tui.model import GpuReading, Queue, Session, Slot, Snapshot, Worker
from gmg_tui.protocol import Welcome
from gmg_tui.ui.history import History


class View(StrEnum):
    """How the workers are drawn."""

    AUTO = "auto"
    """Cards where all fit, else the table."""
    CARDS = "cards"
    TABLE = "table"


class UiState:
    """The one place where the interface keeps what it draws.

    Attributes:
        session: What does not change while the session runs.
        snapshot: The newest state of the session.
        slots: The names of the slots that are drawn, in their order: all of the session's, but in a sweep those that
            have a worker now, for they come and go.
        chosen: Name of the slot that keys act on; empty where there is none.
        view: How the person wants the workers drawn.
        histories: The recent past, by slot.
    """

    def __init__(self, welcome: Welcome) -> None:
        self.session: Session = welcome.session
        self.snapshot: Snapshot = welcome.snapshot
        self.view = View.AUTO
        self.histories = {slot.name: History() for slot in self.session.slots}
        self._all_slots = tuple(slot.name for slot in self.session.slots)
        self.slots = self._all_slots
        self.chosen: str = self.slots[0] if self.slots else ""
        for series in welcome.recent:
            if series.slot in self.histories:
                self.histories[series.slot].seed(series)
        self.apply(welcome.snapshot)

    @property
    def queue(self) -> Queue | None:
        """How far the sweep is; None in a plain run."""
        return self.snapshot.queue

    @property
    def worker(self) -> Worker | None:
        """The chosen worker; None where its slot has none yet."""
        return self.snapshot.worker(self.chosen)

    @property
    def on_cards(self) -> bool:
        """Whether any slot is on a card; else the columns speak of the CPU."""
        return any(slot.gpu is not None for slot in self.session.slots)

    def slot(self, name: str) -> Slot | None:
        """The slot called `name`."""
        return self.session.slot(name)

    def reading(self, slot: str) -> GpuReading | None:
        """What the card of `slot` said last; None on a CPU slot."""
        found = self.session.slot(slot)
        return self.snapshot.reading(found.gpu) if found else None

    def apply(self, snapshot: Snapshot) -> bool:
        """Make `snapshot` the newest and add it to the past.

        Returns:
            Whether another slot is chosen now, because the one that was has gone.
        """
        self.snapshot = snapshot
        moved = snapshot.queue is not None and self._follow_slots(snapshot)
        readings = {reading.uuid: reading for reading in snapshot.readings}
        gpus = {slot.name: slot.gpu for slot in self.session.slots}
        for worker in snapshot.workers:
            history = self.histories.get(worker.slot)
            if history is not None and not worker.state.ended:
                gpu = gpus[worker.slot]
                history.add(snapshot.time, worker, readings.get(gpu.uuid) if gpu else None)
        return moved

    def _follow_slots(self, snapshot: Snapshot) -> bool:
        """Draw the slots that have a worker; where the chosen one has none any more, choose the nearest that has."""
        there = {worker.slot for worker in snapshot.workers}
        self.slots = tuple(name for name in self._all_slots if name in there)
        if self.chosen in there:
            return False
        places = {name: place for place, name in enumerate(self._all_slots)}
        here = places.get(self.chosen, 0)
        before = self.chosen
        self.chosen = min(self.slots, key=lambda name: abs(places[name] - here), default="")
        return self.chosen != before

    def choose(self, slot: str) -> bool:
        """Make `slot` the chosen one. Returns whether that changed anything."""
        if slot == self.chosen or slot not in self.slots:
            return False
        self.chosen = slot
        return True

    def move(self, direction: str, columns: int) -> bool:
        """Choose the neighbour in a grid of `columns`, and stay at its edges.

        Args:
            direction: `up`, `down`, `left` or `right`.
            columns: Columns of the grid; 1 in the table.

        Returns:
            Whether another worker is chosen now.
        """
        slots = self.slots
        if self.chosen not in slots:
            return False
        here = slots.index(self.chosen)
        step = {"up": -columns, "down": columns, "left": -1, "right": 1}[direction]
        there = here + step
        if direction == "down" and there >= len(slots) and here // columns < (len(slots) - 1) // columns:
            there = len(slots) - 1  # the last row is shorter
        return 0 <= there < len(slots) and self.choose(slots[there])
