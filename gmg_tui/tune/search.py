"""The search on the slots of one model: which trials to start next, until the answer is known."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from gmg_tui.model.tuning import Answer, Trial, TrialKind, TrialState, TuneSpec
from gmg_tui.tune import answers, confirm, knee, ladder, refine
from gmg_tui.tune.limits import Limits
from gmg_tui.tune.record import Record
from gmg_tui.tune.slots import Plan, TuneSlot, Want

_GONE_S = 60.0
"""A slot that is neither free nor running a trial for so long has lost its GPU, or is benched."""
_SETTLE_S = 5.0
"""How long a trial is measured at least, after what the longest ramp-up took."""

_STEPS = {
    TrialKind.FIRST: "first run, alone",
    TrialKind.LADDER: "greater values, while that is faster",
    TrialKind.REFINE: "values around the fastest",
    TrialKind.KNEE: "the smallest value that is nearly as fast",
    TrialKind.COMMON: "one value on every slot, to compare them",
    TrialKind.CONFIRM: "the two fastest again",
    TrialKind.TOGETHER: "the fastest on all slots at once",
}

_ROUNDS = {
    TrialKind.FIRST: (9, 4),
    TrialKind.LADDER: (6, 3),
    TrialKind.REFINE: (4, 2),
    TrialKind.KNEE: (2, 1),
    TrialKind.COMMON: (2, 2),
    TrialKind.CONFIRM: (0.5, 1),
    TrialKind.TOGETHER: (0, 0),
}
"""Rounds of trials that usually follow those of a kind, on one slot and on many."""


class Search:
    """Decides trials as results come. It depends on nothing but the trials, so that it goes on from those of another one."""

    def __init__(self, spec: TuneSpec, slots: Sequence[TuneSlot], trials: Iterable[Trial] = ()) -> None:
        self._record = Record(spec, slots)
        self._seen_s: dict[str, float] = {}
        self._free_mib: dict[str, float] = {}
        """What others left of each slot's memory when it was last free."""
        self._kind = TrialKind.FIRST
        """The foremost of what runs or ran last."""
        self.ended = False
        self.step = _STEPS[self._kind]
        """What is being done, or why it is over, in a few words."""
        for trial in trials:
            self._record.take(trial)

    # What the engine calls

    def plan(self, free: Collection[str], now_s: float, free_mib: Mapping[str, float] | None = None) -> list[Plan]:
        """The trials to start now on these free slots; none to wait.

        `now_s` counts from the tuning's start, without breaks; `free_mib` is the memory of each slot that is free.
        """
        if self.ended:
            return []
        self._free_mib |= free_mib or {}
        record, limits = self._record, Limits(self._record, self._free_mib)
        idle = [name for name in record.slots if name in free and name not in record.running]
        alive = self._alive(idle, now_s)
        why = "no slot is left" if not alive else "the time is used up" if self._over_budget(now_s) else ""
        wants = [] if why else self._wants(limits, alive, len(idle))
        plans = self._assign(wants, idle, limits)
        if not plans and not record.running and set(idle) == alive:
            plans = [] if why else self._together(alive, limits)
            if not plans:
                self._end(why)
        for plan in plans:
            record.start(plan)
        if record.running:
            self._kind = _foremost(plan.kind for plan in record.running.values())
            self.step = _STEPS[self._kind]
        return plans

    def take(self, trial: Trial) -> None:
        """A trial has ended: measured, failed or skipped."""
        self._record.take(trial)

    def stop(self, why: str) -> None:
        """Nothing more is planned; `why` in a few words."""
        if not self.ended:
            self.ended, self.step = True, why

    def answer(self) -> Answer:
        """What is known so far."""
        return answers.answer(self._record, Limits(self._record, self._free_mib))

    def eta_s(self, running: Mapping[str, float], now_s: float) -> float | None:
        """Seconds to the end; None before a trial was measured.

        From the mean time of trials, when those that run were started, by slot, and how many rounds usually follow.
        """
        mean_s = self._mean_s()
        if self.ended or mean_s is None:
            return 0.0 if self.ended else None
        rest_s = max((mean_s - (now_s - started_s) for started_s in running.values()), default=0.0)
        alone, many = _ROUNDS[self._kind]
        return max(0.0, rest_s) + mean_s * (many + (alone - many) / len(self._record.slots))

    # How it decides

    def _wants(self, limits: Limits, alive: Collection[str], idle: int) -> list[Want]:
        """What is worth a trial now, the most urgent first."""
        record = self._record
        if not record.ran:
            return self._first()
        left = max(0, record.spec.trials - record.counted)
        if record.running_kind(TrialKind.LADDER):  # What comes next depends on all of them.
            return []
        wants = self._upward(limits, idle)
        deciding, others = confirm.common(record, alive, climbing=bool(wants))
        if wants:
            return wants[:left] + deciding + others
        if record.running_kind(TrialKind.REFINE):
            return deciding + others
        if not ladder.exhaustive(record.spec):
            wants = [Want(value, TrialKind.REFINE) for value in refine.inside(record, limits, idle)]
        if wants:
            return deciding + wants[:left] + others
        wants = self._knee(limits)
        if len(record.slots) > 1 or not wants:
            wants += confirm.leaders(record)
        return deciding + others + wants[:left]

    def _upward(self, limits: Limits, idle: int) -> list[Want]:
        """The ladder, after what was skipped, or failed once and is in its way or below what ran."""
        record = self._record
        largest = max(record.ran)
        failed = {value for value in record.doubtful if value < largest or value == limits.ceiling}
        again = sorted(
            value for value in failed | record.missed if value not in record.in_flight and record.usable(value)
        )
        return [Want(value, TrialKind.LADDER) for value in dict.fromkeys(again + ladder.upward(record, limits, idle))]

    def _knee(self, limits: Limits) -> list[Want]:
        value = knee.candidate(self._record)
        if value is None or value in self._record.in_flight or limits.room <= 0:
            return []
        return [Want(value, TrialKind.KNEE)]

    def _first(self) -> list[Want]:
        record, low = self._record, self._record.spec.low
        if record.running or record.counted >= record.spec.trials or not record.usable(low):
            return []
        return [Want(low, TrialKind.FIRST)]

    def _together(self, alive: set[str], limits: Limits) -> list[Plan]:
        record = self._record
        if not record.ran:
            return []
        value = record.curve.best.value
        wants = confirm.together(record, value, [name for name in alive if limits.fits(value, name)])
        return self._assign(wants, sorted(alive), limits)

    def _assign(self, wants: Iterable[Want], idle: Sequence[str], limits: Limits) -> list[Plan]:
        """Each want on the idle slot that suits it best."""
        left, plans = list(idle), []
        at_least_s = self._at_least_s()
        for want in wants:
            fitting = [name for name in left if want.slot in (None, name) and limits.fits(want.value, name)]
            if fitting:
                slot = min(fitting, key=lambda name: self._suits(want, name))
                left.remove(slot)
                plans.append(Plan(want.value, slot, want.kind, at_least_s))
        return plans

    def _suits(self, want: Want, slot: str) -> tuple[int, int, bool]:
        """The order in which slots are taken: where it has not gone wrong, those that are better, those that are compared."""
        record = self._record
        wrong = sum(
            trial.slot == slot and trial.value == want.value and trial.state is not TrialState.MEASURED
            for trial in record.ended
        )
        rank = want.rather.index(slot) if slot in want.rather else len(want.rather)
        return wrong, rank, slot not in record.factors

    def _at_least_s(self) -> float:
        """The first run is measured as long as allowed, as its ramp-up tells how long the others must be."""
        measured = list(self._record.of(TrialState.MEASURED))
        if not measured:
            return self._record.spec.settle_s
        longest_s = max(trial.ramp_s or 0.0 for trial in measured)
        return min(longest_s + _SETTLE_S, self._record.spec.settle_s)

    def _alive(self, idle: Collection[str], now_s: float) -> set[str]:
        """The slots that are free, run, or were so a short time ago."""
        for name in self._record.slots:
            if name in idle or name in self._record.running or name not in self._seen_s:
                self._seen_s[name] = now_s
        return {name for name, seen_s in self._seen_s.items() if now_s - seen_s < _GONE_S}

    def _over_budget(self, now_s: float) -> bool:
        """Whether the time is used up, or what is left of it is too short for a trial."""
        budget_s = self._record.spec.budget_s
        return budget_s is not None and now_s + (self._mean_s() or 0) >= budget_s

    def _mean_s(self) -> float | None:
        """The mean time of a trial; None before one was measured."""
        times = [(trial.start_s or 0) + (trial.measured_s or 0) for trial in self._record.of(TrialState.MEASURED)]
        return sum(times) / len(times) if times else None

    def _end(self, why: str) -> None:
        self.stop(why or answers.conclusion(self._record, Limits(self._record, self._free_mib)))


def _foremost(kinds: Iterable[TrialKind]) -> TrialKind:
    """What a step is called after: the kind that comes first in a search, but for the comparison of slots."""
    order = list(TrialKind)
    return min(kinds, key=lambda kind: (kind is TrialKind.COMMON, order.index(kind)))
