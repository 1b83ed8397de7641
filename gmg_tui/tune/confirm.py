"""The slots compared, the two best confirmed, and the winner on all slots at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from gmg_tui.model.tuning import Trial, TrialKind, TrialState
from gmg_tui.tune.curve import Curve
from gmg_tui.tune.record import TRIES, Record
from gmg_tui.tune.slots import Want

_CLOSE = 0.95
"""Only a second best that reaches this share of the best is in its way."""
_HALF = 0.5
"""Below this share of the highest rate the slots' differences may hide behind what does not depend on them."""
_PAST = 0.85
"""A value past the flat part keeps less than this share of the highest rate per value."""
_NEARLY = 0.85
"""A slow slot may hide that a value of this share of the highest rate is the fastest."""
_USUAL = 2
"""How often each of the two best is measured, on as many slots as there are."""
_APART, _MOST = 0.02, 4
"""One whose rates differ by more is measured so often."""
_LEADERS = 4
"""How many values are confirmed at most, when the order changes on the way."""


def common_value(record: Record, climbing: bool) -> int | None:
    """The value that every slot measures: well past the flat part, but small. None while that is not known yet."""
    chosen = [trial.value for trial in record.ended if trial.kind is TrialKind.COMMON]
    chosen += [plan.value for plan in record.running.values() if plan.kind is TrialKind.COMMON]
    if chosen:
        return chosen[0]
    points = record.curve.points
    flat = max(point.score / point.value for point in points)
    enough = _HALF * record.curve.best.score
    past = [point.value for point in points if point.score >= enough and point.score / point.value < _PAST * flat]
    if past or climbing:
        return past[0] if past else None
    return next(point.value for point in points if point.score >= enough)


def common(record: Record, alive: Collection[str], climbing: bool = False) -> tuple[list[Want], list[Want]]:
    """The common value on each slot that lacks it: first on those whose rates decide what comes next, then on the rest."""
    value = common_value(record, climbing)
    if len(record.slots) < 2 or value is None:
        return [], []
    lacking = [name for name in record.slots if name in alive and _lacks(record, name, value)]
    deciding = _deciding(record)
    first = [Want(value, TrialKind.COMMON, name) for name in lacking if name in deciding]
    return first, [Want(value, TrialKind.COMMON, name) for name in lacking if name not in deciding]


def leaders(record: Record) -> list[Want]:
    """The two best again, by turns, each on slots that have not measured it, first on those of the other."""
    curve = record.curve
    confirmed = {trial.value for trial in record.ended if trial.kind is TrialKind.CONFIRM}
    scores = record.scores()
    wants: list[tuple[int, Want]] = []
    two = _two(curve)
    for value in two:
        if (value not in confirmed and len(confirmed) >= _LEADERS) or not record.usable(value):
            continue
        mine = _slots_of(record, value)
        others = [name for other in two if other != value for name in _slots_of(record, other)]
        fresh = [name for name in (*others, *record.slots) if name not in mine]
        missing = range(len(mine), _USUAL if _agree(scores[value]) else _MOST)
        wants += [(turn, Want(value, TrialKind.CONFIRM, None, tuple(fresh))) for turn in missing]
    return [want for _, want in sorted(wants, key=lambda pair: pair[0])]


def together(record: Record, value: int, alive: Collection[str]) -> list[Want]:
    """The winner on all of these slots; none where all have measured it so, or it was tried twice."""
    done = [trial for trial in record.ended if trial.kind is TrialKind.TOGETHER and trial.value == value]
    measured = {trial.slot for trial in done if trial.state is TrialState.MEASURED}
    tries = max(Counter(trial.slot for trial in done).values(), default=0)
    if len(record.slots) < 2 or measured.issuperset(alive) or tries >= TRIES:
        return []
    return [Want(value, TrialKind.TOGETHER, name) for name in record.slots if name in alive]


def _agree(scores: Sequence[float]) -> bool:
    return max(scores) <= (1 + _APART) * min(scores)


def _two(curve: Curve) -> list[int]:
    best, *rest = curve.ranking()
    return [best.value, *(point.value for point in rest[:1] if point.score >= _CLOSE * best.score)]


def _slots_of(record: Record, value: int) -> list[str]:
    """Where it was measured or runs, once for each time."""
    ended = [trial.slot for trial in record.of(TrialState.MEASURED) if trial.value == value]
    return ended + [plan.slot for plan in record.running.values() if plan.value == value]


def _lacks(record: Record, slot: str, value: int) -> bool:
    here: list[Trial] = [trial for trial in record.ended if trial.slot == slot and trial.value == value]
    here = [trial for trial in here if trial.kind is not TrialKind.TOGETHER]
    running = record.running.get(slot)
    measured = any(trial.state is TrialState.MEASURED for trial in here)
    return not measured and len(here) < TRIES and (running is None or running.value != value)


def _deciding(record: Record) -> set[str]:
    """The slots that measured values which are among the fastest, or would be on a usual slot."""
    enough = _NEARLY * record.curve.best.score
    fast = {point.value for point in record.curve.points if point.score >= enough}
    return {trial.slot for trial in record.of(TrialState.MEASURED) if trial.value in fast}
