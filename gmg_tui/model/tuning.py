"""A tuning run: the search, its trials, and the answer."""

from enum import StrEnum
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

FPS = "fps"
"""Name of the rate as a metric; any other metric is a number that the script reports by that name."""


class TuneSpec(Struct, frozen=True, omit_defaults=True):
    """The parameters and limits of a search; see the options of `tune`."""

    variable: str = "n_envs"
    low: int = 64
    """Smallest value, tried first."""
    high: int | None = None
    """Largest value; None if only memory limits it."""
    metric: str = FPS
    headroom_pct: float = 10.0
    knee_pct: float = 3.0
    settle_s: float = 20.0
    trial_time_s: float = 900.0
    budget_s: float | None = None


class TrialState(StrEnum):
    """State of a trial."""

    WAITING = "waiting"
    RUNNING = "running"
    MEASURED = "measured"
    FAILED = "failed"
    SKIPPED = "skipped"
    """Not completed, for a reason unrelated to its value."""

    @property
    def ended(self) -> bool:
        """True if the trial is over."""
        return self in {TrialState.MEASURED, TrialState.FAILED, TrialState.SKIPPED}


class TrialKind(StrEnum):
    """Purpose of a trial; the screen shows the value."""

    LADDER = "ladder"
    """Twice the previous value."""
    COMMON = "common"
    """A value measured on every slot, to compare the slots."""
    REFINE = "refine"
    """A value between two of the ladder: near the fastest, the edge, or the recommended one."""
    CONFIRM = "repeat"
    """One of the best values again, if possible on another slot."""
    TOGETHER = "together"
    """The recommended value on all slots at once."""


class Trial(Struct, frozen=True, omit_defaults=True):
    """One value, measured on one slot."""

    number: int
    """Number of its job, from 1."""
    value: int
    slot: str
    kind: TrialKind
    state: TrialState = TrialState.WAITING
    rate: float | None = None
    """The metric, as measured so far."""
    margin_pct: float | None = None
    """Half of the 95 % interval, in percent of the rate, estimated from repeated trials of one value."""
    memory_mib: float | None = None
    """Peak memory of its processes on the GPU, or of the whole GPU if the driver does not report theirs."""
    gpu_util_pct: float | None = None
    power_w: float | None = None
    start_s: float | None = None
    """Seconds from its start to its first rate."""
    measured_s: float | None = None
    disturbance: str | None = None
    """Other processes that used the GPU or CPU during the measurement, in words."""
    reason: str | None = None
    """Reason of a failure or skip; one line."""


class Best(Struct, frozen=True, omit_defaults=True):
    """A value in the answer, with its measurements."""

    value: int
    rate: float | None = None
    """The rate on a typical slot, corrected for differences between slots."""
    margin_pct: float | None = None
    memory_mib: float | None = None
    gpu_util_pct: float | None = None
    power_w: float | None = None


class Edge(Struct, frozen=True, omit_defaults=True):
    """The smallest value that failed, above all values that ran."""

    value: int
    reason: str


class MemoryLine(Struct, frozen=True, omit_defaults=True):
    """Memory of a worker as a linear function of the value."""

    base_mib: float
    per_unit_mib: float
    most: int | None = None
    """Largest value that leaves the headroom; None if the slots' memory is unknown."""


class Together(Struct, frozen=True, omit_defaults=True):
    """The recommended value on all slots at once."""

    value: int
    rate: float
    """Sum of the FPS over the slots, or mean of another metric, measured after the value was chosen."""
    margin_pct: float | None = None
    """Half of the 95 % interval, in percent of the rate."""
    of_alone_pct: float | None = None
    """The rate in percent of the rate that the same slots reach alone."""
    rates: dict[str, float] = {}
    """By slot."""


class Answer(Struct, frozen=True, omit_defaults=True):
    """The result of a tuning run so far."""

    model: str
    """Name of the measured GPUs; `CPU` on the CPU."""
    slots: tuple[str, ...]
    """Names of the measured slots."""
    recommended: Best | None = None
    """The smallest value that is nearly as fast as the fastest."""
    fastest: Best | None = None
    largest: Best | None = None
    """The largest value that runs."""
    edge: Edge | None = None
    memory: MemoryLine | None = None
    together: Together | None = None
    factors: dict[str, float] = {}
    """Speed of each slot that deviates by more than noise, as a multiple of a typical slot's."""
    warnings: tuple[str, ...] = ()
    """Sentences, for example about a slow GPU, noise or untried values."""


class Tuning(Struct, frozen=True, omit_defaults=True):
    """A snapshot of a tuning run."""

    spec: TuneSpec
    step: str
    """The current step, or the reason it has ended, in a few words."""
    trials: tuple[Trial, ...]
    """In planning order."""
    answer: Answer
    eta_s: float | None = None
    ended: bool = False
    stopped: bool = False
    """True if it ended because the session was stopped."""
    command: tuple[str, ...] = ()
    """Command line of a run with the recommended value, once there is one."""
    earlier: int = 0
    """Number of trials that ended before it was resumed."""
    reached: str = ""
    """The step at which it was stopped; empty if it was not stopped."""
    expected: int = 0
    """Estimated total number of trials; 0 if unknown."""

    @property
    def total(self) -> int:
        """Estimated total number of trials, at least the number planned."""
        return max(self.expected, len(self.trials))

    def after_loss(self, reason: str) -> Self:
        """Returns the tuning after the engine's death: unfinished trials are skipped for that `reason`."""
        skipped = {"state": TrialState.SKIPPED, "reason": reason}
        trials = (trial if trial.state.ended else replace(trial, **skipped) for trial in self.trials)
        return replace(self, trials=tuple(trials), eta_s=None)
