"""What a slot keeps while its workers come and go."""

from __future__ import annotations

from gmg_tui.engine.output.history import History
from gmg_tui.engine.output.ring_buffer import RingBuffer
from gmg_tui.engine.workers.slot_worker import KeptMemory, SlotWorker
from gmg_tui.model import Slot

_RING_BYTES = 8 << 20
"""For the lines of all slots together."""
_RING_LEAST_BYTES = 128 << 10


class SlotState:
    """A slot, its newest lines and metrics, and its current or last worker.

    `index` is its number among the `count` slots of the session.
    """

    def __init__(self, slot: Slot, index: int, count: int) -> None:
        self.slot = slot
        self.index = index
        self.ring = RingBuffer(max_bytes=max(_RING_LEAST_BYTES, _RING_BYTES // count))
        self.history = History()
        self.worker: SlotWorker | None = None
        self.lead: SlotState | None = None
        """The slot whose worker runs on this one too; None where it has its own, or none."""
        self.waits: str | None = None
        """Why no job starts on it, in one line; None in a plain run."""
        self.away: str | None = None
        """Why nothing can run on it, as its node is lost; None while that is there."""
        self.shown = True
        """Whether it is displayed: jobs may start on it, or one occupies it."""
        self.over = False
        """Whether no job is left that could start on it; without meaning in a plain run."""

    @property
    def gpu_uuid(self) -> str | None:
        """The UUID of its GPU; None on a CPU slot."""
        return self.slot.gpu.uuid if self.slot.gpu is not None else None

    @property
    def memory(self) -> KeptMemory | None:
        """The GPU memory of the last attempt; None if none has run."""
        return self.worker.memory if self.worker is not None else None

    def remember(self, moment: float) -> None:
        """Add a point to its history; `moment` is Unix time in seconds."""
        if self.worker is not None:
            self.history.add(moment, self.worker.point)
