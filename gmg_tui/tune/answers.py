"""The answer from the trials: the recommended value, the fastest, the largest that ran, and the caveats."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from statistics import fmean

from gmg_tui.model.tuning import Answer, Best, Goal, MemoryLine, Together, TrialKind, TrialState
from gmg_tui.tune.curve import Point, rounded
from gmg_tui.tune.record import Record, is_memory

_DOUBT = 0.3
"""Standard errors by which a value may miss the knee."""
_USUAL = 0.05
"""A slot whose factor is off by more is warned of."""
_NOISY = 0.03
"""Trials that vary by more are warned of."""
_NEAR = 1.12
"""A measured value so near to where the curve reaches the share is as good as that."""
_ABOVE = 1.02
"""How far above that value the next is measured, so that it is likely to reach the knee."""
_AT_THE_END = 1.05
"""The fastest is at memory's end where that is not farther."""
_SHORT_S = 20.0
"""Trials that are measured for less are warned of."""


def recommended(record: Record) -> int:
    """The smallest value within the knee of the fastest; once it has been measured on all slots, it stays."""
    together = [trial.value for trial in record.of(TrialState.MEASURED, TrialKind.TOGETHER)]
    return together[0] if together else _within(record)[0].value


def leaders(record: Record) -> list[int]:
    """The values that may be the answer: the smallest within the knee, the fastest, and the next within the knee."""
    within = _within(record)
    ranking = sorted(within[1:], key=lambda point: -point.score)
    return list(dict.fromkeys([within[0].value, _fastest(record).value, *(point.value for point in ranking)]))[:3]


def smaller(record: Record) -> int | None:
    """A value below the recommended one that by the curve is within the knee too; None where none is likely."""
    points = record.curve.points
    index = points.index(_within(record)[0])
    if index == 0:
        return None
    below, recommended = points[index - 1], points[index]
    where = record.curve.crossing(index - 1, _target(record))
    value = rounded(where * _ABOVE)
    if recommended.value <= where * _NEAR or not below.value < value < recommended.value or not record.usable(value):
        return None
    return value


def answer(record: Record) -> Answer:
    """The answer so far."""
    names = tuple(record.slots)
    model = next(iter(record.slots.values())).model if names else ""
    if not record.ran:
        return Answer(model=model, slots=names, edge=record.edge, warnings=tuple(_odd(record)))
    line = record.memory_line
    memory = MemoryLine(line.base_mib, line.per_unit_mib, record.memory_end) if line is not None else None
    return Answer(
        model=model,
        slots=names,
        recommended=_best(record, recommended(record)),
        fastest=_best(record, _fastest(record).value),
        largest=_best(record, record.curve.top.value),
        edge=record.edge,
        memory=memory,
        together=_together(record, recommended(record)),
        factors=record.fit.factors,
        warnings=tuple(_warnings(record)),
    )


def conclusion(record: Record) -> str:
    """Why the search is over, in a few words."""
    name = record.spec.variable
    if not record.ran:
        reasons = [trial.reason for trial in record.ended if trial.reason]
        what = "could not be measured" if record.given_up else "did not run"
        return f"{name} = {record.spec.low:,} {what}: {reasons[-1] if reasons else 'no slot is left'}"
    return f"done: {recommended(record):,} is recommended"


def _fastest(record: Record) -> Point:
    """The fastest value: of those that were repeated, where there are any, by their repeats alone.

    What made a value one of the best before was luck too, which its repeats do not have.
    """
    repeated = [
        Point(point.value, math.exp(fmean(scores)))
        for point in record.curve.points
        if (scores := record.scores(point.value, TrialKind.CONFIRM))
    ]
    return max(repeated, key=lambda point: (point.score, -point.value)) if repeated else record.curve.best


def _target(record: Record) -> float:
    return _fastest(record).score * (1 - record.spec.knee_pct / 100)


def _within(record: Record) -> list[Point]:
    """The values within the knee of the fastest within the noise, the smallest first, and the fastest."""
    target, fastest = _target(record), _fastest(record).value
    count = len(record.scores(fastest, TrialKind.CONFIRM)) or 1

    def reaches(point: Point) -> bool:
        doubt = _DOUBT * record.noise * math.sqrt(1 / count + 1 / len(record.scores(point.value)))
        return point.score >= target * (1 - doubt)

    return [point for point in record.curve.points if point.value == fastest or reaches(point)]


def _best(record: Record, value: int) -> Best:
    trials = [trial for trial in record.of(TrialState.MEASURED) if trial.value == value]
    scores = record.scores(value, TrialKind.CONFIRM) or record.scores(value)
    rate = record.score(math.exp(fmean(scores)))
    half = record.fit.half(max(1, len(scores) - 1))  # Choosing it from several has cost some certainty.
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


def _together(record: Record, value: int) -> Together | None:
    """What all slots reach at once; measured after the value was chosen, so that luck has no part in it."""
    measured = record.of(TrialState.MEASURED, TrialKind.TOGETHER)
    rates = {trial.slot: trial.rate for trial in measured if trial.value == value and trial.rate is not None}
    if not rates:
        return None
    alone = math.exp(fmean(record.scores(value)))
    slots = [record.score(alone * math.exp(record.fit.corrections.get(slot, 0.0))) for slot in rates]
    total = sum(rates.values())
    share = len(rates) if record.spec.goal is Goal.MIN else 1  # What should be small is no sum: seconds, losses.
    half = record.fit.half(len(rates))
    return Together(
        value=value,
        rate=total / share,
        rate_low=None if half is None else total / share * (1 - half),
        rate_high=None if half is None else total / share * (1 + half),
        of_alone_pct=100 * total / sum(slots),
        rates=rates,
    )


def _warnings(record: Record) -> Iterator[str]:
    """A sentence each."""
    fastest, chosen = _fastest(record).value, recommended(record)
    for slot in record.fit.corrections:
        factor = record.fit.factors[slot]
        if abs(factor - 1) > _USUAL:
            kind = "slower" if factor < 1 else "faster"
            yield f"{slot} is {100 * abs(factor - 1):.0f} % {kind} than a usual slot."
    edge, end = record.edge, record.memory_end
    if fastest == record.curve.top.value:  # Only then may more be faster.
        if edge is not None and is_memory(edge.reason):
            yield f"Memory, not speed, ended the search: {edge.value:,} ran out of it."
        elif end is not None and fastest * _AT_THE_END >= end:
            free = f"{end:,} leaves {record.spec.headroom_pct:g} % of it free, and " if end >= fastest else ""
            yield f"Memory, not speed, ended the search: {free}more would be faster."
        elif fastest == record.spec.high:
            yield f"{fastest:,} is the greatest value allowed; more may be faster."
    tight = [slot for slot in record.slots if not record.fits(chosen, slot)]
    if tight:
        yield f"{chosen:,} leaves too little memory free on {', '.join(tight)}."
    if record.fit.freedom and record.fit.spread > _NOISY:
        yield f"The same value differs by {100 * record.fit.spread:.0f} % from trial to trial."
    if record.spec.settle_s[0] < _SHORT_S:
        yield f"Trials were measured for {record.spec.settle_s[0]:g} s; a rate needs {_SHORT_S:g} s to be trusted."
    at_once = [trial for trial in record.of(TrialState.FAILED, TrialKind.TOGETHER) if trial.value == chosen]
    for trial in {trial.slot: trial for trial in at_once}.values():
        yield f"{chosen:,} did not run on {trial.slot} with all slots at once: {trial.reason or 'unknown reason'}."
    yield from _odd(record)


def _odd(record: Record) -> Iterator[str]:
    """Slots that are not measured, values that failed but not for good, and those that were never measured."""
    if record.left_out:
        names = ", ".join(f"{slot.name} ({slot.model})" for slot in record.left_out)
        yield f"Not measured, as rates of different models cannot be compared: {names}."
    ran = record.ran
    reasons = {trial.value: trial.reason for trial in record.of(TrialState.FAILED)}
    for value in sorted(set(reasons) & ran):
        yield f"{value:,} ran, and failed once: {reasons[value] or 'unknown reason'}."
    top = max(ran, default=0)
    for value in sorted(value for value in record.failed if value < top):
        yield f"{value:,} did not run, though {top:,} did."
    for value in sorted(record.given_up):
        yield f"{value:,} could not be measured undisturbed."


def _mean(values: Iterable[float | None]) -> float | None:
    numbers = [number for number in values if number is not None]
    return fmean(numbers) if numbers else None
