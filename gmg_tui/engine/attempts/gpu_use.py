"""An attempt's use of its GPU: memory and its release, mean load, and energy."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Set

from gmg_tui.engine.clock import any_of
from gmg_tui.machine.gpu.sampler import SLOW_INTERVAL_S
from gmg_tui.model import GpuProcess, GpuSample, units

MEMORY_WAIT_S = 30.0
"""Maximum wait for the release of an attempt's memory after its end."""

_LIST_DELAY_S = 1.5 * SLOW_INTERVAL_S
"""Maximum time until NVML's processes are listed again: until then, new memory is listed for none."""
_MIN_COUNTED_SAMPLES = 5
_RELEASED_MARGIN_MIB = 64.0
_RELEASED_MARGIN_SHARE = 0.05
"""Memory that may remain in use, in MiB or as a share of the attempt's: drivers round, and other users' use varies."""


class GpuMemory:
    """One attempt's share of its GPU's memory, according to NVML.

    If NVML has listed the attempt's processes on the GPU, their memory is released once it no longer lists them. In
    a container NVML lists other PIDs or none: then processes listed before the attempt count as others'. Without a
    sample from before the attempt, the first after its start is used: a script takes seconds to reach the GPU.

    Attributes:
        shared: True if other workers of this session use the GPU: memory that NVML lists for no process may be theirs.
        used_mib: Memory of the attempt's processes at the last sample; None if NVML does not list it.
        others_peak_mib: Peak memory that NVML listed during the attempt for processes which are certainly others'.
    """

    def __init__(self, slot: str) -> None:
        self.shared = False
        self._slot = slot
        self._sample_before: GpuSample | None = None
        self._peak_mib: float | None = None
        """Peak memory in use on the whole GPU during the attempt."""
        self._own_peak_mib: float | None = None
        self._unlisted_peak_mib: float | None = None
        """Peak memory on the GPU without that of other processes (see `_unlisted_mib`), for at least `_LIST_DELAY_S`."""
        self._recent_mib: deque[tuple[float, float]] = deque()
        """This memory at the samples of the last `_LIST_DELAY_S`, each with its time, monotonic seconds."""
        self._candidates = set[int]()
        """In a container, the processes that have come to the GPU: if there is one, it is the attempt's."""
        self._was_shared = False
        self.used_mib: float | None = None
        self.others_peak_mib = 0.0
        self._sample: GpuSample | None = None
        self._pids: Set[int] = frozenset()
        self._is_listed = False
        """True once NVML has listed one of its processes on the GPU."""
        self._measured = asyncio.Event()
        self._ended_at: float | None = None
        """Time of the attempt's end, monotonic seconds."""

    @property
    def before_mib(self) -> float:
        """The GPU memory in use before the attempt; 0 if unknown."""
        return (self._sample_before.memory_used_mib if self._sample_before is not None else None) or 0.0

    def mark_ended(self) -> None:
        """Records the end of the attempt."""
        self._ended_at = time.monotonic()

    def measure(self, sample: GpuSample | None, pids: Set[int] | None = None, *, live: bool = False) -> None:
        """Applies a sample (None on a CPU slot) of a `live` or ended attempt with these `pids` (None: unchanged)."""
        self._sample, self._pids = sample, self._pids if pids is None else pids
        used_mib = sample.memory_used_mib if sample is not None else None
        if sample is not None and used_mib is not None:
            self._sample_before = self._sample_before or sample
        own = [process for process in (sample and sample.processes) or () if process.own_pid in self._pids]
        self._is_listed = self._is_listed or bool(own)
        if sample is not None and live:
            sizes = [process.memory_mib for process in own if process.memory_mib is not None]
            self.used_mib = sum(sizes) if sizes else None
            self._own_peak_mib = _greater(self._own_peak_mib, self.used_mib)
            self._peak_mib = _greater(self._peak_mib, used_mib)
            self._add_unlisted(sample, time.monotonic())
            self.others_peak_mib = max(self.others_peak_mib, _total_mib(self._others(sample)))
            new = (process.pid for process in sample.processes or () if process.foreign)
            self._candidates |= {*new} - self._earlier_pids
            self._was_shared |= self.shared
        self._measured.set()
        self._measured.clear()

    @property
    def peak_mib(self) -> float | None:
        """Peak memory of the attempt's own processes; None if unknown.

        If NVML has not listed them, and the attempt had the GPU to itself: the GPU's peak without others' memory, less
        that before.
        """
        before_mib = self._unlisted_mib(self._sample_before)
        is_own = self._own_peak_mib is not None or self._was_shared or len(self._candidates) > 1
        if is_own or self._unlisted_peak_mib is None or before_mib is None:
            return self._own_peak_mib
        return max(0.0, self._unlisted_peak_mib - max(0.0, before_mib))

    def _add_unlisted(self, sample: GpuSample, now: float) -> None:
        recent_mib, since = self._recent_mib, now - _LIST_DELAY_S
        if (mib := self._unlisted_mib(sample)) is not None:
            recent_mib.append((now, mib))
        while len(recent_mib) > 1 and recent_mib[1][0] <= since:
            recent_mib.popleft()
        if recent_mib and recent_mib[0][0] <= since:
            self._unlisted_peak_mib = _greater(self._unlisted_peak_mib, min(mib for _, mib in recent_mib))

    @property
    def _earlier_pids(self) -> Set[int]:
        before = self._sample_before.processes if self._sample_before is not None else None
        return {process.pid for process in before or ()}

    def _unlisted_mib(self, sample: GpuSample | None) -> float | None:
        """Returns the GPU memory in use less that of processes which are certainly others'.

        Returns None if unknown, also while the memory of one that has come during the attempt is.
        """
        if sample is None or sample.memory_used_mib is None:
            return None
        others, earlier = self._others(sample), self._earlier_pids
        if any(process.memory_mib is None and process.pid not in earlier for process in others):
            return None
        return sample.memory_used_mib - _total_mib(others)

    def _others(self, sample: GpuSample) -> list[GpuProcess]:
        earlier = self._earlier_pids
        return [
            process
            for process in sample.processes or ()
            if process.own_pid not in self._pids and (process.pid in earlier or not process.foreign)
        ]

    def _unreleased_mib(self) -> float | None:
        """Returns the memory not yet released; None if all is, or if unknown."""
        sample, peak = self._sample, self._peak_mib
        if sample is None or sample.memory_used_mib is None or peak is None or self._sample_before is None:
            return None
        used, before = sample.memory_used_mib, self.before_mib
        if used - before <= max(_RELEASED_MARGIN_MIB, _RELEASED_MARGIN_SHARE * (peak - before)):
            return None
        return None if self._belongs_to_others(sample, self._sample_before) else used - before

    def _belongs_to_others(self, sample: GpuSample, before: GpuSample) -> bool:
        """Returns True if the memory in use belongs to other processes, according to NVML."""
        listed = {process.pid for process in sample.processes or ()}
        if self._is_listed and sample.processes is not None:
            return listed.isdisjoint(self._pids)
        return self.shared or (bool(listed) and listed <= {process.pid for process in before.processes or ()})

    @property
    def _remaining_wait_s(self) -> float:
        return MEMORY_WAIT_S - (time.monotonic() - self._ended_at) if self._ended_at is not None else 0.0

    def wait_reason(self) -> str | None:
        """Returns the next attempt's wait reason; None if all memory is released, or the wait has timed out."""
        mib = self._unreleased_mib()
        if mib is None or self._remaining_wait_s <= 0:
            return None
        return f"for {units.mib(mib)} on {self._slot} to be released (see its process list)"

    async def wait_for_release(self, report: Callable[[str], None]) -> None:
        """Waits until the next attempt may start; `report` gets the wait reason."""
        while (reason := self.wait_reason()) is not None:
            report(reason)
            await any_of(self._measured, timeout_s=max(0.0, self._remaining_wait_s))

    def unreleased_warning(self) -> str | None:
        """Returns a warning for an attempt that starts now; None if all memory is released."""
        mib = self._unreleased_mib()
        return None if mib is None else f"started while {units.mib(mib)} of the last attempt's memory was still in use"


def _total_mib(processes: Iterable[GpuProcess]) -> float:
    return sum(process.memory_mib or 0.0 for process in processes)


class _Mean:
    def __init__(self) -> None:
        self._sum, self._count = 0.0, 0

    def add(self, value: float | None) -> None:
        """Adds `value`; None is ignored."""
        if value is not None:
            self._sum += value
            self._count += 1

    @property
    def value(self) -> float | None:
        """The mean; None without values."""
        return self._sum / self._count if self._count else None


class Meter:
    """Accumulates the samples of one attempt's GPU.

    Utilisation and power are means over the running phase; energy covers the attempt. Power and energy are divided
    evenly among the workers on the GPU.
    """

    def __init__(self) -> None:
        self.gpu_util_pct = _Mean()
        self.power_w = _Mean()
        self._counter_j: float | None = None
        self._last_power: tuple[float, float] | None = None
        """Time of the last sample without a counter, monotonic seconds, and its power."""
        self.energy_j: float | None = None
        """Energy from the GPU's counter; without one, power integrated over time; None if unknown."""
        self._last_energy: tuple[float, float] | None = None
        """Time of the previous sample, monotonic seconds, and `energy_j` then."""
        self._counted: tuple[tuple[float, float], tuple[float, float]] | None = None
        """Time and energy at the first and last count of environment steps, interpolated."""
        self._counted_samples = 0
        """Number of samples between the two."""

    @property
    def counted_power_w(self) -> float | None:
        """The mean power between the first and the last count of environment steps.

        None with fewer than `_MIN_COUNTED_SAMPLES` between them: energy between two samples is only interpolated.
        """
        if self._counted is None or self._counted_samples < _MIN_COUNTED_SAMPLES:
            return None
        (start, start_j), (end, end_j) = self._counted
        return (end_j - start_j) / (end - start) if end > start else None

    def add(
        self,
        sample: GpuSample,
        *,
        running: bool,
        now: float,
        sharers: int = 1,
        counted: tuple[float, float] | None = None,
    ) -> None:
        """Adds a sample taken at `now`, monotonic seconds, of a GPU with `sharers` live workers.

        `counted` are the times of the first and last count of environment steps, monotonic seconds.
        """
        power_w = sample.power_w / sharers if sample.power_w is not None else None
        if running:
            self.gpu_util_pct.add(sample.gpu_util_pct)
            self.power_w.add(power_w)
        if sample.energy_j is not None:
            before_j = self._counter_j if self._counter_j is not None else sample.energy_j
            # The counter resets when the driver is reloaded.
            self.energy_j = (self.energy_j or 0.0) + max(0.0, sample.energy_j - before_j) / sharers
            self._counter_j = sample.energy_j
        elif power_w is not None:
            if self._last_power is not None:
                last_at, last_w = self._last_power
                self.energy_j = (self.energy_j or 0.0) + (now - last_at) * (last_w + power_w) / 2
            self._last_power = (now, power_w)
        if self.energy_j is not None:
            if counted is not None:
                self._set_counted(*counted, (now, self.energy_j))
            self._last_energy = now, self.energy_j

    def _set_counted(self, first: float, last: float, newest: tuple[float, float]) -> None:
        """Applies the times of the first and last count; `newest` is a sample's time, and the energy until then."""
        previous = self._last_energy or newest

        def interpolate(moment: float) -> tuple[float, float]:
            """Returns `moment`, clamped to the time between the two samples, and the energy until then."""
            moment = min(max(moment, previous[0]), newest[0])
            share = (moment - previous[0]) / (newest[0] - previous[0]) if newest[0] > previous[0] else 1.0
            return moment, previous[1] + share * (newest[1] - previous[1])

        start = self._counted[0] if self._counted is not None else interpolate(first)
        if self._counted is None or last > previous[0]:
            self._counted = start, interpolate(last)
            self._counted_samples += 1


def _greater(first: float | None, second: float | None) -> float | None:
    return max((value for value in (first, second) if value is not None), default=None)
