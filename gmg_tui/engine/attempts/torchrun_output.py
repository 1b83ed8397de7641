"""The output of a user's torchrun, rank by rank as far as its lines say whose they are."""

from __future__ import annotations

from collections.abc import Callable

from gmg_tui.ddp import torchrun
from gmg_tui.genesis.output.failures import Failure, explain
from gmg_tui.genesis.output.reader import Reader
from gmg_tui.genesis.output.tail import Tail
from gmg_tui.model import Fps, added_up

_MOST_RANKS = 64
"""Of more, the others' lines are nobody's."""


class TorchrunOutput:
    """Reads each rank's lines with a reader of its own, which `make` makes; `reader` reads those that speak for all.

    These are the first rank's, and those that say nothing of a rank.
    """

    def __init__(self, reader: Reader, make: Callable[[], Reader]) -> None:
        self._reader = reader
        self._make = make
        self._ranks: dict[int, Reader] = {}
        self._tail = Tail()

    def feed(self, block: bytes, now: float) -> bool:
        """Read a block of whole lines at `now`, monotonic seconds. Returns whether what is displayed has changed."""
        self._tail.add(block)
        changed = False
        for rank, piece in torchrun.parted(block):
            if rank is not None and (rank in self._ranks or len(self._ranks) < _MOST_RANKS):
                if rank not in self._ranks:
                    self._ranks[rank] = self._make()
                changed |= self._ranks[rank].feed(piece, now)
            if rank is None or rank == min(self._ranks, default=rank):
                changed |= self._reader.feed(piece, now)
        return changed

    @property
    def fps(self) -> Fps | None:
        """The rate of all ranks: what one of them reports for all, or else the sum of those that say whose it is."""
        if self._reader.fps_of_group:
            return self._reader.fps
        known = [fps for reader in self._ranks.values() if (fps := reader.fps) is not None]
        return added_up(known) if known else self._reader.fps

    def failure(self, exit_code: int) -> Failure:
        """Why it ended with `exit_code`: by the words of the rank that failed first, where torchrun says which that is."""
        return explain(exit_code, self._tail.lines())
