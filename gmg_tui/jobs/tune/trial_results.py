"""The results of the trials: the values that run, their rates, and their memory.

A step of n environments takes the time t(n) = n / rate. It is flat at first, then grows in proportion, with occasional
jumps; its growth hardly ever slows down. So a straight line through two measured points is a lower bound of t beyond
them, and n divided by that is an upper bound of the rate.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from statistics import fmean, median_low, mode
from typing import NamedTuple

from msgspec.structs import replace

from gmg_tui.jobs.tune.fit import Fit, Sample, fit
from gmg_tui.model import Slot
from gmg_tui.model.tuning import Edge, MemoryLine, Trial, TrialKind, TrialState, TuneSpec
from gmg_tui.scripts.genesis.output.failure_signs import FailureKind, sign_of

MAX_TRIALS = 2
"""Maximum number of failed or skipped trials of a value."""
_MAX_CONSTANT_SPREAD = 0.02
"""Memory counts as constant if it differs by less than this share between the smallest and the largest value."""
_MAX_NOISE = 0.05
"""Upper limit of the noise assumed in decisions."""
_MIN_LIMIT_RATIO = 0.95
"""Minimum ratio of a slot's limit to that of the emptiest slot, for both to run the same values."""
_RAN_HEADROOM_SHARE = 0.5
"""Share of the headroom that suffices for a value that has run: free memory varies, and the line is an estimate."""
_MIN_LINE_RATIO = 1.8
"""Minimum ratio of two values for a line through their points: between closer ones, noise prevails."""


class Point(NamedTuple):
    """A measured value."""

    value: int
    score: float
    """The rate; higher is better."""

    @property
    def time(self) -> float:
        """The time of a step, in arbitrary units."""
        return self.value / self.score


class Curve:
    """The measured points, by value."""

    def __init__(self, points: Iterable[Point]) -> None:
        self.points = tuple(sorted(points))

    @property
    def best(self) -> Point:
        """The fastest point. Raises `ValueError` without points."""
        return max(self.points, key=lambda point: (point.score, -point.value))

    @property
    def top(self) -> Point:
        """The point of the largest value."""
        return self.points[-1]

    def gain(self) -> float:
        """Returns the relative gain of the better of the last two doublings; infinite if there were fewer."""
        scores = [self._best_score(self.top.value / divisor) for divisor in (1, 2, 4)]
        if scores[2] <= 0:
            return math.inf
        return max(scores[0] / scores[1], scores[1] / scores[2]) - 1

    def score_bound(self, index: int, end: int) -> float:
        """Returns an upper bound of the scores between a point and the value `end`."""
        point = self.points[index]
        distant = [other for other in self.points if other.value * _MIN_LINE_RATIO <= point.value]
        base = distant[-1] if distant else self.points[0]
        slope = 0.0 if base == point else max(0.0, (point.time - base.time) / (point.value - base.value))
        return max(point.score, end / (point.time + slope * (end - point.value)))

    def _best_score(self, max_value: float) -> float:
        return max((point.score for point in self.points if point.value <= max_value), default=0.0)


def round_down(value: float, *, nearest: bool = False) -> int:
    """Rounds `value` down, or to the `nearest`, to a multiple of a power of two, at most 1.6 % of it (1 if it is small).

    The result is a number that a person would type: a multiple of 64 at 4,096, of 256 at 16,384, of 1 up to 127.
    """
    grain = 1 << max(0, math.floor(math.log2(max(value, 1))) - 6)
    return math.floor(value / grain + nearest / 2) * grain


def values_between(low: int, high: int, count: int = 1) -> list[int]:
    """Returns up to `count` values strictly between `low` and `high`, evenly spaced on a log scale."""
    ratio = (high / low) ** (1 / (count + 1))
    values = {round_down(low * ratio**step, nearest=True) for step in range(1, count + 1)}
    return sorted(value for value in values if low < value < high)


def model_of(slot: Slot) -> str:
    """Returns the model of a slot's GPU according to NVML; `CPU` for a CPU slot."""
    return slot.gpu.name if slot.gpu is not None else "CPU"


def memory_of(slot: Slot) -> int | None:
    """Returns the total memory of a slot's GPU in MiB; None if unknown, and on a CPU slot."""
    return slot.gpu.memory_total_mib if slot.gpu is not None else None


class Record:
    """The results of the ended trials on slots of one model: rates of other models are not comparable.

    It is the most common model of most nodes (of the first ones, if as many have another): no node can outvote others.
    """

    def __init__(self, spec: TuneSpec, slots: Sequence[Slot], trials: Collection[Trial] = ()) -> None:
        models = defaultdict[str, list[str]](list)
        for slot in slots:
            models[slot.node].append(model_of(slot))
        model = mode(map(mode, models.values()))
        self.spec = spec
        self.slots = {slot.name: slot for slot in slots if model_of(slot) == model}
        self.other_models = [slot for slot in slots if model_of(slot) != model]
        self.trials = [_check_rate(trial) for trial in trials if trial.slot in self.slots and trial.state.ended]
        self.alone = [trial for trial in self.trials if trial.kind is not TrialKind.TOGETHER]
        """The trials that were not on all slots at once."""
        self.free_mib: dict[str, float] = {}
        """Free memory of each slot when no worker was running on it."""
        self._min_nodes = min(2, len({slot.node for slot in self.slots.values()}))
        """Number of nodes that a value must fail on, as one may be broken."""

    # Values that run

    @cached_property
    def _counts(self) -> Counter[tuple[int, TrialState]]:
        return Counter((trial.value, trial.state) for trial in self.alone)

    @property
    def tried(self) -> set[int]:
        """The values of all trials."""
        return {trial.value for trial in self.trials}

    @cached_property
    def _failed_on(self) -> dict[int, Counter[str]]:
        """The number of failed trials on each node, by value."""
        failed_on: dict[int, Counter[str]] = {}
        for trial in self.alone:
            if trial.state is TrialState.FAILED:
                failed_on.setdefault(trial.value, Counter())[self.slots[trial.slot].node] += 1
        return failed_on

    @cached_property
    def _out_of_memory(self) -> set[int]:
        return {trial.value for trial in self.alone if is_out_of_memory(trial.reason)}

    @cached_property
    def failed(self) -> set[int]:
        """The values that do not run: one trial ran out of memory, or two failed, and no more of its trials were measured than failed.

        If there are several nodes, trials failed on two of them.
        """
        failed = set()
        for value, nodes in self._failed_on.items():
            limit = max(self._max_failures(value), self._counts[value, TrialState.MEASURED])
            if nodes.total() >= limit and len(nodes) >= self._min_nodes:
                failed.add(value)
        return failed

    def _max_failures(self, value: int) -> int:
        return 1 if value in self._out_of_memory else MAX_TRIALS

    def count_unmeasured(self, value: int, node: str) -> int:
        """Returns the number of failed and skipped trials of a value on a node."""
        trials = (trial for trial in self.alone if trial.value == value and trial.state is not TrialState.MEASURED)
        return sum(self.slots[trial.slot].node == node for trial in trials)

    @cached_property
    def ran(self) -> set[int]:
        """The values that were measured, not counting those in `failed`."""
        return {value for value, state in self._counts if state is TrialState.MEASURED} - self.failed

    @property
    def unmeasured(self) -> set[int]:
        """The values that were not measured in `MAX_TRIALS` trials, although they may run."""
        return {value for value, _ in self._counts if not self.is_usable(value)} - self.failed - self.ran

    def is_usable(self, value: int) -> bool:
        """Returns True if another trial of this value is worthwhile."""
        counts = self._counts
        unmeasured = counts[value, TrialState.FAILED] + counts[value, TrialState.SKIPPED]
        return (
            value not in self.failed and unmeasured < MAX_TRIALS * self._min_nodes + counts[value, TrialState.MEASURED]
        )

    @property
    def ceiling(self) -> float:
        """The smallest value above all that ran that failed or ran out of memory; infinite if there is none."""
        largest = max(self.ran, default=0)
        return min((value for value in self.failed | self._out_of_memory if value > largest), default=math.inf)

    @property
    def edge(self) -> Edge | None:
        """The smallest failed value above all that ran; None if there is none."""
        largest = max(self.ran, default=0)
        value = min((value for value in self.failed if value > largest), default=None)
        if value is None:
            return None
        reasons = (trial.reason for trial in self.alone if trial.value == value and trial.state is TrialState.FAILED)
        return Edge(value=value, reason=next(filter(None, reasons), "unknown reason"))

    # Speed

    def measured(self, kind: TrialKind) -> list[Trial]:
        """Returns the measured trials of one kind."""
        return [trial for trial in self.trials if trial.kind is kind and trial.state is TrialState.MEASURED]

    @cached_property
    def fit(self) -> Fit:
        """The speed of the slots, and the noise."""
        return fit([self._sample(trial) for trial in self.trials if trial.state is TrialState.MEASURED])

    @property
    def noise(self) -> float:
        """The relative standard deviation of a trial; 0 if unknown."""
        return min(self.fit.spread, _MAX_NOISE) if self.fit.freedom else 0.0

    def scores(self, value: int, kind: TrialKind | None = None) -> list[float]:
        """Returns the logarithms of the scores of a value's trials (of one kind), corrected for their slots."""
        return [score for score_kind, score in self._scores.get(value, ()) if kind in (None, score_kind)]

    @cached_property
    def _scores(self) -> dict[int, list[tuple[TrialKind, float]]]:
        scores: dict[int, list[tuple[TrialKind, float]]] = {}
        for trial in self.alone:
            if trial.state is TrialState.MEASURED:
                scores.setdefault(trial.value, []).append((trial.kind, self.fit.correct(self._sample(trial))))
        return scores

    def points(self, *, repeats: bool) -> list[Point]:
        """Returns the points of the values that ran, from repeats or from other trials, the smallest value first."""
        points = []
        for value in sorted(self.ran):
            scores = [score for kind, score in self._scores[value] if (kind is TrialKind.CONFIRM) is repeats]
            points += [Point(value, math.exp(fmean(scores)))] if scores else []
        return points

    @cached_property
    def curve(self) -> Curve:
        """The scores by value."""
        return Curve(Point(value, math.exp(fmean(self.scores(value)))) for value in self.ran)

    def _sample(self, trial: Trial) -> Sample:
        key = trial.value, trial.kind is TrialKind.TOGETHER
        return Sample(trial.slot, key, math.log(trial.rate or 1.0))

    # Memory

    @cached_property
    def memory_line(self) -> MemoryLine | None:
        """The line through the memory of the smallest and the largest measured value; None if fewer than two.

        A value's memory is its maximum on one node, and the median of several nodes, as one may be wrong.
        """
        peaks_mib: dict[int, dict[str, float]] = {}
        for trial in self.alone:
            if trial.state is TrialState.MEASURED and trial.memory_mib is not None:
                peaks, node = peaks_mib.setdefault(trial.value, {}), self.slots[trial.slot].node
                peaks[node] = max(trial.memory_mib, peaks.get(node, 0.0))
        if len(peaks_mib) < 2:
            return None
        memory_mib = {value: median_low(peaks.values()) for value, peaks in peaks_mib.items()}
        low, top = min(memory_mib), max(memory_mib)
        slope = (memory_mib[top] - memory_mib[low]) / (top - low)
        if memory_mib[top] - memory_mib[low] < _MAX_CONSTANT_SPREAD * memory_mib[top]:
            slope = 0.0
        return MemoryLine(memory_mib[top] - slope * top, slope)

    @property
    def memory_end(self) -> int | None:
        """The largest value that leaves the headroom free on the emptiest slot and similar slots; None if unknown."""
        limits = [limit for slot in self.slots if (limit := self._memory_limit(slot)) is not None]
        if not limits or len(limits) < len(self.slots):
            return None
        return min(limit for limit in limits if limit >= _MIN_LIMIT_RATIO * max(limits))

    def fits(self, value: int, slot: str) -> bool:
        """Returns True if a value may run on a slot: it has run there, leaves the headroom, or is the smallest.

        If there are several nodes, it must not have failed or been skipped repeatedly, or run out of memory, on this one.
        """
        if self._min_nodes > 1 and self.count_unmeasured(value, self.slots[slot].node) >= self._max_failures(value):
            return False
        if any((trial.slot, trial.value, trial.state) == (slot, value, TrialState.MEASURED) for trial in self.alone):
            return True
        limit = self._memory_limit(slot, _RAN_HEADROOM_SHARE if value in self.ran else 1.0)
        return limit is None or value <= limit or value == self.spec.low

    def _memory_limit(self, slot: str, headroom_share: float = 1.0) -> int | None:
        line, total_mib = self.memory_line, memory_of(self.slots[slot])
        if line is None or total_mib is None or line.per_unit_mib <= 0:
            return None
        free_mib = min(self.free_mib.get(slot, total_mib), total_mib)
        usable_mib = free_mib - total_mib * headroom_share * self.spec.headroom_pct / 100
        return max(0, round_down((usable_mib - line.base_mib) / line.per_unit_mib))


def is_out_of_memory(reason: str | None) -> bool:
    """Returns True if the GPU ran out of memory. Host memory does not count: SIGKILL only hints at it."""
    if not reason:
        return False
    sign = sign_of(reason.encode())
    return reason.startswith(FailureKind.MEMORY) or (sign is not None and sign.kind is FailureKind.MEMORY)


_MIN_RATE, _MAX_RATE = 1e-30, 1e30


def _check_rate(trial: Trial) -> Trial:
    """Returns the trial, marked as failed if its rate is missing or out of the range that is safe for ratios."""
    if trial.state is not TrialState.MEASURED or (trial.rate is not None and _MIN_RATE <= trial.rate <= _MAX_RATE):
        return trial
    limits = f"comparisons need values from {_MIN_RATE:g} to {_MAX_RATE:g}"
    reason = "no rate" if trial.rate is None else f"the metric was {trial.rate:g}; {limits}"
    return replace(trial, state=TrialState.FAILED, rate=None, reason=trial.reason or reason)
