"""What the trials of one model of slot have shown so far."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from gmg_tui.genesis.output.failure_signs import FailureKind, sign_of
from gmg_tui.model.tuning import Edge, Goal, MemoryLine, Trial, TrialKind, TrialState, TuneSpec
from gmg_tui.tune import factors, memory
from gmg_tui.tune.curve import Curve, Point
from gmg_tui.tune.slots import Plan, TuneSlot

TRIES = 2
"""How often a value is tried that fails, or is skipped."""
_FREE_KINDS = (TrialKind.COMMON, TrialKind.TOGETHER)
"""They do not count against the number of trials."""


class Record:
    """The trials that ended and those that run."""

    def __init__(self, spec: TuneSpec, slots: Sequence[TuneSlot]) -> None:
        self.spec = spec
        self.slots = {slot.name: slot for slot in slots}
        self.ended: list[Trial] = []
        self.running: dict[str, Plan] = {}
        """By slot."""
        self._curve: Curve | None = None
        self._factors: dict[str, float] | None = None

    def start(self, plan: Plan) -> None:
        """A trial is about to run."""
        self.running[plan.slot] = plan

    def take(self, trial: Trial) -> None:
        """A trial has ended; one that has not, or was on another slot, is left out."""
        self.running.pop(trial.slot, None)
        if trial.slot in self.slots and trial.state not in (TrialState.WAITING, TrialState.RUNNING):
            self.ended.append(_checked(trial))
            self._curve = self._factors = None

    def of(self, state: TrialState, kind: TrialKind | None = None) -> Iterator[Trial]:
        """The ended trials of one state, those of all slots at once only where asked for."""
        for trial in self.ended:
            alone = trial.kind is not TrialKind.TOGETHER if kind is None else trial.kind is kind
            if trial.state is state and alone:
                yield trial

    @property
    def counted(self) -> int:
        """The trials that count against their number."""
        ended = sum(trial.kind not in _FREE_KINDS for trial in self.ended)
        return ended + sum(plan.kind not in _FREE_KINDS for plan in self.running.values())

    @property
    def values(self) -> set[int]:
        """The values that were tried, or are."""
        return {trial.value for trial in self.ended} | self.in_flight

    @property
    def in_flight(self) -> set[int]:
        """The values that run."""
        return {plan.value for plan in self.running.values()}

    def running_kind(self, *kinds: TrialKind) -> bool:
        """Whether a trial of one of these kinds runs."""
        return any(plan.kind in kinds for plan in self.running.values())

    # What can be said of a value

    def tally(self, state: TrialState) -> Counter[int]:
        """How many trials of each value ended in this state."""
        return Counter(trial.value for trial in self.of(state))

    @property
    def failed(self) -> set[int]:
        """The values that do not run: not twice, not for want of memory, or not as a greater one did not."""
        measured = self.tally(TrialState.MEASURED)
        fails: dict[int, list[str | None]] = {}
        for trial in self.of(TrialState.FAILED):
            fails.setdefault(trial.value, []).append(trial.reason)
        return {
            value
            for value, reasons in fails.items()
            if len(reasons) >= max(TRIES, measured[value])
            or (not measured[value] and (is_memory(reasons[0]) or _as_above(value, fails)))
        }

    @property
    def doubtful(self) -> set[int]:
        """The values that failed once, for a reason that another try may not meet."""
        measured, failed = self.tally(TrialState.MEASURED), self.failed
        return {value for value in self.tally(TrialState.FAILED) if not measured[value] and value not in failed}

    @property
    def missed(self) -> set[int]:
        """The values that were skipped once, and have no rate yet."""
        seen = self.ran | self.failed | self.doubtful | self.given_up
        return set(self.tally(TrialState.SKIPPED)) - seen

    @property
    def given_up(self) -> set[int]:
        """The values that could not be measured, for reasons that say nothing of them."""
        measured = self.tally(TrialState.MEASURED)
        return {
            value for value, times in self.tally(TrialState.SKIPPED).items() if times >= TRIES and not measured[value]
        }

    def usable(self, value: int) -> bool:
        """Whether it makes sense to try this value once more."""
        fails, skips = self.tally(TrialState.FAILED)[value], self.tally(TrialState.SKIPPED)[value]
        return value not in self.failed and fails < TRIES and skips < TRIES + self.tally(TrialState.MEASURED)[value]

    @property
    def ran(self) -> set[int]:
        """The values that were measured and are not among those that do not run."""
        return set(self.tally(TrialState.MEASURED)) - self.failed

    @property
    def edge(self) -> Edge | None:
        """The smallest value above all that ran which does not run."""
        largest = max(self.ran, default=0)
        above = [value for value in self.failed if value > largest]
        if not above:
            return None
        reasons = [trial.reason for trial in self.of(TrialState.FAILED) if trial.value == min(above)]
        return Edge(value=min(above), reason=next((reason for reason in reasons if reason), "no reason is known"))

    @property
    def ceiling(self) -> int | None:
        """Values from here on are not tried: one failed, and why is not explained away by a greater one that ran."""
        largest = max(self.ran, default=0)
        return min((value for value in self.failed | self.doubtful if value > largest), default=None)

    # The curve and the memory

    def score(self, rate: float) -> float:
        """The rate such that more is better, by the same share: its inverse where less is."""
        return 1 / rate if self.spec.goal is Goal.MIN else rate

    def rate(self, score: float) -> float:
        """The rate of a score."""
        return self.score(score)

    @property
    def factors(self) -> dict[str, float]:
        """How fast each slot is, as a multiple of a usual one; without those that are not known."""
        if self._factors is None:
            measured = [
                (trial.slot, trial.value, self.score(trial.rate or 1)) for trial in self.of(TrialState.MEASURED)
            ]
            self._factors = factors.of(measured)
        return self._factors

    @property
    def curve(self) -> Curve:
        """The score over the value, the slots' differences taken out."""
        if self._curve is None:
            self._curve = Curve(Point(value, _mean(scores)) for value, scores in self.scores().items())
        return self._curve

    def scores(self) -> dict[int, list[float]]:
        """By value that ran, the score of each of its trials, the slots' differences taken out."""
        by_slot, failed = self.factors, self.failed
        found: dict[int, list[float]] = {}
        for trial in self.of(TrialState.MEASURED):
            if trial.value not in failed:
                found.setdefault(trial.value, []).append(self.score(trial.rate or 1) / by_slot.get(trial.slot, 1))
        return found

    @property
    def memory_line(self) -> MemoryLine | None:
        """Of the greatest memory of each value that ran."""
        memory_mib: dict[int, float] = {}
        for trial in self.of(TrialState.MEASURED):
            if trial.memory_mib is not None:
                memory_mib[trial.value] = max(trial.memory_mib, memory_mib.get(trial.value, 0))
        return memory.line(memory_mib)


def is_memory(reason: str | None) -> bool:
    """Whether a failure's reason is the GPU's memory; not where the host's is only a guess, as after SIGKILL."""
    sign = sign_of((reason or "").encode())
    return (reason or "").startswith(FailureKind.MEMORY) or (sign is not None and sign.kind is FailureKind.MEMORY)


def _as_above(value: int, fails: Mapping[int, list[str | None]]) -> bool:
    """Whether a greater value failed for the same reason."""
    return any(other > value and reasons[0] == fails[value][0] for other, reasons in fails.items())


def _checked(trial: Trial) -> Trial:
    """A trial whose rate cannot be compared by a share counts as failed."""
    if trial.state is not TrialState.MEASURED or (trial.rate is not None and 0 < trial.rate < math.inf):
        return trial
    said = (
        "no rate came" if trial.rate is None else f"the metric was {trial.rate:g}, and only one above 0 can be compared"
    )
    return replace(trial, state=TrialState.FAILED, rate=None, reason=trial.reason or said)


def _mean(scores: Iterable[float]) -> float:
    logs = [math.log(score) for score in scores]
    return math.exp(sum(logs) / len(logs))
