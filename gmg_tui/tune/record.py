"""The results of the trials so far: which values run, what memory allows, and the curve."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from statistics import fmean
from typing import NamedTuple

from msgspec.structs import replace

from gmg_tui.genesis.output.failure_signs import FailureKind, sign_of
from gmg_tui.model.tuning import Edge, Goal, MemoryLine, Trial, TrialKind, TrialState, TuneSpec
from gmg_tui.tune.curve import Curve, Point, rounded_down
from gmg_tui.tune.fit import Fit, Sample, fit

_CACHED = ("failed", "fit", "_scores", "curve", "memory_line")
TRIES = 2
"""How often a value is tried that fails, or is skipped."""
_FLAT = 0.02
"""A rise of memory between the least and the greatest value of less than this share is no line, but chance."""
_NOISE = 0.05
"""More noise than this makes no decision any laxer."""
_ALIKE = 0.95
"""A slot whose memory allows this share of what another one's allows is to run the same values."""
_STILL_FREE = 0.5
"""What has run may leave this share of the headroom: the line may have been off, and others' use of memory varies."""


ANY = ""


class TuneSlot(NamedTuple):
    """A slot as the search sees it."""

    name: str
    model: str
    """Of its GPU, as NVML names it; `CPU` for a share of the CPU."""
    memory_total_mib: float | None = None
    """None where it is unknown, and on the CPU."""


class Plan(NamedTuple):
    """A trial to start now."""

    value: int
    slot: str
    """`ANY` before it has one."""
    kind: TrialKind


class Record:
    """The trials that have ended and those that run."""

    def __init__(self, spec: TuneSpec, slots: Sequence[TuneSlot], ended: Sequence[Trial] = ()) -> None:
        self.spec = spec
        model = Counter(slot.model for slot in slots).most_common(1)[0][0]
        self.slots = {slot.name: slot for slot in slots if slot.model == model}
        self.left_out = [slot for slot in slots if slot.model != model]
        """Rates of different models cannot be compared: those of the most slots are measured."""
        self.ended: list[Trial] = []
        self.running: dict[str, Plan] = {}
        """By slot."""
        self.free_mib: dict[str, float] = {}
        """What others left of each slot's memory when it was last free."""
        for trial in ended:
            self.take(trial)

    def take(self, trial: Trial) -> None:
        """Take a trial that has ended; one on another slot is left out."""
        self.running.pop(trial.slot, None)
        if trial.slot in self.slots and trial.state.ended:
            self.ended.append(_checked(trial))
            for name in _CACHED:
                self.__dict__.pop(name, None)

    def of(self, state: TrialState, kind: TrialKind | None = None) -> Iterator[Trial]:
        """The ended trials of one state, those of all slots at once only where asked for."""
        for trial in self.ended:
            wanted = trial.kind is not TrialKind.TOGETHER if kind is None else trial.kind is kind
            if trial.state is state and wanted:
                yield trial

    def runs(self, *kinds: TrialKind) -> bool:
        """Whether a trial of one of these kinds runs."""
        return any(plan.kind in kinds for plan in self.running.values())

    def planned(self, kind: TrialKind) -> int:
        """How many trials of a kind have ended or run."""
        kinds = [trial.kind for trial in self.ended] + [plan.kind for plan in self.running.values()]
        return kinds.count(kind)

    # What runs

    def tally(self, state: TrialState) -> Counter[int]:
        """How many trials of each value ended in this state."""
        return Counter(trial.value for trial in self.of(state))

    @property
    def in_flight(self) -> set[int]:
        """The values that run."""
        return {plan.value for plan in self.running.values()}

    @property
    def values(self) -> set[int]:
        """The values that were tried, or are."""
        return {trial.value for trial in self.ended} | self.in_flight

    @cached_property
    def failed(self) -> set[int]:
        """The values that do not run: not for want of memory, not twice, or not as a greater one did not."""
        measured = self.tally(TrialState.MEASURED)
        reasons: dict[int, list[str | None]] = {}
        for trial in self.of(TrialState.FAILED):
            reasons.setdefault(trial.value, []).append(trial.reason)

        def as_above(value: int) -> bool:
            return any(other > value and reasons[other][0] == reasons[value][0] for other in reasons)

        return {
            value
            for value, each in reasons.items()
            if len(each) >= max(TRIES, measured[value])
            or (not measured[value] and (is_memory(each[0]) or as_above(value)))
        }

    @property
    def ran(self) -> set[int]:
        """The values that were measured and are not among those that do not run."""
        return set(self.tally(TrialState.MEASURED)) - self.failed

    @property
    def given_up(self) -> set[int]:
        """The values that could not be measured, for reasons that do not depend on them."""
        measured = self.tally(TrialState.MEASURED)
        skipped = self.tally(TrialState.SKIPPED)
        return {value for value, times in skipped.items() if times >= TRIES and not measured[value]}

    @property
    def again(self) -> list[int]:
        """The values that failed or were skipped once, and have no rate yet."""
        tried = set(self.tally(TrialState.FAILED)) | set(self.tally(TrialState.SKIPPED))
        decided = self.ran | self.failed | self.given_up | self.in_flight
        return sorted(value for value in tried - decided if self.usable(value))

    def usable(self, value: int) -> bool:
        """Whether it makes sense to try this value once more."""
        fails, skips = self.tally(TrialState.FAILED)[value], self.tally(TrialState.SKIPPED)[value]
        measured = self.tally(TrialState.MEASURED)[value]
        return value not in self.failed and fails < TRIES and skips < TRIES + measured

    @property
    def edge(self) -> Edge | None:
        """The smallest value above all that ran which does not run."""
        largest = max(self.ran, default=0)
        value = min((value for value in self.failed if value > largest), default=None)
        if value is None:
            return None
        reasons = [trial.reason for trial in self.of(TrialState.FAILED) if trial.value == value]
        return Edge(value=value, reason=next((reason for reason in reasons if reason), "unknown reason"))

    @property
    def ceiling(self) -> float:
        """Values from here on are not tried: one failed, and no greater one ran."""
        largest = max(self.ran, default=0)
        return min((value for value in self.tally(TrialState.FAILED) if value > largest), default=math.inf)

    # The curve

    def score(self, rate: float) -> float:
        """The rate such that more is better, by the same share: its inverse where less is; and back."""
        return 1 / rate if self.spec.goal is Goal.MIN else rate

    @cached_property
    def fit(self) -> Fit:
        """The fitted speed of the slots, and the noise."""
        return fit([self._sample(trial) for trial in self.ended if trial.state is TrialState.MEASURED])

    @property
    def noise(self) -> float:
        """The estimated spread of a trial as a share of the rate."""
        return min(self.fit.spread, _NOISE) if self.fit.freedom else 0.0

    def scores(self, value: int, kind: TrialKind | None = None) -> list[float]:
        """The logarithms of the scores of a value's trials, or those of one kind, the slots' differences taken out."""
        return [score for of, score in self._scores.get(value, ()) if kind in (None, of)]

    @cached_property
    def _scores(self) -> dict[int, list[tuple[TrialKind, float]]]:
        samples: dict[int, list[tuple[TrialKind, float]]] = {}
        for trial in self.of(TrialState.MEASURED):
            samples.setdefault(trial.value, []).append((trial.kind, self.fit.corrected(self._sample(trial))))
        return samples

    @cached_property
    def curve(self) -> Curve:
        """The score over the value."""
        return Curve(Point(value, math.exp(fmean(self.scores(value)))) for value in self.ran)

    def _sample(self, trial: Trial) -> Sample:
        return Sample(
            trial.slot, (trial.value, trial.kind is TrialKind.TOGETHER), math.log(self.score(trial.rate or 1.0))
        )

    # The memory

    @cached_property
    def memory_line(self) -> MemoryLine | None:
        """Of the greatest memory of each value that ran."""
        memory_mib: dict[int, float] = {}
        for trial in self.of(TrialState.MEASURED):
            if trial.memory_mib is not None:
                memory_mib[trial.value] = max(trial.memory_mib, memory_mib.get(trial.value, 0))
        return memory_line(memory_mib)

    @property
    def memory_end(self) -> int | None:
        """The greatest value that leaves the headroom on the slot with most memory, and on those like it.

        None where memory does not bound it.
        """
        mosts = [self._most(slot, self.spec.headroom_pct) for slot in self.slots]
        limits = [most for most in mosts if most is not None]
        return (
            min(most for most in limits if most >= _ALIKE * max(limits))
            if limits and len(limits) == len(mosts)
            else None
        )

    def fits(self, value: int, slot: str) -> bool:
        """Whether this value may run on this slot: it has run there, or leaves the headroom.

        What others left free is of the last sample, which may still count the worker that has just ended.
        """
        if any((trial.slot, trial.value) == (slot, value) for trial in self.of(TrialState.MEASURED)):
            return True
        share = _STILL_FREE if value in self.ran else 1.0
        most = self._most(slot, share * self.spec.headroom_pct)
        return most is None or value <= most or value == self.spec.low

    def _most(self, slot: str, headroom_pct: float) -> int | None:
        """The greatest value that leaves the headroom on this slot; None where memory is unknown."""
        line, total_mib = self.memory_line, self.slots[slot].memory_total_mib
        if line is None or total_mib is None or line.per_unit_mib <= 0:
            return None
        free_mib = min(self.free_mib.get(slot, total_mib), total_mib)
        usable_mib = free_mib - total_mib * headroom_pct / 100
        return max(0, rounded_down((usable_mib - line.base_mib) / line.per_unit_mib))


def memory_line(memory_mib: Mapping[int, float]) -> MemoryLine | None:
    """The line of least squares through memory by value, raised to the greatest value's memory where that lies above it.

    None for fewer than two values.
    """
    if len(memory_mib) < 2:
        return None
    mean_value, mean_mib = fmean(memory_mib), fmean(memory_mib.values())
    spread = sum((value - mean_value) ** 2 for value in memory_mib)
    slope = max(0.0, sum((value - mean_value) * (mib - mean_mib) for value, mib in memory_mib.items()) / spread)
    top = max(memory_mib)
    if memory_mib[top] - memory_mib[min(memory_mib)] < _FLAT * memory_mib[top]:
        slope = 0.0
    return MemoryLine(max(mean_mib - slope * mean_value, memory_mib[top] - slope * top), slope)


def is_memory(reason: str | None) -> bool:
    """Whether a failure's reason is the GPU's memory; not where the host's is only a guess, as after SIGKILL."""
    sign = sign_of((reason or "").encode())
    return (reason or "").startswith(FailureKind.MEMORY) or (sign is not None and sign.kind is FailureKind.MEMORY)


def _checked(trial: Trial) -> Trial:
    """A trial whose rate cannot be compared by a share counts as failed."""
    if trial.state is not TrialState.MEASURED or (trial.rate is not None and 0 < trial.rate < math.inf):
        return trial
    reason = (
        "no rate came" if trial.rate is None else f"the metric was {trial.rate:g}, and only one above 0 can be compared"
    )
    return replace(trial, state=TrialState.FAILED, rate=None, reason=trial.reason or reason)
