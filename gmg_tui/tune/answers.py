"""What the trials say: the fastest value, the knee, the largest that ran, and what to know before trusting it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from gmg_tui.model.tuning import Answer, Best, Goal, MemoryLine, Together, Trial, TrialKind, TrialState
from gmg_tui.tune.curve import Curve
from gmg_tui.tune.knee import knee
from gmg_tui.tune.limits import MOST_VALUES, Limits
from gmg_tui.tune.record import Record, is_memory

_USUAL = 0.05
"""A slot whose factor is off by more is warned of."""
_NOISY = 0.05
"""Rates of one value that differ by more are warned of."""
_AT_THE_END = 1.05
"""The fastest is at memory's end where that is not farther."""


def answer(record: Record, limits: Limits) -> Answer:
    """What is known so far."""
    names = tuple(record.slots)
    model = next(iter(record.slots.values())).model if names else ""
    if not record.ran:
        return Answer(model=model, slots=names, edge=record.edge, warnings=tuple(_odd(record)))
    curve, by_slot = record.curve, record.factors
    fastest = curve.best.value
    return Answer(
        model=model,
        slots=names,
        fastest=_best(record, curve, fastest, by_slot),
        knee=_best(record, curve, knee(curve, record.spec.knee_pct).value, by_slot),
        largest=_best(record, curve, curve.top.value, by_slot),
        edge=record.edge,
        memory=_memory(record, limits),
        together=_together(record, fastest, curve.best.score, by_slot),
        factors=by_slot,
        warnings=tuple(_warnings(record, limits, fastest, by_slot)),
    )


def conclusion(record: Record, limits: Limits) -> str:
    """Why the search is over, in a few words."""
    name = record.spec.variable
    if not record.ran:
        reasons = [trial.reason for trial in record.ended if trial.reason]
        what = "could not be measured" if record.given_up else "did not run"
        return f"{name} = {record.spec.low:,} {what}: {reasons[-1] if reasons else 'no slot is left'}"
    fastest = record.curve.best.value
    if record.counted >= record.spec.trials:
        return f"all {record.spec.trials} trials are used up; the fastest is {fastest:,}"
    return f"done: the fastest is {fastest:,}"


def _best(record: Record, curve: Curve, value: int, by_slot: dict[str, float]) -> Best:
    trials = [trial for trial in record.of(TrialState.MEASURED) if trial.value == value]
    score = next(point.score for point in curve.points if point.value == value)
    half = _half(trials)
    rate = record.rate(score)
    return Best(
        value=value,
        rate=rate,
        rate_low=None if half is None else rate * (1 - half),
        rate_high=None if half is None else rate * (1 + half),
        memory_mib=max((trial.memory_mib for trial in trials if trial.memory_mib is not None), default=None),
        gpu_util_pct=_mean(trial.gpu_util_pct for trial in trials),
        sm_activity_pct=_mean(trial.sm_activity_pct for trial in trials),
        power_w=_mean(trial.power_w for trial in trials),
    )


def _half(trials: Sequence[Trial]) -> float | None:
    """Half the interval of the mean of these trials, as a share of the rate; None where one has no interval."""
    halves = [
        (trial.rate_high - trial.rate_low) / 2 / trial.rate
        for trial in trials
        if trial.rate and trial.rate_low is not None and trial.rate_high is not None
    ]
    if not halves or len(halves) < len(trials):
        return None
    return math.sqrt(sum(half * half for half in halves)) / len(halves)


def _memory(record: Record, limits: Limits) -> MemoryLine | None:
    line = record.memory_line
    if line is None:
        return None
    return MemoryLine(base_mib=line.base_mib, per_unit_mib=line.per_unit_mib, most=limits.memory_end)


def _together(record: Record, value: int, score: float, by_slot: dict[str, float]) -> Together | None:
    measured = record.of(TrialState.MEASURED, TrialKind.TOGETHER)
    rates = {trial.slot: trial.rate for trial in measured if trial.value == value and trial.rate is not None}
    if not rates:
        return None
    alone = sum(record.rate(score * by_slot.get(slot, 1)) for slot in rates)
    total = sum(rates.values())
    share = len(rates) if record.spec.goal is Goal.MIN else 1  # What should be small is no sum: seconds, losses.
    return Together(value=value, rate=total / share, of_alone_pct=100 * total / alone, rates=rates)


def _warnings(record: Record, limits: Limits, fastest: int, by_slot: dict[str, float]) -> Iterable[str]:
    """A sentence each."""
    for slot, factor in by_slot.items():
        if abs(factor - 1) > _USUAL:
            kind = "slower" if factor < 1 else "faster"
            yield f"{slot} is {100 * abs(factor - 1):.0f} % {kind} than a usual slot."
    by_memory = limits.memory_end is not None and fastest * _AT_THE_END >= limits.memory_end
    edge = record.edge
    if by_memory and not record.curve.saturated():
        free = f"{limits.memory_end:,} leaves {record.spec.headroom_pct:g} % of it free, and "
        known = limits.memory_end is not None and limits.memory_end >= fastest
        yield f"Memory, not speed, ended the search: {free if known else ''}more would be faster."
    elif edge is not None and is_memory(edge.reason) and fastest == record.curve.top.value:
        yield f"Memory, not speed, ended the search: {edge.value:,} ran out of it."
    elif record.spec.high is not None and fastest == record.spec.high and not record.curve.saturated():
        yield f"{fastest:,} is the greatest value allowed; more may be faster."
    tight = [slot for slot in record.slots if not limits.fits(fastest, slot)]
    if tight:
        yield f"{fastest:,} leaves too little memory free on {', '.join(tight)}."
    scores = record.scores()[fastest]
    if max(scores) > (1 + _NOISY) * min(scores):
        yield f"The rates of {fastest:,} differ by {100 * (max(scores) / min(scores) - 1):.0f} % from trial to trial."
    at_once = [trial for trial in record.of(TrialState.FAILED, TrialKind.TOGETHER) if trial.value == fastest]
    for trial in {trial.slot: trial for trial in at_once}.values():
        yield f"{fastest:,} did not run on {trial.slot} with all slots at once: {trial.reason or 'no reason is known'}."
    if len(record.values) >= MOST_VALUES:
        yield f"{MOST_VALUES} values were tried, which is the most; another one may be slightly faster."
    yield from _odd(record)


def _odd(record: Record) -> Iterable[str]:
    """Values that failed but not for good, and those that were never measured."""
    ran = record.ran
    once = sorted({trial.value for trial in record.of(TrialState.FAILED)} & ran)
    for value in once:
        reason = next(trial.reason for trial in record.of(TrialState.FAILED) if trial.value == value)
        yield f"{value:,} ran, and failed once: {reason or 'no reason is known'}."
    top = max(ran, default=0)
    for value in sorted(record.failed):
        if value < top:
            yield f"{value:,} did not run, though {top:,} did."
    for value in sorted(record.given_up):
        yield f"{value:,} could not be measured undisturbed."


def _mean(known: Iterable[float | None]) -> float | None:
    numbers = [number for number in known if number is not None]
    return sum(numbers) / len(numbers) if numbers else None
