"""An attempt: one process of a worker, with what it has reached."""

from __future__ import annotations

import math
from typing import Literal

from msgspec import Struct, structs

from gmg_tui.model.alert import Alert
from gmg_tui.model.speed import Verdict
from gmg_tui.model.states import Moment, WorkerState

Counter = Literal["probe", "printed"]


class Fps(Struct, frozen=True, omit_defaults=True):
    """Environment steps per second of one attempt, over all environments."""

    last: float | None
    """The number printed last; None if none was printed."""
    mean: float | None
    """The rate of the attempt: environment steps by wall time between the first and the last count, stalls included."""
    max: float | None
    """The greatest rate, printed or counted over some seconds; never below `mean` and `settled`. None before it is known."""
    samples: int
    """Count of the printed numbers."""
    settled: float | None = None
    """The rate now: environment steps by wall time over the last 10 s; None if unknown."""
    env_steps: float | None = None
    """Environment steps between the first and the last count."""
    seconds: float | None = None
    """Wall time between them."""
    counted: Counter | None = None
    """Counter of the steps: `probe`, inside the script, or `printed`, from the script's lines."""
    energy_j: float | None = None
    """The GPU's energy in `seconds`."""

    def __post_init__(self) -> None:
        if self.max is not None:  # one rate may be printed, another counted
            structs.force_setattr(self, "max", max(self.max, self.mean or 0.0, self.settled or 0.0))

    @property
    def env_steps_per_j(self) -> float | None:
        """Environment steps per joule, which is FPS per watt, of the same seconds."""
        return self.env_steps / self.energy_j if self.env_steps is not None and self.energy_j else None


class Progress(Struct, frozen=True, omit_defaults=True):
    """Progress of a run, if the script reports it."""

    done: float
    total: float
    unit: str
    """`iteration`, `step`, `it` …"""
    eta_s: float | None = None
    """Seconds to the end, from the pace of this attempt or from the script."""
    pace_per_s: float | None = None
    """Units a second, as reported by the script; None if it reports none."""


class Checkpoint(Struct, frozen=True, omit_defaults=True):
    """A file that a script has saved, and whose saving call has returned."""

    path: str
    """Absolute."""
    saved: Moment
    """Unix time, seconds."""
    size_bytes: int | None = None
    """None if the script may not have written it to its end then."""
    inode: int = 0
    env_steps: int = 0
    """Environment steps of its process until then."""
    progress: str | None = None
    """The progress that the script had last reported, such as `iteration 1,200`."""
    is_export: bool = False
    """True if scripts usually cannot continue from it, as from a compiled policy."""


class Attempt(Struct, frozen=True, omit_defaults=True):
    """One process of a worker, and what it has reached. Means are over its running phase."""

    number: int
    """From 1."""
    args: tuple[str, ...] = ()
    """As its script got them."""
    pid: int | None = None
    started: Moment = 0.0
    """Unix time, seconds."""
    ended: Moment | None = None
    exit_code: int | None = None
    """As asyncio's `returncode`: negative for the number of a signal."""
    state: WorkerState = WorkerState.STARTING
    reason: str | None = None
    """One line on why it failed."""
    given: tuple[str, ...] = ()
    """`args` before what differs from worker to worker was filled in: of the placeholders only a job's values are."""
    env: dict[str, str] = {}
    """The environment that was given for the worker, filled in as `given` is."""
    gpu_index: int | None = None
    """NVML index of the slot's GPU; None on a CPU slot."""
    fps: Fps | None = None
    fps_of_group: bool = False
    """True if `fps` is the whole group's, reported by rank 0."""
    n_envs: int | None = None
    """As the script prints it, or its arguments name it; None otherwise."""
    printed_envs: int | None = None
    """As the script prints it; None otherwise."""
    progress: Progress | None = None
    metrics: dict[str, float | None] = {}
    """Named numbers that the script prints or reports as results, such as `reward`: the newest of each. JSON, which has
    no NaN, has null for it."""
    had_progress: bool = False
    comparable: bool = False
    """True if its running phase was long enough to compare its rate."""
    timed_out: bool = False
    gpu_util_mean_pct: float | None = None
    memory_peak_mib: float | None = None
    power_mean_w: float | None = None
    energy_j: float | None = None
    output_bytes: int | None = None
    """Output until now, bytes; None if unknown."""
    start_s: float | None = None
    """Seconds from its start to its running phase; None before."""
    memory_rss_peak_mib: float | None = None
    """Peak of the resident memory of its whole process tree, scanned every few seconds."""
    checkpoints: tuple[Checkpoint, ...] = ()
    """The newest checkpoints of its worker, with earlier attempts', oldest first."""
    continued_from: str | None = None
    """The path of the checkpoint that `--resume-args` named to it."""
    simulator: dict[str, str] = {}
    """Modes that change what a step computes: those Genesis prints, such as `performance_mode`, and torch's `deterministic`."""
    alerts: tuple[Alert, ...] = ()
    """The alerts at its end; empty before."""
    verdict: Verdict | None = None
    """The bound of its speed over its whole time, once it has ended; None if unknown."""

    @property
    def numbers(self) -> dict[str, float]:
        """The metrics, NaN where the script has reported that."""
        return {name: math.nan if value is None else value for name, value in self.metrics.items()}

    @property
    def rate(self) -> float | None:
        """The rate of the attempt."""
        return None if self.fps is None else self.fps.mean

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The newest of the checkpoints."""
        return self.checkpoints[-1] if self.checkpoints else None

    def elapsed_s(self, now: float) -> float:
        """Seconds from its start to its end, or to `now` (Unix time)."""
        return max(0.0, (now if self.ended is None else self.ended) - self.started)


NO_ATTEMPT = Attempt(0)
"""Stands for the attempt before the first has begun."""


class Settings(Struct, frozen=True, omit_defaults=True):
    """A worker's arguments and environment before placeholders are filled in."""

    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    """As given by `--env`, or in the edit dialog."""
