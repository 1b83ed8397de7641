"""The vocabulary of a tuning as frozen types: what is looked for, the trials, and the answer."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

FPS = "fps"
"""The metric that is the settled rate; any other is a key of the script's `gmg:result`."""


class Goal(StrEnum):
    """Which values of the metric are better (`--goal`)."""

    MAX = "max"
    MIN = "min"


class TuneSpec(Struct, frozen=True, omit_defaults=True):
    """What a tuning looks for, and how long it may take."""

    variable: str = "n_envs"
    """The placeholder whose value is looked for."""
    low: int = 64
    """The least value, tried first."""
    high: int | None = None
    """The greatest value; None for no bound but the memory's."""
    metric: str = FPS
    goal: Goal = Goal.MAX
    headroom_pct: float = 10.0
    """Memory of a GPU that stays free."""
    knee_pct: float = 5.0
    """The knee is the smallest value whose rate is within this of the fastest one's."""
    settle_s: float = 30.0
    """How long a trial is measured at most."""
    trial_time_s: float = 900.0
    """How long a trial may take with its start."""
    trials: int = 24
    """How many trials there are at most, without those of the common value and of all slots at once."""
    budget_s: float | None = None
    """How long the search may take; None for no limit."""
    same: bool = False
    """Whether GPUs of different models count as one (`--same`)."""


class Tunable(Struct, frozen=True):
    """A number among the arguments of a plain run that can be tuned."""

    variable: str
    value: int
    """What it is now."""
    args: tuple[str, ...]
    """The script's arguments with the variable's placeholder in the number's place."""
    env: dict[str, str] = {}
    """The worker's variables, placeholders not filled in."""


class TrialState(StrEnum):
    """How far a trial is."""

    WAITING = "waiting"
    RUNNING = "running"
    MEASURED = "measured"
    FAILED = "failed"
    SKIPPED = "skipped"
    """Not run, or not to its end, for a reason that says nothing of its value."""

    @property
    def ended(self) -> bool:
        """Whether nothing of it will change."""
        return self in {TrialState.MEASURED, TrialState.FAILED, TrialState.SKIPPED}


class TrialKind(StrEnum):
    """Why a trial is run; the value is what the screen shows."""

    FIRST = "first"
    """Alone, at the least value."""
    LADDER = "ladder"
    COMMON = "common"
    """The value that every slot measures, so that they can be compared."""
    REFINE = "refine"
    """Between values of the ladder, around the best or before the edge."""
    KNEE = "knee"
    """The smallest value that may be nearly as fast as the fastest."""
    CONFIRM = "confirm"
    """One of the two best again, on another slot."""
    TOGETHER = "together"
    """The fastest value on all slots at once."""


class Trial(Struct, frozen=True, omit_defaults=True):
    """One value, measured on one slot."""

    number: int
    """From 1; that of its job."""
    value: int
    slot: str
    kind: TrialKind
    state: TrialState = TrialState.WAITING
    rate: float | None = None
    """The metric, as measured on its slot; while it runs, as far as known."""
    rate_low: float | None = None
    """The ends of the interval that holds the rate with 95 % confidence."""
    rate_high: float | None = None
    memory_mib: float | None = None
    """Peak of the memory of its own processes on the GPU or, where the driver does not say, of the whole GPU."""
    gpu_util_pct: float | None = None
    sm_activity_pct: float | None = None
    power_w: float | None = None
    start_s: float | None = None
    """From its start to its first rate."""
    measured_s: float | None = None
    """How long its rate was measured."""
    ramp_s: float | None = None
    """How much of that, at its start, was left out because the rate still rose."""
    reason: str | None = None
    """Why it failed or was skipped, in one line."""


class Best(Struct, frozen=True, omit_defaults=True):
    """A value that is an answer."""

    value: int
    rate: float | None = None
    """Corrected for the slots' differences: that of a usual slot of its model."""
    rate_low: float | None = None
    rate_high: float | None = None
    memory_mib: float | None = None
    gpu_util_pct: float | None = None
    power_w: float | None = None
    sm_activity_pct: float | None = None


class Edge(Struct, frozen=True, omit_defaults=True):
    """The smallest value above all that ran which did not."""

    value: int
    reason: str


class MemoryLine(Struct, frozen=True, omit_defaults=True):
    """Memory of a worker as a straight line over the value."""

    base_mib: float
    per_unit_mib: float
    most: int | None = None
    """The greatest value that leaves the headroom, by this line; None on slots whose memory is not known."""


class Together(Struct, frozen=True, omit_defaults=True):
    """The fastest value on all slots at once."""

    value: int
    rate: float
    """The sum over the slots; their mean where less is better."""
    of_alone_pct: float | None = None
    """As a share of what the same slots reach alone."""
    rates: dict[str, float] = {}
    """By slot."""


class Answer(Struct, frozen=True, omit_defaults=True):
    """What is known so far of one model of GPU (or of the CPU)."""

    model: str
    slots: tuple[str, ...]
    fastest: Best | None = None
    knee: Best | None = None
    largest: Best | None = None
    edge: Edge | None = None
    memory: MemoryLine | None = None
    together: Together | None = None
    factors: dict[str, float] = {}
    """How fast each slot is, as a multiple of a usual one of its model, by the common value."""
    warnings: tuple[str, ...] = ()
    """What to know before trusting it, a sentence each: a slow GPU, noise, values that were not tried."""


class Tuning(Struct, frozen=True, omit_defaults=True):
    """A tuning at one moment."""

    spec: TuneSpec
    step: str
    """What is being done, or why it is over, in a few words."""
    trials: tuple[Trial, ...] = ()
    """In the order in which they were decided."""
    answers: tuple[Answer, ...] = ()
    """One for each model, that of the most slots first."""
    eta_s: float | None = None
    """Seconds to the end, as far as can be told."""
    ended: bool = False
    stopped: bool = False
    """Whether it has ended because the session was stopped."""
    command: tuple[str, ...] = ()
    """The command line of the plain run with the fastest value; empty before there is one."""

    @property
    def slots(self) -> tuple[str, ...]:
        """Those that are measured on, by name: of the session's, only those that were asked for."""
        return tuple(slot for answer in self.answers for slot in answer.slots)
