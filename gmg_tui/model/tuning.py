"""The vocabulary of a tuning as frozen types: what is looked for, the trials, and the answer."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

FPS = "fps"
"""The metric that is the rate; any other is a number that the script reports by that name."""


class TuneSpec(Struct, frozen=True, omit_defaults=True):
    """The parameters of a search and its limits; `gmg_tui.session.options` describes them, at the options of `tune`."""

    variable: str = "n_envs"
    """The placeholder whose value is looked for."""
    low: int = 64
    """The least value, tried first."""
    high: int | None = None
    """The greatest value; None for no bound but the memory's."""
    metric: str = FPS
    headroom_pct: float = 10.0
    knee_pct: float = 3.0
    settle_s: float = 20.0
    trial_time_s: float = 900.0
    budget_s: float | None = None
    """None for no limit."""


class TrialState(StrEnum):
    """Progress of a trial."""

    WAITING = "waiting"
    RUNNING = "running"
    MEASURED = "measured"
    FAILED = "failed"
    SKIPPED = "skipped"
    """Not run, or not to its end, for a reason that does not depend on its value."""

    @property
    def ended(self) -> bool:
        """True if nothing of it will change."""
        return self in {TrialState.MEASURED, TrialState.FAILED, TrialState.SKIPPED}


class TrialKind(StrEnum):
    """The purpose of a trial; the screen shows the value."""

    LADDER = "ladder"
    """Twice the value before."""
    COMMON = "common"
    """The value that every slot measures, so that they can be compared."""
    REFINE = "refine"
    """Between values of the ladder: where something faster may be, before the edge, or below the recommended."""
    CONFIRM = "repeat"
    """One of the best again, on another slot where there is one."""
    TOGETHER = "together"
    """The recommended value on all slots at once."""


class Trial(Struct, frozen=True, omit_defaults=True):
    """One value, measured on one slot."""

    number: int
    """From 1; its job's number."""
    value: int
    slot: str
    kind: TrialKind
    state: TrialState = TrialState.WAITING
    rate: float | None = None
    """The metric, as measured on its slot; while it runs, so far."""
    margin_pct: float | None = None
    """Half of the 95 % interval of one trial, per cent of the rate, by how much trials of the same value differ."""
    memory_mib: float | None = None
    """Peak of the memory of its processes on the GPU or, where the driver does not report that, of the whole GPU."""
    gpu_util_pct: float | None = None
    power_w: float | None = None
    start_s: float | None = None
    """From its start to its first rate."""
    measured_s: float | None = None
    """Seconds in which its rate was measured."""
    disturbance: str | None = None
    """Other users of the GPU or the CPU while it was measured."""
    reason: str | None = None
    """One line on why it failed or was skipped."""


class Best(Struct, frozen=True, omit_defaults=True):
    """A value that is an answer."""

    value: int
    rate: float | None = None
    """Corrected for the slots' differences: the rate of a typical slot of its model."""
    margin_pct: float | None = None
    memory_mib: float | None = None
    gpu_util_pct: float | None = None
    power_w: float | None = None


class Edge(Struct, frozen=True, omit_defaults=True):
    """The smallest value above all that ran which did not."""

    value: int
    reason: str


class MemoryLine(Struct, frozen=True, omit_defaults=True):
    """Memory of a worker as a straight line over the value."""

    base_mib: float
    per_unit_mib: float
    most: int | None = None
    """The greatest value that leaves the headroom, by this line; None on slots of unknown memory."""


class Together(Struct, frozen=True, omit_defaults=True):
    """The recommended value on all slots at once."""

    value: int
    rate: float
    """The sum over the slots; of another metric than FPS their mean. It was measured after the value was chosen."""
    margin_pct: float | None = None
    """Half of the interval that holds the rate with 95 % confidence, per cent of it."""
    of_alone_pct: float | None = None
    """As a share of what the same slots reach alone."""
    rates: dict[str, float] = {}
    """By slot."""


class Answer(Struct, frozen=True, omit_defaults=True):
    """The answer so far."""

    model: str
    """The name of the GPUs that are measured; `CPU` on the CPU."""
    slots: tuple[str, ...]
    """The slots that are measured, by name."""
    recommended: Best | None = None
    """The smallest value that is nearly as fast as the fastest."""
    fastest: Best | None = None
    largest: Best | None = None
    """The largest value that runs."""
    edge: Edge | None = None
    memory: MemoryLine | None = None
    together: Together | None = None
    factors: dict[str, float] = {}
    """The speed of each slot that differs by more than noise, as a multiple of a usual slot's."""
    warnings: tuple[str, ...] = ()
    """Reservations, a sentence each: a slow GPU, noise, values that were not tried."""


class Tuning(Struct, frozen=True, omit_defaults=True):
    """A tuning at one moment."""

    spec: TuneSpec
    step: str
    """The current step, or the reason for the end, in a few words."""
    trials: tuple[Trial, ...]
    """In the order of their planning."""
    answer: Answer
    eta_s: float | None = None
    """Estimated seconds to the end; None if unknown."""
    ended: bool = False
    stopped: bool = False
    """True if it has ended because the session was stopped."""
    command: tuple[str, ...] = ()
    """The command line of the plain run with the recommended value; empty before there is one."""
    earlier: int = 0
    """Number of its first trials that ended before it was resumed."""
    reached: str = ""
    """The step at which it was stopped; empty while it runs, and where it came to its end."""
    expected: int = 0
    """Estimated number of trials at the end; 0 if unknown."""

    @property
    def total(self) -> int:
        """Estimated number of all trials, at least the existing ones."""
        return max(self.expected, len(self.trials))

    def after_loss(self, reason: str) -> Tuning:
        """Returns the tuning once its engine has died: no trial runs, and nothing is left to wait for."""
        trials = (
            trial if trial.state.ended else replace(trial, state=TrialState.SKIPPED, reason=reason)
            for trial in self.trials
        )
        return replace(self, trials=tuple(trials), eta_s=None)
