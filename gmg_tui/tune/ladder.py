"""The way up: ever greater values while that makes it faster."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gmg_tui.model.tuning import TrialState, TuneSpec
from gmg_tui.tune.limits import FOR_THE_KNEE, Limits
from gmg_tui.tune.record import Record

FEW = 10
"""Of so few values each is tried."""
_AHEAD = 4
"""Values that may be on their way before those below them are known."""
_MANY, _SPARE = 4, 2
"""With so many idle slots, so many of them measure what stands beside the steps."""
_BLIND = 16
"""How many times the greatest value is tried where memory says nothing."""
_BEYOND = 2
"""How many times as much as would surely fit is tried."""
_DEAR_S = 90.0
"""A start that takes longer, though it is not the first, has compiled."""
_CLOSE = 1.5
"""An end that is nearer to the value before is no step of the ladder."""


def exhaustive(spec: TuneSpec) -> bool:
    """Whether each value is tried."""
    return spec.high is not None and spec.high - spec.low < FEW


def upward(record: Record, limits: Limits, idle: int) -> list[int]:
    """The next values, the least first, for so many idle slots; none where the ladder has ended."""
    if exhaustive(record.spec):
        return _each(record, limits)
    curve = record.curve
    if curve.saturated():
        return []
    top = curve.top.value
    factor, ahead = (4, _AHEAD) if curve.proportional() or _dear(record) else (2, _AHEAD // 2)
    steps = _steps(top, factor, ahead, limits, record.given_up)
    reach = max(_reach(record, top, idle), *steps[:1], 0)
    steps = [value for value in steps if value <= reach]
    spare = max(0, min(_SPARE, idle - len(steps))) if idle >= _MANY else 0
    tried = record.values
    beside = [value for value in _beside(top, factor, steps, limits) if value <= reach and value not in tried]
    return (steps + beside[:spare])[: max(0, limits.room - FOR_THE_KNEE)]


def _dear(record: Record) -> bool:
    """Whether each value compiles anew (Genesis' `performance_mode`), so that fewer are better."""
    _, *later = [trial.start_s for trial in record.of(TrialState.MEASURED)]
    known = [start_s for start_s in later if start_s is not None]
    return bool(known) and min(known) > _DEAR_S


def _beside(top: int, factor: int, steps: Sequence[int], limits: Limits) -> list[int]:
    """What idle slots measure along with these steps: the end, if it is near the last, and the halves of steps of x4."""
    if not steps:
        return []
    near_end = limits.end is not None and steps[-1] < limits.end < _CLOSE * steps[-1]
    end = [limits.end] if near_end and limits.end is not None else []
    halves = [step // 2 for step in reversed(steps)] if factor > 2 and len(steps) > 3 else []
    return end + [half for half in halves if half > top]


def _each(record: Record, limits: Limits) -> list[int]:
    spec = record.spec
    stop = min(bound for bound in (limits.ceiling, (limits.end or spec.low) + 1) if bound is not None)
    known = record.ran | record.failed | record.in_flight
    return [value for value in range(spec.low, stop) if value not in known and record.usable(value)]


def _steps(top: int, factor: int, ahead: int, limits: Limits, given_up: set[int]) -> list[int]:
    found: list[int] = []
    value = top
    while len(found) < ahead:
        above = value * factor
        if limits.end is not None and above > limits.end:
            above = limits.end if limits.end >= _CLOSE * value else 0
        if above <= value or (limits.ceiling is not None and above >= limits.ceiling):
            break
        if above not in given_up:
            found.append(above)
        value = above
    return found


def _reach(record: Record, top: int, idle: int) -> float:
    """The greatest value that is tried before more is known.

    An out-of-memory trial costs its start on a slot that would be idle: with one or two slots the next step, with each
    two more another step. Where memory is not known, as on a CPU, the machine itself might suffer: x16 at most.
    """
    line = record.memory_line
    if line is not None and line.per_unit_mib > 0:
        return math.inf
    steps = min((idle + 1) // 2, _AHEAD)
    return top * min(math.pow(4, max(1, steps)), max(_BLIND, _by_first(record, top)))


def _by_first(record: Record, top: int) -> float:
    """How many times the greatest value would fit if memory grew from nothing: less than what does fit."""
    totals = [slot.memory_total_mib for slot in record.slots.values()]
    used = [trial.memory_mib for trial in record.of(TrialState.MEASURED) if trial.value == top]
    known = [mib for mib in used if mib]
    if not known or None in totals:
        return 0
    return _BEYOND * min(total for total in totals if total is not None) / max(known)
