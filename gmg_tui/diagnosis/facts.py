"""The facts behind alerts: the current state of a slot, and the growth of memory over the last half hour."""

import math
from collections import deque
from collections.abc import Mapping
from itertools import combinations
from statistics import median
from typing import NamedTuple

from msgspec import Struct

from gmg_tui.machine.cgroup import MemoryLimit
from gmg_tui.model import GpuProcess, GpuSample, Sign, Worker, WorkerState
from gmg_tui.model.curves import BrokenMetric


class Limit(NamedTuple):
    """A time limit that a worker may reach before the work is done."""

    time: float
    """Unix time, seconds."""
    name: str
    """The source of the limit, such as `Slurm's limit` or `--timeout`."""


class Facts(Struct, frozen=True):
    """The facts about a slot at one moment."""

    now: float
    """Unix time, seconds."""
    worker: Worker
    """The worker; its alerts are ignored."""
    sample: GpuSample | None = None
    """The sample of the slot's GPU; None on a CPU slot."""
    signs: tuple[Sign, ...] = ()
    """Observations from the output, the process tree and the agent."""
    room: MemoryLimit | None = None
    """The limit and usage of the RAM that the worker's processes share."""
    vram_mib: float | None = None
    """The GPU memory of the worker's processes; None if NVML does not list it, as in many containers."""
    broken: Mapping[str, BrokenMetric] = {}
    """The metrics that are not finite, by name."""
    newest_line: str = ""
    """The newest line of output; empty if that is the worker's `last_line`."""
    is_bar: bool = False
    """True if the progress comes from a progress bar, which may count anything."""
    is_starved: bool = False
    """True if its processes want a CPU that others use, or wait for a disk."""
    is_writing: bool = False
    """True if its processes are writing files, such as a final save to a slow disk."""
    below_median_pct: float | None = None
    """The deviation of the rate below the median of equal GPUs, in percent; None if the slot is not slow."""
    others: tuple[GpuProcess, ...] = ()
    """The processes on the GPU that do not belong to this session."""
    limit: Limit | None = None
    """The earliest time limit."""
    clock_s: float = 0.0
    """The system clock minus the monotonic clock; changes when the system clock is set."""
    from_agent: bool = False
    """True if the node's agent has already diagnosed the slot; `signs` then contains the agent's alerts."""

    @property
    def monotonic_s(self) -> float:
        """The time on the monotonic clock, for intervals."""
        return self.now - self.clock_s

    @property
    def is_live(self) -> bool:
        """True while the worker's process exists and can be observed."""
        return self.worker.state.live and self.worker.lost_since is None

    @property
    def is_running(self) -> bool:
        """True while the worker is in the state `running` and can be observed."""
        return self.worker.state is WorkerState.RUNNING and self.worker.lost_since is None


class History:
    """The part of an attempt's history that alerts need.

    Attributes:
        vram: The growth of the GPU memory of the worker's processes.
        gpu: The growth of the whole GPU's memory in use, while the worker's is unknown.
        ram: The growth of the resident memory.
        quiet_since: The time of the last output or step, monotonic seconds.
    """

    def __init__(self) -> None:
        self.vram, self.gpu, self.ram = Growth(), Growth(), Growth()
        self.quiet_since = math.inf
        self._activity: tuple[object, ...] = ()

    def update(self, facts: Facts) -> None:
        """Adds new facts."""
        fps, newest = facts.worker.fps, facts.worker.newest
        activity = newest.output_bytes, fps.env_steps if fps is not None else None
        if activity != self._activity:
            self._activity, self.quiet_since = activity, facts.monotonic_s
        if facts.is_running:
            self.vram.add(facts.monotonic_s, facts.vram_mib)
            if facts.vram_mib is None and facts.sample is not None:
                self.gpu.add(facts.monotonic_s, facts.sample.memory_used_mib)
            self.ram.add(facts.monotonic_s, facts.worker.memory_rss_mib)


_WINDOW_S = 1800.0
"""The time over which growth is observed."""
_MIN_SPAN_S = 300.0
"""Minimum time between the first and the last point for a forecast."""
_MIN_POINT_GAP_S = 20.0
_MIN_POINTS = 12
_MIN_RISING_SHARE = 0.8
"""Minimum share of pairs of points with a rise."""
_MIN_LATE_SLOPE = 0.75
"""Minimum slope of the last third, relative to the overall one: the growth of a cache levels off."""
_MIN_GROWTH_MIB = 16.0
_MAX_FORECAST_S = 86_400.0


class Forecast(NamedTuple):
    """The forecast of when memory is full."""

    mib_per_min: float
    full_s: float
    """The time until memory is full."""


class Growth:
    """The memory use of a running attempt, sampled evenly."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, float]] = deque(maxlen=int(_WINDOW_S / _MIN_POINT_GAP_S) + 1)
        self._first_mib: float | None = None
        self._slope: float | None = None

    def add(self, time: float, mib: float | None) -> None:
        """Adds the memory in use at `time`, monotonic seconds."""
        if mib is None or (self._points and time - self._points[-1][0] < _MIN_POINT_GAP_S):
            return
        self._first_mib = mib if self._first_mib is None else min(self._first_mib, mib)
        self._points.append((time, mib))
        self._slope = _steady_slope(list(self._points))

    def forecast(self, room_mib: float | None) -> Forecast | None:
        """Forecasts when `room_mib` more will be in use; None unless growth is steady and has reached `room_mib`.

        Before that, a leak looks like a buffer that is filling up. Also returns None beyond `_MAX_FORECAST_S`.
        """
        if self._slope is None or room_mib is None or self._first_mib is None:
            return None
        full_s = max(0.0, room_mib) / self._slope
        grown_mib = self._points[-1][1] - self._first_mib
        is_close = grown_mib >= max(room_mib, _MIN_GROWTH_MIB) and full_s <= _MAX_FORECAST_S
        return Forecast(60 * self._slope, full_s) if is_close else None


def _steady_slope(points: list[tuple[float, float]]) -> float | None:
    """Returns the slope of the points in MiB per second; None unless they rise steadily."""
    if len(points) < _MIN_POINTS or points[-1][0] - points[0][0] < _MIN_SPAN_S:
        return None
    slopes = _slopes(points)
    slope = median(slopes)
    late_slope = median(_slopes(points[-len(points) // 3 :]))
    rising = sum(pair_slope > 0 for pair_slope in slopes) / len(slopes)
    is_steady = slope > 0 and rising >= _MIN_RISING_SHARE and late_slope >= _MIN_LATE_SLOPE * slope
    return slope if is_steady else None


def _slopes(points: list[tuple[float, float]]) -> list[float]:
    pairs = combinations(points, 2)
    return [(mib - old_mib) / (time - old_time) for (old_time, old_mib), (time, mib) in pairs if time > old_time]
