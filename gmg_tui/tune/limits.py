"""How far up values may be tried."""

from __future__ import annotations

from collections.abc import Mapping

from gmg_tui.tune import memory
from gmg_tui.tune.record import Record

MOST_VALUES = 14
"""How many different values are tried at most."""
FOR_THE_KNEE = 1
"""Of these, what is kept for the second answer."""
_ALIKE = 0.95
"""A slot whose memory allows this share of what another one's allows is to run the same values."""
_STILL_FREE = 0.5
"""What has run may leave this share of the headroom: the line may have been off, and others' use of memory varies."""


class Limits:
    """What memory, failures and the user's bounds allow, at one moment."""

    def __init__(self, record: Record, free_mib: Mapping[str, float]) -> None:
        self._record = record
        self.most_on = self._mosts(free_mib, record.spec.headroom_pct)
        """By slot, the greatest value that leaves the headroom; None for any."""
        self._most_again = self._mosts(free_mib, _STILL_FREE * record.spec.headroom_pct)
        """The same of values that have run."""
        self.ceiling = record.ceiling
        """Values from here on are not tried."""
        mosts = [value for value in self.most_on.values() if value is not None]
        bounded = mosts and len(mosts) == len(self.most_on)
        self.memory_end = min(value for value in mosts if value >= _ALIKE * max(mosts)) if bounded else None
        """The greatest value that leaves the headroom on the slot with most memory, and on those like it; None where
        memory does not bound it."""
        bounds = [bound for bound in (self.memory_end, record.spec.high) if bound is not None]
        self.end = min(bounds, default=None)
        """The greatest value that may be tried, failures aside; None for any."""

    def fits(self, value: int, slot: str) -> bool:
        """Whether this value may run on this slot."""
        most = (self._most_again if value in self._record.ran else self.most_on).get(slot)
        return most is None or value <= most or value == self._record.spec.low

    def _mosts(self, free_mib: Mapping[str, float], headroom_pct: float) -> dict[str, int | None]:
        known = self._record.memory_line
        return {
            name: memory.most(known, slot, headroom_pct, free_mib.get(name))
            for name, slot in self._record.slots.items()
        }

    @property
    def room(self) -> int:
        """How many more different values there may be."""
        return MOST_VALUES - len(self._record.values)
