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

    Where NVML has named the attempt's processes on the card, their absence is enough. In a container NVML's PIDs are
    not ours, or it names nobody: processes that were there before are strangers then, and memory that grows after the
    attempt's end is a stranger's too, for the dead take no more.

    Args:
        slot: The attempt's slot.
        before: What the card said last before the attempt; None where it has said nothing yet. Its first reading
            counts then: a script takes seconds before it comes to the card.
    """

    def __init__(self, slot: str, before: GpuReading | None) -> None:
        self._slot = slot
        self._before = before if before is not None and before.memory_used_mib is not None else None
        self._peak_mib: float | None = None
        self._reading: GpuReading | None = None
        self._pids: Set[int] = frozenset()
        self._own_named = False
        """Whether NVML has named one of its processes on the card."""
        self._any_named = False
        """Whether NVML has named any process on the card."""
        self._least_mib: float | None = None
        """Of the card's memory that was taken since the attempt's end."""
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
        used_mib = reading.memory_used_mib if reading is not None else None
        if reading is not None and used_mib is not None:
            self._before = self._before or reading
            self._own_named = self._own_named or any(process.pid in pids for process in reading.processes or ())
            self._any_named = self._any_named or bool(reading.processes)
            if live:
                self._peak_mib = used_mib if self._peak_mib is None else max(self._peak_mib, used_mib)
            elif self._ended is not None:
                self._least_mib = used_mib if self._least_mib is None else min(self._least_mib, used_mib)
        self._measured.set()
        self._measured.clear()

    def _kept_mib(self, shared: bool) -> float | None:
        """What the card has not got back of the memory that it took; None when all of it, or when nobody can say."""
        reading, peak = self._reading, self._peak_mib
        if reading is None or reading.memory_used_mib is None or peak is None or self._before is None:
            return None
        used, before = reading.memory_used_mib, self._before.memory_used_mib or 0.0
        if used - before <= max(_KEPT_MIB, _KEPT_SHARE * (peak - before)):
            return None
        return None if self._is_anothers(reading, used, shared) else used - before

    def _is_anothers(self, reading: GpuReading, used_mib: float, shared: bool) -> bool:
        """Whether what is taken of the card is not the attempt's, as far as that can be told."""
        listed = {process.pid for process in reading.processes or ()}
        if self._own_named and reading.processes is not None:
            return listed.isdisjoint(self._pids)
        there = {process.pid for process in (self._before.processes if self._before is not None else None) or ()}
        if shared or (self._any_named and reading.processes is not None and listed <= there):
            return True
        return self._least_mib is not None and used_mib > self._least_mib + _KEPT_MIB

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
