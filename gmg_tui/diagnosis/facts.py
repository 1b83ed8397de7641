"""The facts behind alerts: a slot's current ones, and their trend over the last half hour."""

import math
from collections import deque
from collections.abc import Mapping
from itertools import combinations
from statistics import median
from typing import NamedTuple

from msgspec import Struct

from gmg_tui.machine.cgroup import MemoryRoom
from gmg_tui.model import GpuProcess, GpuSample, Sign, Worker, WorkerState
from gmg_tui.model.curves import BrokenMetric


class Limit(NamedTuple):
    """A time limit that may come before a worker is done."""

    time: float
    """Unix time, seconds."""
    name: str
    """Its source, such as `Slurm's limit` or `--timeout`."""


class Facts(Struct, frozen=True):
    """A snapshot of the facts about a slot."""

    now: float
    """Unix time, seconds."""
    worker: Worker
    """The worker; its alerts are ignored."""
    sample: GpuSample | None = None
    """The sample of its GPU; None on a CPU slot."""
    signs: tuple[Sign, ...] = ()
    """Observations from the output, the process tree and the agent."""
    room: MemoryRoom | None = None
    """The RAM that its processes may use."""
    vram_mib: float | None = None
    """The GPU memory of its own processes."""
    broken: Mapping[str, BrokenMetric] = {}
    """The metrics that are not finite, by name."""
    newest_line: str = ""
    """The newest line of output; empty if the worker's `last_line` is it."""
    is_bar: bool = False
    """True if its progress comes from a progress bar, which may count anything."""
    below_median_pct: float | None = None
    """Percent by which its rate is below the median of equal GPUs; None if it is not slow."""
    others: tuple[GpuProcess, ...] = ()
    """Other processes on its GPU, outside this session."""
    limit: Limit | None = None
    """The earliest time limit."""
    clock_s: float = 0.0
    """Seconds the system clock is ahead of the monotonic one; changes when the system clock is set."""
    from_agent: bool = False
    """True if its node's agent has already diagnosed it; `signs` then contains the agent's alerts."""

    @property
    def moment(self) -> float:
        """The moment on the monotonic clock, for intervals."""
        return self.now - self.clock_s

    @property
    def is_live(self) -> bool:
        """True while its process exists and is observable."""
        return self.worker.state.live and self.worker.lost_since is None

    @property
    def is_running(self) -> bool:
        """True while its process runs undisturbed, and has reported progress."""
        return self.worker.state is WorkerState.RUNNING and self.worker.lost_since is None


class History:
    """The history of an attempt, as far as alerts need it.

    Attributes:
        vram: The growth of its GPU memory.
        ram: The growth of its resident memory.
        quiet_since: Time of its last output or step, monotonic seconds.
    """

    def __init__(self) -> None:
        self.vram, self.ram = Growth(), Growth()
        self.quiet_since = math.inf
        self._work: tuple[object, ...] = ()

    def update(self, facts: Facts) -> None:
        """Adds new facts."""
        fps, newest = facts.worker.fps, facts.worker.newest
        work = newest.output_bytes, fps.env_steps if fps is not None else None
        if work != self._work:
            self._work, self.quiet_since = work, facts.moment
        if facts.is_running:
            self.vram.add(facts.moment, facts.vram_mib)
            self.ram.add(facts.moment, facts.worker.memory_rss_mib)


WINDOW_S = 1800.0
MIN_SPAN_S = 300.0
_STEP_S = 20.0
"""Minimum seconds between two points."""
_MIN_POINTS = 12
_MIN_RISING = 0.8
"""Share of pairs of points that must rise."""
_MIN_LATE = 0.75
"""Share of the overall slope that the last third must have: a filling cache levels off."""
_MIN_GROWTH_MIB = 16.0
_MAX_FORECAST_S = 86_400.0


class Forecast(NamedTuple):
    """The growth rate of memory, and the time until it is full."""

    mib_per_min: float
    full_s: float
    """Seconds until memory is full."""


class Growth:
    """The memory use of an attempt, sampled evenly while it runs."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, float]] = deque(maxlen=int(WINDOW_S / _STEP_S) + 1)
        self._first_mib: float | None = None
        self._slope: float | None = None

    def add(self, time: float, mib: float | None) -> None:
        """Adds the memory in use at `time`, monotonic seconds."""
        if mib is None or (self._points and time - self._points[-1][0] < _STEP_S):
            return
        self._first_mib = mib if self._first_mib is None else min(self._first_mib, mib)
        self._points.append((time, mib))
        self._slope = _steady_slope(list(self._points))

    def forecast(self, room_mib: float | None) -> Forecast | None:
        """Forecasts the time until `room_mib` more are in use; None unless growth is steady and at least half-way there.

        Before that, a leak looks like a buffer that fills up.
        """
        if self._slope is None or room_mib is None or self._first_mib is None:
            return None
        full_s = max(0.0, room_mib) / self._slope
        grown_mib = self._points[-1][1] - self._first_mib
        is_close = grown_mib >= max(room_mib, _MIN_GROWTH_MIB) and full_s <= _MAX_FORECAST_S
        return Forecast(60 * self._slope, full_s) if is_close else None


def _steady_slope(points: list[tuple[float, float]]) -> float | None:
    """Returns the slope in MiB per second of points that rise steadily; None for all others."""
    if len(points) < _MIN_POINTS or points[-1][0] - points[0][0] < MIN_SPAN_S:
        return None
    slopes = _slopes(points)
    slope = median(slopes)
    late = median(_slopes(points[-len(points) // 3 :]))
    rising = sum(pair_slope > 0 for pair_slope in slopes) / len(slopes)
    return slope if slope > 0 and rising >= _MIN_RISING and late >= _MIN_LATE * slope else None


def _slopes(points: list[tuple[float, float]]) -> list[float]:
    return [(mib - old_mib) / (time - old) for (old, old_mib), (time, mib) in combinations(points, 2) if time > old]
