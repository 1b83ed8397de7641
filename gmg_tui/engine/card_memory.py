"""What an attempt takes of its card's memory, and whether the card has got it back."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Set

from gmg_tui import units
from gmg_tui.model import GpuReading

MEMORY_WAIT_S = 30.0
"""How long the next attempt waits for it, from the end of the one that took it."""

_KEPT_MIB = 64.0
_KEPT_SHARE = 0.05
"""What a card may have kept of an attempt's memory and still count as free: drivers round, and neighbours breathe."""


class CardMemory:
    """One attempt's share of its card's memory, as NVML sees it.

    Args:
        slot: The attempt's slot.
        before: What the card said last before the attempt; None where it has said nothing yet. Its first reading
            counts then: a script takes seconds before it comes to the card.
    """

    def __init__(self, slot: str, before: GpuReading | None) -> None:
        self._slot = slot
        self._before_mib = before.memory_used_mib if before is not None else None
        self._peak_mib: float | None = None
        self._reading: GpuReading | None = None
        self._pids: Set[int] = frozenset()
        self._named = False
        """Whether NVML has named one of its processes on the card."""
        self._measured = asyncio.Event()
        self._ended: float | None = None
        """When the attempt ended, monotonic seconds."""

    def ended(self) -> None:
        """The attempt has ended."""
        self._ended = time.monotonic()

    def measure(self, reading: GpuReading | None, pids: Set[int], *, live: bool) -> None:
        """Take a reading.

        Args:
            reading: What the card says; None where nobody asks it.
            pids: The attempt's processes when they were last looked at.
            live: Whether the attempt goes on.
        """
        self._reading, self._pids = reading, pids
        if live and reading is not None:
            used_mib = reading.memory_used_mib
            if used_mib is not None:
                self._before_mib = used_mib if self._before_mib is None else self._before_mib
                self._peak_mib = max(self._peak_mib or 0.0, used_mib)
            self._named = self._named or self._is_named(reading)
        self._measured.set()
        self._measured.clear()

    def _is_named(self, reading: GpuReading) -> bool:
        return any(process.pid in self._pids for process in reading.processes or ())

    def _kept_mib(self, shared: bool) -> float | None:
        """What the card has not got back of the memory that it took; None when all of it, or when nobody can say.

        Where NVML has named its processes on the card, their absence is enough: what is taken is somebody else's. In a
        container NVML's PIDs are not ours, and the card's memory alone must tell.
        """
        reading, peak, before = self._reading, self._peak_mib, self._before_mib
        if reading is None or reading.memory_used_mib is None or peak is None or before is None:
            return None
        nameable = self._named and reading.processes is not None
        if (nameable and not self._is_named(reading)) or (shared and not nameable):
            return None
        kept = reading.memory_used_mib - before
        return kept if kept > max(_KEPT_MIB, _KEPT_SHARE * (peak - before)) else None

    @property
    def _rest_s(self) -> float:
        return MEMORY_WAIT_S - (time.monotonic() - self._ended) if self._ended is not None else 0.0

    def awaited(self, *, shared: bool = False) -> str | None:
        """What the next attempt has to wait for, in one line; None when for nothing, or not any more.

        Args:
            shared: Whether others of this session use the card: what is taken may be theirs, unless NVML names them.
        """
        kept_mib = self._kept_mib(shared)
        if kept_mib is None or self._rest_s <= 0:
            return None
        return f"for {units.mib(kept_mib)} on {self._slot} to be released (p shows by whom)"

    async def released(self, say: Callable[[str], None]) -> None:
        """Wait until nothing has to be waited for any more; `say` is told what is."""
        while (awaited := self.awaited()) is not None:
            say(awaited)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, self._rest_s)):
                    await self._measured.wait()

    def still_taken(self, *, shared: bool = False) -> str | None:
        """What is to be said of an attempt that starts now; None where the card has all back. `shared` as above."""
        kept_mib = self._kept_mib(shared)
        return None if kept_mib is None else f"started while {units.mib(kept_mib)} of the last attempt was still taken"
