"""The answer from the trials: the recommended, the fastest and the largest value, with warnings."""

import math
from collections.abc import Iterable, Iterator
from statistics import fmean

from gmg_tui.jobs.tune.trial_results import Point, Record, is_out_of_memory, model_of
from gmg_tui.model import units
from gmg_tui.model.attempt import mean
from gmg_tui.model.tuning import FPS, Answer, Best, MemoryLine, Together, TrialKind, TrialState

_KNEE_TOLERANCE_SE = 0.3
"""Standard errors by which a value may fall below the knee."""
_MAX_SLOT_DIFFERENCE = 0.05
"""Relative difference from a typical slot above which there is a warning."""
_MAX_SPREAD = 0.03
"""Relative variation between trials above which there is a warning."""
_MEMORY_BOUND_RATIO = 1.05
"""Memory limits the fastest value if the largest that fits is at most this many times as large."""
_MIN_RELIABLE_S = 20.0
"""Seconds of measurement below which there is a warning."""


def recommended(record: Record) -> int:
    """Returns the value measured on all slots at once; before that, the smallest within the knee of the fastest."""
    together = record.measured(TrialKind.TOGETHER)
    return together[0].value if together else _within_knee(record, _candidates(record))[0].value


def leaders(record: Record) -> list[int]:
    """Returns up to three values to repeat, all within the knee: the smallest, then the fastest ones."""
    within_knee = _within_knee(record, record.points(repeats=False))
    ranking = sorted(within_knee[1:], key=lambda point: -point.score)
    return list(dict.fromkeys([within_knee[0].value, *(point.value for point in ranking)]))[:3]


def answer(record: Record) -> Answer:
    """Returns the answer so far."""
    names = tuple(record.slots)
    model = model_of(record.slots[names[0]])
    if not record.ran:
        return Answer(model=model, slots=names, edge=record.edge, warnings=tuple(_unmeasured_warnings(record)))
    line = record.memory_line
    return Answer(
        model=model,
        slots=names,
        recommended=_summarize(record, recommended(record)),
        fastest=_summarize(record, _fastest(_candidates(record)).value),
        largest=_summarize(record, record.curve.top.value),
        edge=record.edge,
        memory=None if line is None else MemoryLine(line.base_mib, line.per_unit_mib, record.memory_end),
        together=_joint_result(record, recommended(record)),
        factors=record.fit.factors,
        warnings=(*_warnings(record), *_unmeasured_warnings(record)),
    )


def conclusion(record: Record) -> str:
    """Returns the reason the search has ended, in a few words."""
    if not record.ran:
        low = record.spec.low
        state, problem = TrialState.SKIPPED, "could not be measured"
        if low in record.failed:
            state, problem = TrialState.FAILED, "did not run"
        trials = (trial for trial in record.alone if (trial.value, trial.state) == (low, state))
        reasons = [trial.reason for trial in trials if trial.reason]
        return f"{low:,} {problem}: {reasons[-1] if reasons else 'no slot is left'}"
    return f"done: {recommended(record):,} is recommended"


def _candidates(record: Record) -> list[Point]:
    """Returns the repeated values, scored by their repeats only; all values if none was repeated.

    A value's first trial is biased, as it led to the repeats.
    """
    return record.points(repeats=True) or record.points(repeats=False)


def _fastest(points: Iterable[Point]) -> Point:
    return max(points, key=lambda point: (point.score, -point.value))


def _within_knee(record: Record, points: list[Point]) -> list[Point]:
    """Returns the points with a score within the knee of the fastest, allowing for noise, the smallest value first."""
    fastest = _fastest(points)
    target = fastest.score * (1 - record.spec.knee_pct / 100)

    def reaches(point: Point) -> bool:
        trials = [len(record.scores(value, TrialKind.CONFIRM)) or 1 for value in (point.value, fastest.value)]
        doubt = _KNEE_TOLERANCE_SE * record.noise * math.sqrt(sum(1 / count for count in trials))
        return point == fastest or point.score >= target * (1 - doubt)

    return list(filter(reaches, points))


def _summarize(record: Record, value: int) -> Best:
    trials = [trial for trial in record.alone if (trial.value, trial.state) == (value, TrialState.MEASURED)]
    scores = record.scores(value, TrialKind.CONFIRM) or record.scores(value)
    return Best(
        value=value,
        rate=math.exp(fmean(scores)),
        margin_pct=record.fit.margin_pct(max(1, len(scores) - 1)),  # choosing among several values costs one score
        memory_mib=max((trial.memory_mib for trial in trials if trial.memory_mib is not None), default=None),
        gpu_util_pct=mean(trial.gpu_util_pct for trial in trials),
        power_w=mean(trial.power_w for trial in trials),
    )


def _joint_result(record: Record, value: int) -> Together | None:
    """Returns the result on all slots at once, unbiased because measured after the choice; None if there is none."""
    measured = record.measured(TrialKind.TOGETHER)
    rates = {trial.slot: trial.rate for trial in measured if trial.value == value and trial.rate is not None}
    if not rates:
        return None
    score = math.exp(fmean(record.scores(value)))
    alone = [score * record.fit.factors.get(slot, 1.0) for slot in rates]
    # Rewards, losses and seconds do not add up.
    rate = sum(rates.values()) if record.spec.metric == FPS else fmean(rates.values())
    of_alone_pct = 100 * sum(rates.values()) / sum(alone)
    return Together(value, rate, record.fit.margin_pct(len(rates)), of_alone_pct, rates)


def _warnings(record: Record) -> Iterator[str]:
    """Yields the limitations of the answer, one sentence each."""
    fastest, chosen = _fastest(_candidates(record)).value, recommended(record)
    for slot, factor in record.fit.factors.items():
        if abs(factor - 1) > _MAX_SLOT_DIFFERENCE:
            kind = "slower" if factor < 1 else "faster"
            yield f"{slot} is {100 * abs(factor - 1):.0f} % {kind} than a typical slot."
    if fastest == record.curve.top.value:  # otherwise larger values are known to be slower
        yield from _limit_warning(record, fastest)
    tight_slots = [slot for slot in record.slots if not record.fits(chosen, slot)]
    if tight_slots:
        yield f"{chosen:,} leaves too little memory free on {', '.join(tight_slots)}."
    if record.fit.freedom and record.fit.spread > _MAX_SPREAD:
        yield f"The same value differs by {100 * record.fit.spread:.0f} % from trial to trial."
    if disturbed := [trial for trial in record.trials if trial.disturbance is not None]:
        count, first = units.count(len(disturbed), "trial"), disturbed[0]
        yield f"{count} of {len(record.trials)} shared the machine; in #{first.number} {first.disturbance}."
    if record.spec.settle_s < _MIN_RELIABLE_S:
        yield f"Trials were measured for {record.spec.settle_s:g} s; reliable rates need {_MIN_RELIABLE_S:g} s."
    together = [trial for trial in record.trials if (trial.value, trial.kind) == (chosen, TrialKind.TOGETHER)]
    failed = {trial.slot: trial.reason for trial in together if trial.state is TrialState.FAILED}
    for slot, reason in failed.items():
        yield f"{chosen:,} did not run on {slot} with all slots at once: {reason or 'unknown reason'}."


def _limit_warning(record: Record, fastest: int) -> Iterator[str]:
    """Yields a warning if values above the fastest could not be tried."""
    edge, end = record.edge, record.memory_end
    better = "faster" if record.spec.metric == FPS else "better"
    if edge is not None and is_out_of_memory(edge.reason):
        yield f"Memory, not speed, ended the search: {edge.value:,} ran out of it."
    elif end is not None and fastest * _MEMORY_BOUND_RATIO >= end:
        free = f"{end:,} leaves {record.spec.headroom_pct:g} % of it free, and " if end >= fastest else ""
        yield f"Memory, not speed, ended the search: {free}more would be {better}."
    elif fastest == record.spec.high:
        yield f"{fastest:,} is the largest value allowed; more may be {better}."


def _unmeasured_warnings(record: Record) -> Iterator[str]:
    """Yields a sentence on each value, and one on the slots, that were not measured."""
    if record.other_models:
        names = ", ".join(f"{slot.name} ({model_of(slot)})" for slot in record.other_models)
        yield f"Not measured, as rates of different models cannot be compared: {names}."
    largest = max(record.ran, default=0)
    for value in sorted(value for value in record.failed if value < largest):
        yield f"{value:,} did not run, though {largest:,} did."
    for value in sorted(record.unmeasured):
        yield f"{value:,} could not be measured undisturbed."
