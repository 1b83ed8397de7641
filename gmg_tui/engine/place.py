"""What a slot keeps through all the workers that it has."""

from __future__ import annotations

from gmg_tui.engine.history import History
from gmg_tui.engine.ring import Ring
from gmg_tui.engine.worker import Worker
from gmg_tui.model import Slot

_RING_BYTES = 8 << 20
"""For the kept lines of all slots together."""
_RING_LINES = 4000
_RING_LEAST_BYTES = 128 << 10


class Place:
    """A slot, its newest lines and figures, and its present or last worker.

    Args:
        slot: The slot.
        index: Its number among the session's slots.
        count: How many slots the session has.
    """

    def __init__(self, slot: Slot, index: int, count: int) -> None:
        self.slot = slot
        self.index = index
        self.ring = Ring(_RING_LINES, max(_RING_LEAST_BYTES, _RING_BYTES // count))
        self.history = History()
        self.worker: Worker | None = None
        self.waits: str | None = None
        """Why no job starts on it, in one line; None in a plain run."""
        self.shown = True
        """Whether a screen should show it: jobs may start on it, or one holds it."""
        self.over = False
        """Whether no job is left that could start on it; in a plain run it is of no account."""
