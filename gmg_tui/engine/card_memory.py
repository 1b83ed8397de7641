"""What an attempt takes of its card's memory, and whether the card has got it back."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Set

from gmg_tui import units
from gmg_tui.model import GpuReading

MEMORY_WAIT_S = 30.0
"""How long the next attempt waits for it."""

_KEPT_MIB = 64.0
_KEPT_SHARE = 0.05
"""What a card may have kept of an attempt's memory and still count as free: drivers round, and neighbours breathe."""


class CardMemory:
    """One attempt's share of its card's memory, as NVML sees it.

    Args:
        slot: The attempt's slot.
        before: What the card said last before the attempt; None where nobody asks it.
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

    def measure(self, reading: GpuReading | None, pids: Set[int], *, live: bool) -> None:
        """Take a reading.

        Args:
            reading: What the card says; None where nobody asks it.
            pids: The attempt's processes when they were last looked at.
            live: Whether the attempt goes on.
        """
        self._reading, self._pids = reading, pids
        if live and reading is not None:
            if reading.memory_used_mib is not None:
                self._peak_mib = max(self._peak_mib or 0.0, reading.memory_used_mib)
            self._named = self._named or self._is_named(reading)
        self._measured.set()
        self._measured.clear()

    def _is_named(self, reading: GpuReading) -> bool:
        return any(process.pid in self._pids for process in reading.processes or ())

    @property
    def kept_mib(self) -> float | None:
        """What the card has not got back of the memory that it took; None when all of it, or when nobody can say.

        Where NVML has named its processes on the card, their absence is enough: what is taken is somebody else's. In a
        container NVML's PIDs are not ours, and the card's memory alone must tell.
        """
        reading, peak, before = self._reading, self._peak_mib, self._before_mib
        if reading is None or reading.memory_used_mib is None or peak is None or before is None:
            return None
        if self._named and reading.processes is not None and not self._is_named(reading):
            return None
        kept = reading.memory_used_mib - before
        return kept if kept > max(_KEPT_MIB, _KEPT_SHARE * (peak - before)) else None

    async def released(self, say: Callable[[str], None]) -> str | None:
        """Wait until the card has back what was taken of its memory, for half a minute at most.

        Args:
            say: Told what is waited for, in one line.

        Returns:
            What is to be said of the next attempt when the memory was not released in time; None when it was.
        """
        deadline = time.monotonic() + MEMORY_WAIT_S
        while (kept_mib := self.kept_mib) is not None:
            rest_s = deadline - time.monotonic()
            if rest_s <= 0:
                return f"started while {units.mib(kept_mib)} of the last attempt was still taken"
            say(f"for {units.mib(kept_mib)} on {self._slot} to be released (p shows by whom)")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest_s):
                    await self._measured.wait()
        return None
