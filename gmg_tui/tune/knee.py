"""The second answer: the smallest value that is nearly as fast as the fastest."""

from __future__ import annotations

from gmg_tui.tune.curve import Curve, Point
from gmg_tui.tune.record import Record
from gmg_tui.tune.values import rounded

_NEAR = 1.12
"""A measured value so near to where the curve reaches the share is the knee."""
_ABOVE = 1.02
"""How far above that place the next one is measured, so that it is likely to reach it."""


def knee(curve: Curve, knee_pct: float) -> Point:
    """The smallest measured value within `knee_pct` of the fastest."""
    return curve.points[_index(curve, knee_pct)]


def candidate(record: Record) -> int | None:
    """The value that would show a smaller knee, by the curve between its neighbours; None where none is likely."""
    curve = record.curve
    index = _index(curve, record.spec.knee_pct)
    if index == 0:
        return None
    below, found = curve.points[index - 1], curve.points[index]
    where = curve.crossing(index - 1, _target(curve, record.spec.knee_pct))
    value = rounded(where * _ABOVE)
    if found.value <= where * _NEAR or not below.value < value < found.value or not record.usable(value):
        return None
    return value


def _target(curve: Curve, knee_pct: float) -> float:
    return curve.best.score * (1 - knee_pct / 100)


def _index(curve: Curve, knee_pct: float) -> int:
    target = _target(curve, knee_pct)
    return next(index for index, point in enumerate(curve.points) if point.score >= target)
