"""How much of its GPU's memory an attempt uses, and whether it has been released."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Set

from gmg_tui import units
from gmg_tui.model import GpuSample

MEMORY_WAIT_S = 30.0
"""How long the next attempt waits for the memory of the last one, from its end."""

_KEPT_MIB = 64.0
_KEPT_SHARE = 0.05
"""What may remain of an attempt's memory while it counts as released: drivers round, and other users' use varies."""


class GpuMemory:
    """One attempt's share of its GPU's memory, as NVML sees it.

    If NVML has listed the attempt's processes on the GPU, their absence is proof enough. In a container NVML's PIDs are
    not ours, or it lists nothing: then processes that were there before the attempt belong to others. Without a sample
    from before the attempt the first one after its start counts, as a script takes seconds to reach the GPU.

    Attributes:
        shared: Whether other workers of this session use the GPU: memory may be theirs, unless NVML lists them.
    """

    def __init__(self, slot: str) -> None:
        self.shared = False
        self._slot = slot
        self._before: GpuSample | None = None
        self._peak_mib: float | None = None
        self._sample: GpuSample | None = None
        self._pids: Set[int] = frozenset()
        self._is_named = False
        """Whether NVML has listed one of its processes on the GPU."""
        self._measured = asyncio.Event()
        self._ended: float | None = None
        """When the attempt ended, monotonic seconds."""

    @property
    def before_mib(self) -> float:
        """The GPU's memory in use before the attempt; 0 where that is unknown."""
        return (self._before.memory_used_mib if self._before is not None else None) or 0.0

    def ended(self) -> None:
        """The attempt has ended."""
        self._ended = time.monotonic()

    def measure(self, sample: GpuSample | None, pids: Set[int] | None = None, *, live: bool = False) -> None:
        """Take a sample (None on a CPU slot); `pids` are the attempt's processes at the last scan, None where unchanged."""
        self._sample, self._pids = sample, self._pids if pids is None else pids
        used_mib = sample.memory_used_mib if sample is not None else None
        if sample is not None and used_mib is not None:
            self._before = self._before or sample
            self._is_named = self._is_named or any(process.own_pid in self._pids for process in sample.processes or ())
            if live:
                self._peak_mib = used_mib if self._peak_mib is None else max(self._peak_mib, used_mib)
        self._measured.set()
        self._measured.clear()

    def _kept_mib(self) -> float | None:
        """How much of its memory is not released; None if all is, or if that cannot be determined."""
        sample, peak = self._sample, self._peak_mib
        if sample is None or sample.memory_used_mib is None or peak is None or self._before is None:
            return None
        used, before = sample.memory_used_mib, self.before_mib
        if used - before <= max(_KEPT_MIB, _KEPT_SHARE * (peak - before)):
            return None
        return None if self._belongs_to_others(sample, self._before) else used - before

    def _belongs_to_others(self, sample: GpuSample, before: GpuSample) -> bool:
        """Whether the memory in use belongs to other processes, as far as NVML reports it."""
        listed = {process.pid for process in sample.processes or ()}
        if self._is_named and sample.processes is not None:
            return listed.isdisjoint(self._pids)
        return self.shared or (bool(listed) and listed <= {process.pid for process in before.processes or ()})

    @property
    def _rest_s(self) -> float:
        return MEMORY_WAIT_S - (time.monotonic() - self._ended) if self._ended is not None else 0.0

    def awaited(self) -> str | None:
        """What the next attempt has to wait for, in one line; None if nothing, or if it has waited long enough."""
        kept_mib = self._kept_mib()
        if kept_mib is None or self._rest_s <= 0:
            return None
        return f"for {units.mib(kept_mib)} on {self._slot} to be released (the list of its processes shows by whom)"

    async def released(self, report: Callable[[str], None]) -> None:
        """Wait until the next attempt may start; `report` is called with what it waits for."""
        while (awaited := self.awaited()) is not None:
            report(awaited)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, self._rest_s)):
                    await self._measured.wait()

    def still_taken(self) -> str | None:
        """The warning for an attempt that starts now; None if all is released."""
        kept_mib = self._kept_mib()
        return None if kept_mib is None else f"started while {units.mib(kept_mib)} of the last attempt was still taken"
