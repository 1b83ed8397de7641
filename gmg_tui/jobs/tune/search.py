"""The search: the next trials to start, until there is an answer.

It doubles values, refines between those where a faster one may lie, repeats the best, and measures the recommended
value on all slots at once. Idle slots measure a common value, so that the slots can be compared.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean

from msgspec.structs import replace

from gmg_tui.jobs.tune import answers
from gmg_tui.jobs.tune.trial_results import MAX_TRIALS, Record, memory_of, values_between
from gmg_tui.model import Slot
from gmg_tui.model.tuning import FPS, Answer, Trial, TrialKind, TrialState, TuneSpec

_MAX_LADDER_VALUES = 8
"""Maximum number of ladder values to try at once."""
_MAX_LEAP_RATIO = 16
"""Maximum ratio of a value to the largest so far if the memory is unknown, as on a CPU."""
_MIN_LADDER_GAIN = 0.015
"""The ladder ends after two doublings with a smaller relative gain."""
_MIN_REFINE_GAIN = 0.01
"""Minimum relative gain over the fastest value that is worth refining for."""
_SAME_RATIO = 1.02
"""Values with a smaller ratio count as equal."""
_MAX_GAP_RATIO = 1.25
"""Ratio above which a gap next to the best value is refined if the metric may not be a rate."""
_MIN_REFINED, _MAX_REFINED = 3, 4
"""Number of values in a refinement, on few slots and on many."""
_MAX_REFINEMENTS = 3
_REPEATS = 2
"""Number of repeats of each of the best values; one more if slots would otherwise be idle."""
_MAX_SLOT_WAIT_S = 60.0
"""Seconds to wait for a slot that is neither free nor running a trial."""

_STEPS = {
    TrialKind.LADDER: "doubled values, while that is faster",
    TrialKind.REFINE: "values around the fastest",
    TrialKind.COMMON: "one value on every slot, to compare them",
    TrialKind.CONFIRM: "the best values again",
    TrialKind.TOGETHER: "the recommended value on all slots at once",
}
_USUAL_DOUBLINGS = 8
"""Assumed number of values in a ladder without a known end."""
_TRIALS_PER_STEP = 3
"""Usual number of trials in a step of the search."""
_Proposal = tuple[int, str | None, TrialKind]
"""A value worth a trial, its slot (None for any), and the trial's kind."""


class Search:
    """Plans trials on slots of one model as results arrive.

    Its state follows from the trials alone, so that `--resume` can continue from an earlier engine's trials.

    Attributes:
        trials: The ended trials, in order.
        ended: True if it plans no more trials.
        step: The current step, or the reason for the end, in a few words.
        reached: The step at which it was stopped; empty while it is running, or if it was completed.
    """

    def __init__(self, spec: TuneSpec, slots: Sequence[Slot], trials: Sequence[Trial] = ()) -> None:
        self._slots, self.trials = tuple(slots), list(trials)
        self._record = Record(spec, slots, trials)
        self._running: dict[str, Trial] = {}
        """The running trials, by slot."""
        self._last_alive_s: dict[str, float] = {}
        self._kind = TrialKind.LADDER
        """The earliest kind of the running trials, or of those that ran last."""
        self.ended = False
        self.step = _STEPS[self._kind]
        self.reached = ""

    # Called by the engine

    def plan(self, free: Collection[str], now_s: float, free_mib: Mapping[str, float] | None = None) -> list[Trial]:
        """Returns the trials to start now on the free slots, without numbers; empty if it must wait or has ended.

        `now_s` is the tuning's run time so far in seconds; `free_mib` is the free memory by slot.
        """
        if self.ended:
            return []
        record = self._record
        record.free_mib |= free_mib or {}
        idle = [name for name in record.slots if name in free and name not in self._running]
        alive = self._alive_slots(idle, now_s)
        plans = self._assign(self._propose(alive, len(idle)), idle)
        if not plans and not self._running and set(idle) == alive:
            plans = self._assign(self._propose_together(alive), idle)
            if not plans:
                self.stop(answers.conclusion(record) if alive else "no slot is left")
                self.reached = "" if alive else self.reached
        self._running |= {plan.slot: plan for plan in plans}
        if self._running:
            self._kind = next(kind for kind in _STEPS if self._count_running(kind))
            self.step = _STEPS[self._kind]
        return plans

    def add(self, trial: Trial) -> None:
        """Adds an ended trial: measured, failed or skipped."""
        self._running.pop(trial.slot, None)
        self._last_alive_s.pop(trial.slot, None)  # the slot is about to be free
        self.trials.append(trial)
        free_mib = self._record.free_mib
        self._record = Record(self._record.spec, self._slots, self.trials)
        self._record.free_mib = free_mib

    def stop(self, reason: str) -> None:
        """Ends the search; `reason` is a few words."""
        if not self.ended:
            self.ended, self.step, self.reached = True, reason, self.step

    def answer(self) -> Answer:
        """Returns the answer so far."""
        return answers.answer(self._record)

    def with_margin(self, trial: Trial) -> Trial:
        """Returns the trial, with its margin if the spread is known."""
        if trial.rate is None or trial.state is not TrialState.MEASURED:
            return trial
        return replace(trial, margin_pct=self._record.fit.margin_pct())

    def estimate_trials(self) -> int:
        """Estimates the total number of trials: those so far, and the usual number of each remaining step."""
        trials = [*self.trials, *self._running.values()]
        if self.ended:
            return len(trials)
        slots, counts = len(self._record.slots), Counter(trial.kind for trial in trials)
        usual = {
            TrialKind.LADDER: self._count_doublings(),
            TrialKind.REFINE: _MIN_REFINED,
            TrialKind.COMMON: slots - 1,
            TrialKind.CONFIRM: 2 * _REPEATS,
            TrialKind.TOGETHER: slots,
        }
        kinds = list(_STEPS)
        return len(trials) + sum(max(0, usual[kind] - counts[kind]) for kind in kinds[kinds.index(self._kind) :])

    def _count_doublings(self) -> int:
        """Returns the number of values in the ladder up to its known end, else the usual number."""
        low = self._record.spec.low
        bounds = [bound for bound in (self._record.memory_end, self._record.spec.high) if bound is not None]
        end = min(bounds, default=0)
        return max(1, math.ceil(math.log2(end / low)) + 1) if end > low else _USUAL_DOUBLINGS

    def eta_s(self, running: Mapping[str, float], now_s: float) -> float | None:
        """Estimates the remaining seconds from the mean time of a trial; None if none has been measured.

        `running` has the start of each running trial, by slot, in seconds of the tuning's run time.
        """
        measured = [trial for trial in self._record.alone if trial.state is TrialState.MEASURED]
        if self.ended or not measured:
            return 0.0 if self.ended else None
        mean_s = fmean((trial.start_s or 0) + (trial.measured_s or 0) for trial in measured)
        rest_s = max((mean_s - (now_s - started_s) for started_s in running.values()), default=0.0)
        steps = len(_STEPS) - 1 - list(_STEPS).index(self._kind)
        rounds = steps * max(1.0, _TRIALS_PER_STEP / len(self._record.slots))
        return max(0.0, rest_s) + rounds * mean_s + 3 * self._record.spec.settle_s

    # Decisions

    def _count_running(self, kind: TrialKind) -> int:
        return sum(plan.kind is kind for plan in self._running.values())

    def _propose(self, alive: Collection[str], idle: int) -> list[_Proposal]:
        """Returns the trials worth starting now, most urgent first."""
        record = self._record
        if record.spec.low in record.failed | record.unmeasured:
            return []
        running = {plan.value for plan in self._running.values()}
        retried = sorted(filter(record.is_usable, record.tried - record.ran - running - record.failed))
        ladder: list[_Proposal] = [(value, None, TrialKind.LADDER) for value in [*retried, *self._ladder_values(idle)]]
        ladder_count = self._count_running(TrialKind.LADDER)
        if ladder or ladder_count or not record.ran:
            is_last = ladder_count <= max(1, len(record.slots) // 4)
            return [*ladder, *(self._propose_common(alive) if record.ran and is_last else ())]
        common = list(self._propose_common(alive))
        if self._count_running(TrialKind.REFINE):
            return common
        refine: list[_Proposal] = [(value, None, TrialKind.REFINE) for value in self._refined_values(idle)]
        return [*refine, *common] if refine else [*common, *self._propose_repeats(idle)]

    def _ladder_values(self, idle: int) -> list[int]:
        """Returns the next values of the ladder, the smallest first; empty after its end."""
        record, spec = self._record, self._record.spec
        top, ladder_count = max(record.ran, default=0), self._count_running(TrialKind.LADDER)
        if top and record.curve.gain() < max(_MIN_LADDER_GAIN, record.noise):
            return []
        end = min(bound for bound in (record.memory_end, spec.high, 1 << 62) if bound is not None)
        tried = record.tried | {plan.value for plan in self._running.values()}
        has_memory = record.memory_line is not None or all(map(memory_of, record.slots.values()))
        reach = math.inf if has_memory else max(top, spec.low) * _MAX_LEAP_RATIO
        values: list[int] = []
        value = max(tried, default=0) if ladder_count else top
        while len(values) < min(_MAX_LADDER_VALUES, idle):
            above = min(value * 2, end) if value else spec.low
            if above <= value * _SAME_RATIO or above > reach or above >= record.ceiling:
                break
            value = above
            if value not in tried:
                values.append(value)
        return values

    def _propose_common(self, alive: Collection[str]) -> Iterator[_Proposal]:
        """Yields the common value for each slot that has not measured it."""
        record = self._record
        chosen = [trial.value for trial in record.alone if trial.kind is TrialKind.COMMON]
        chosen += [plan.value for plan in self._running.values() if plan.kind is TrialKind.COMMON]
        value = chosen[0] if chosen else record.curve.best.value
        if len(record.slots) < 2 or not record.is_usable(value):
            return
        for name in sorted(set(alive) - set(self._running), key=list(record.slots).index):
            states = [trial.state for trial in record.alone if (trial.slot, trial.value) == (name, value)]
            if TrialState.MEASURED not in states and len(states) < MAX_TRIALS:
                yield value, name, TrialKind.COMMON

    def _refined_values(self, idle: int) -> list[int]:
        """Returns values in the most promising gap between measured ones; empty if no gap promises a clear gain."""
        record = self._record
        refined = sum(trial.kind is TrialKind.REFINE for trial in record.alone)
        count = min(max(_MIN_REFINED, idle), _MAX_REFINED, _MAX_REFINEMENTS * _MAX_REFINED - refined)
        points, best = record.curve.points, record.curve.best
        ends = [point.value for point in points[1:]] + ([record.edge.value] if record.edge is not None else [])
        gaps = []
        for index, (point, end) in enumerate(zip(points, ends, strict=False)):  # without an edge the last has no end
            bound = record.curve.score_bound(index, end)
            if record.spec.metric == FPS:
                is_promising = bound > best.score * (1 + max(_MIN_REFINE_GAIN, record.noise))
            else:  # it may not be a rate
                is_promising = best.value in (point.value, end) and end > point.value * _MAX_GAP_RATIO
            if is_promising and end >= point.value * _SAME_RATIO:
                gaps.append((bound, point.value, end))
        if not gaps or count <= 0:
            return []
        _, low, high = max(gaps)
        return [value for value in values_between(low, high, count) if value not in record.tried]

    def _propose_repeats(self, idle: int) -> Iterator[_Proposal]:
        """Yields repeats of the best values, in turn."""
        record = self._record
        counts = Counter(trial.value for trial in record.measured(TrialKind.CONFIRM))
        counts.update(plan.value for plan in self._running.values() if plan.kind is TrialKind.CONFIRM)
        leaders = [value for value in answers.leaders(record) if record.is_usable(value)]
        missing = sum(max(0, _REPEATS - counts[value]) for value in leaders)
        for turn in range(_REPEATS + (0 < missing < idle)):
            yield from ((value, None, TrialKind.CONFIRM) for value in leaders if counts[value] <= turn)

    def _propose_together(self, alive: set[str]) -> list[_Proposal]:
        """Returns the recommended value for all slots; empty if all have measured it at once, or after `MAX_TRIALS`."""
        record = self._record
        if not record.ran:
            return []
        value = answers.recommended(record)
        slots = {name for name in alive if record.fits(value, name)}
        done = [trial for trial in record.trials if trial.kind is TrialKind.TOGETHER and trial.value == value]
        measured = {trial.slot for trial in done if trial.state is TrialState.MEASURED}
        tries = max((sum(trial.slot == name for trial in done) for name in slots), default=0)
        if measured >= slots or tries >= MAX_TRIALS:
            return []
        return [(value, name, TrialKind.TOGETHER) for name in record.slots if name in slots]

    def _assign(self, proposals: Iterable[_Proposal], idle: Sequence[str]) -> list[Trial]:
        """Assigns each value to an idle slot: on the node with the fewest failures of it, with the fewest trials of it."""
        unused, plans = list(idle), list[Trial]()
        for value, only_slot, kind in proposals:
            fitting = [name for name in unused if only_slot in (None, name) and self._record.fits(value, name)]
            if fitting:
                slot = min(fitting, key=partial(self._count_trials, value))
                unused.remove(slot)
                plans.append(Trial(0, value, slot, kind))
        return plans

    def _count_trials(self, value: int, slot: str) -> tuple[int, int, int]:
        """Returns the number of unmeasured trials of a value on a slot's node and on the slot, and of all on the slot."""
        states = [trial.state for trial in self._record.trials if (trial.slot, trial.value) == (slot, value)]
        on_node = self._record.count_unmeasured(value, self._record.slots[slot].node)
        return on_node, len(states) - states.count(TrialState.MEASURED), len(states)

    def _alive_slots(self, idle: Collection[str], now_s: float) -> set[str]:
        """Returns the slots that are idle or running a trial, or were within the last `_MAX_SLOT_WAIT_S`."""
        for name in self._record.slots:
            if name in idle or name in self._running or name not in self._last_alive_s:
                self._last_alive_s[name] = now_s
        return {name for name, last_s in self._last_alive_s.items() if now_s - last_s < _MAX_SLOT_WAIT_S}
