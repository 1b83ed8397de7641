"""What the interface knows: the newest snapshot, the recent past of each worker, and which worker is chosen.

Everything else lives in the engine. This module knows no Textual.
"""

from __future__ import annotations

from enum import StrEnum

from gmg_tui.model import GpuReading, Session, Slot, Snapshot, Worker
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
        chosen: Name of the slot that keys act on.
        view: How the person wants the workers drawn.
        histories: The recent past, by slot.
    """

    def __init__(self, welcome: Welcome) -> None:
        self.session: Session = welcome.session
        self.snapshot: Snapshot = welcome.snapshot
        self.view = View.AUTO
        self.histories = {slot.name: History() for slot in self.session.slots}
        self.chosen: str = self.slots[0] if self.slots else ""
        for series in welcome.recent:
            if series.slot in self.histories:
                self.histories[series.slot].seed(series)
        self.apply(welcome.snapshot)

    @property
    def slots(self) -> tuple[str, ...]:
        """The names of the slots, in the order in which they are drawn."""
        return tuple(slot.name for slot in self.session.slots)

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

    def apply(self, snapshot: Snapshot) -> None:
        """Make `snapshot` the newest and add it to the past."""
        self.snapshot = snapshot
        readings = {reading.uuid: reading for reading in snapshot.readings}
        gpus = {slot.name: slot.gpu for slot in self.session.slots}
        for worker in snapshot.workers:
            history = self.histories.get(worker.slot)
            if history is not None and not worker.state.ended:
                gpu = gpus[worker.slot]
                history.add(snapshot.time, worker, readings.get(gpu.uuid) if gpu else None)

    def choose(self, slot: str) -> bool:
        """Make `slot` the chosen one. Returns whether that changed anything."""
        if slot == self.chosen or slot not in self.histories:
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
