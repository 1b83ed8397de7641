"""The search: which trials to start next, until there is an answer.

A ladder of doubled values, refinements where something faster may hide, repeats of the values that matter, the choice,
and the chosen value on all slots at once. Slots that would be idle meanwhile measure a common value, to be compared.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from gmg_tui.model.tuning import FPS, Answer, Trial, TrialKind, TrialState, TuneSpec
from gmg_tui.tune import answers
from gmg_tui.tune.curve import between
from gmg_tui.tune.record import ANY, TRIES, Plan, Record, TuneSlot

_AHEAD = 8
"""Values of the ladder that are tried at once."""
_UNKNOWN_MEMORY = 16
"""How many times the greatest value is tried at once where memory is unknown: on a CPU the machine itself might suffer."""
_FEW = 10
"""Of so few values each is tried."""
_WORTH = 0.015
"""The ladder ends where two doublings in a row bring less than this share."""
_MARGIN = 0.01
"""What promises less above the fastest is not looked for."""
_NEAR = 1.02
"""Values nearer to each other are as good as one."""
_AROUND = 1.25
"""How far the neighbours of the best may be from it, where the metric may be no rate."""
_REFINEMENTS = 3
_LEAST_REFINED, _MOST_REFINED = 3, 4
"""Values of one refinement, on few slots and on many."""
_REPEATS = 2
"""How often each value that may be the answer is measured again; three times where slots would be idle."""
_REPEATED = 5
"""How many values are repeated at most, as the order changes on the way."""
_GONE_S = 60.0
"""A slot that is neither free nor running a trial for so long has lost its GPU, or is benched."""

_STEPS = {
    TrialKind.LADDER: "doubled values, while that is faster",
    TrialKind.REFINE: "values around the fastest",
    TrialKind.COMMON: "one value on every slot, to compare them",
    TrialKind.CONFIRM: "the best values again",
    TrialKind.TOGETHER: "the recommended value on all slots at once",
}
_ROUNDS = dict(zip(_STEPS, ((12, 4), (7, 3), (6, 2), (3, 1), (0, 0)), strict=True))
"""Rounds of trials that usually follow those of a kind, on one slot and on many."""


class Search:
    """Decides trials as results come, on slots of one model.

    It depends on nothing but the trials, so that `--resume` goes on from those of an earlier engine.
    """

    def __init__(self, spec: TuneSpec, slots: Sequence[TuneSlot], trials: Sequence[Trial] = ()) -> None:
        self._record = Record(spec, slots, trials)
        self._seen_s: dict[str, float] = {}
        self._kind = TrialKind.LADDER
        """The foremost of what runs or ran last."""
        self.ended = False
        self.step = _STEPS[self._kind]
        """What is being done, or why it is over, in a few words."""

    # What the engine calls

    def plan(self, free: Collection[str], now_s: float, free_mib: Mapping[str, float] | None = None) -> list[Plan]:
        """The trials to start now on these free slots; none to wait.

        `now_s` counts from the tuning's start, without breaks; `free_mib` is the memory of each slot that is free.
        """
        if self.ended:
            return []
        record = self._record
        record.free_mib |= free_mib or {}
        idle = [name for name in record.slots if name in free and name not in record.running]
        alive = self._alive(idle, now_s)
        why = "no slot is left" if not alive else "the time is used up" if self._over_budget(now_s) else ""
        plans = [] if why else self._assign(self._wants(alive, len(idle)), idle)
        if not plans and not record.running and set(idle) == alive:
            plans = [] if why else self._assign(self._together(alive), idle)
            if not plans:
                self.stop(why or answers.conclusion(record))
        for plan in plans:
            record.running[plan.slot] = plan
        if record.running:
            kinds = {plan.kind for plan in record.running.values()}
            self._kind = next(kind for kind in _STEPS if kind in kinds)
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
        """The answer so far."""
        return answers.answer(self._record)

    def with_interval(self, trial: Trial) -> Trial:
        """A trial with its interval, once there is an estimate of how much trials of the same value differ."""
        half = self._record.fit.half(1)
        if trial.rate is None or trial.state is not TrialState.MEASURED or half is None:
            return trial
        return replace(trial, rate_low=trial.rate * (1 - half), rate_high=trial.rate * (1 + half))

    def eta_s(self, running: Mapping[str, float], now_s: float) -> float | None:
        """Seconds to the end; None before a trial was measured.

        From the mean time of trials, when those that run were started, by slot, and how many rounds usually follow.
        """
        mean_s = self._mean_s()
        if self.ended or mean_s is None:
            return 0.0 if self.ended else None
        rest_s = max((mean_s - (now_s - started_s) for started_s in running.values()), default=0.0)
        alone, many = _ROUNDS[self._kind]
        together_s = 3 * self._record.spec.settle_s[0]
        return max(0.0, rest_s) + together_s + mean_s * (many + (alone - many) / len(self._record.slots))

    # How it decides

    def _wants(self, alive: Collection[str], idle: int) -> list[Plan]:
        """What is worth a trial now, the most urgent first."""
        record = self._record
        again = [Plan(value, ANY, TrialKind.LADDER) for value in record.again]
        if record.spec.low in record.failed | record.given_up:
            return []
        ladder = [Plan(value, ANY, TrialKind.LADDER) for value in self._ladder(idle)]
        if again or ladder or record.runs(TrialKind.LADDER) or not record.ran:
            few = sum(plan.kind is TrialKind.LADDER for plan in record.running.values()) <= min(
                2, len(record.slots) // 4
            )
            return [*again, *ladder, *(self._common(alive) if record.ran and few else ())]
        common = list(self._common(alive))
        room = _REFINEMENTS * self._width - record.planned(TrialKind.REFINE)
        if record.runs(TrialKind.REFINE):
            return common
        refine = [Plan(value, ANY, TrialKind.REFINE) for value in self._refine(min(idle, self._width))[: max(0, room)]]
        if refine:
            return refine + common
        return common + list(self._repeats(idle))

    @property
    def _width(self) -> int:
        return max(_LEAST_REFINED, min(len(self._record.slots), _MOST_REFINED))

    def _ladder(self, idle: int) -> list[int]:
        """The next values, the least first; none where the ladder has ended."""
        record, spec = self._record, self._record.spec
        end = min(bound for bound in (record.memory_end, spec.high, math.inf) if bound is not None)
        tried = record.values
        if spec.high is not None and spec.high - spec.low < _FEW:
            each = range(spec.low, 1 + int(min(end, spec.high)))
            return [value for value in each if value not in tried and value < record.ceiling]
        top = max(record.ran, default=0)
        if top and record.curve.gain() < max(_WORTH, record.noise):
            return []
        bounded = record.memory_line is not None or all(slot.memory_total_mib for slot in record.slots.values())
        reach = max(top, spec.low) * (math.inf if bounded else _UNKNOWN_MEMORY)
        values: list[int] = []
        value = max(tried, default=0) if record.runs(TrialKind.LADDER) else top
        while len(values) < min(_AHEAD, idle):
            above = min(value * 2, int(min(end, 1 << 62))) if value else spec.low
            if above <= value * _NEAR or above > reach or above >= record.ceiling:
                break
            value = above
            if value not in tried:
                values.append(value)
        return values

    def _common(self, alive: Collection[str]) -> Iterator[Plan]:
        """The value that every slot measures, on each slot that lacks it."""
        record = self._record
        chosen = [trial.value for trial in record.ended if trial.kind is TrialKind.COMMON]
        chosen += [plan.value for plan in record.running.values() if plan.kind is TrialKind.COMMON]
        value = chosen[0] if chosen else record.curve.best.value
        if len(record.slots) < 2 or not record.usable(value):
            return
        for name in record.slots:
            here = [trial for trial in record.ended if (trial.slot, trial.value) == (name, value)]
            here = [trial for trial in here if trial.kind is not TrialKind.TOGETHER]
            measured = any(trial.state is TrialState.MEASURED for trial in here)
            if name in alive and name not in record.running and not measured and len(here) < TRIES:
                yield Plan(value, name, TrialKind.COMMON)

    def _refine(self, count: int) -> list[int]:
        """Up to `count` values between those of the ladder: where something faster may hide, and below the recommended."""
        record = self._record
        if record.spec.high is not None and record.spec.high - record.spec.low < _FEW:
            return []
        gaps = self._gaps()
        below = answers.smaller(record)
        values = [below] if below is not None else []
        shares = [count // len(gaps) + (index < count % len(gaps)) for index in range(len(gaps))] if gaps else []
        for (low, high), share in zip(gaps, shares, strict=True):
            values += between(low, high, share) if share else []
        tried = record.values
        return [value for value in dict.fromkeys(values) if value not in tried][:count]

    def _gaps(self) -> list[tuple[int, int]]:
        """The gaps that can hide something clearly faster than the fastest, those that promise most first."""
        record = self._record
        points, best = record.curve.points, record.curve.best
        is_rate = record.spec.metric == FPS
        promising = []
        for index, point in enumerate(points):
            last = index + 1 == len(points)
            end = record.ceiling if last else points[index + 1].value
            if end == math.inf or end < point.value * _NEAR:
                continue
            promise = record.curve.promise(index, int(end))
            beside = best.value in (point.value, end) and end > point.value * _AROUND
            if promise > best.score * (1 + max(_MARGIN, record.noise)) if is_rate else beside:
                promising.append((promise, point.value, int(end)))
        return [(low, high) for _, low, high in sorted(promising, reverse=True)]

    def _repeats(self, idle: int) -> Iterator[Plan]:
        """The values that may be the answer again, by turns."""
        record = self._record
        repeated = {trial.value for trial in record.ended if trial.kind is TrialKind.CONFIRM}
        leaders = answers.leaders(record)
        leaders = [value for value in leaders if value in repeated or len(repeated) < _REPEATED]
        counts = {}
        for value in leaders:
            measured = sum(trial.value == value for trial in record.of(TrialState.MEASURED, TrialKind.CONFIRM))
            running = sum(plan == (value, plan.slot, TrialKind.CONFIRM) for plan in record.running.values())
            counts[value] = measured + running if record.usable(value) else math.inf
        spare = idle - sum(max(0, _REPEATS - count) for count in counts.values())
        for turn in range(_REPEATS + (0 < spare < idle)):
            yield from (Plan(value, ANY, TrialKind.CONFIRM) for value in leaders if counts[value] <= turn)

    def _together(self, alive: set[str]) -> list[Plan]:
        """The recommended value on all slots; none where all have measured it so, or it was tried twice."""
        record = self._record
        if not record.ran:
            return []
        value = answers.recommended(record)
        slots = {name for name in alive if record.fits(value, name)}
        done = [trial for trial in record.ended if trial.kind is TrialKind.TOGETHER and trial.value == value]
        measured = {trial.slot for trial in done if trial.state is TrialState.MEASURED}
        tries = max((sum(trial.slot == name for trial in done) for name in slots), default=0)
        if measured >= slots or tries >= TRIES:
            return []
        return [Plan(value, name, TrialKind.TOGETHER) for name in record.slots if name in slots]

    def _assign(self, wants: Iterable[Plan], idle: Sequence[str]) -> list[Plan]:
        """Each want on the idle slot that suits it best: where it has not gone wrong, nor was measured before."""
        left = list(idle)
        plans: list[Plan] = []
        ended = self._record.ended
        for want in wants:
            fitting = [name for name in left if want.slot in (ANY, name) and self._record.fits(want.value, name)]
            if fitting:
                here = {
                    name: [trial for trial in ended if (trial.slot, trial.value) == (name, want.value)]
                    for name in fitting
                }
                wrong = {name: sum(trial.state is not TrialState.MEASURED for trial in here[name]) for name in fitting}
                taken = [plan.slot for plan in plans if plan.value == want.value]
                slot = min(fitting, key=lambda name: (wrong[name], len(here[name]), name in taken))
                left.remove(slot)
                plans.append(Plan(want.value, slot, want.kind))
        return plans

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
