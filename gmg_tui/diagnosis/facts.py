"""The facts behind alerts: at one moment, and over the last half hour."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from gmg_tui.diagnosis.growth import Growth
from gmg_tui.machine.cgroup import MemoryRoom
from gmg_tui.model import GpuProcess, GpuSample, Sign, Worker, WorkerState
from gmg_tui.model.curves import Broken


class Limit(NamedTuple):
    """A time limit that may come before a worker is done."""

    time: float
    """Unix time, seconds."""
    name: str
    """Its source, such as `Slurm's limit` or `--timeout`."""


class Facts(Struct, frozen=True):
    """The facts of a slot at one moment."""

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
    broken: Mapping[str, Broken] = {}
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
    """True if its node's agent has already diagnosed it; `signs` then has the agent's alerts."""

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


class Past:
    """State of an attempt's diagnosis between two moments.

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
        """Adds the facts of a moment."""
        fps, newest = facts.worker.fps, facts.worker.newest
        work = newest.output_bytes, fps.env_steps if fps is not None else None
        if work != self._work:
            self._work, self.quiet_since = work, facts.moment
        if facts.is_running:
            self.vram.add(facts.moment, facts.vram_mib)
            self.ram.add(facts.moment, facts.worker.memory_rss_mib)
