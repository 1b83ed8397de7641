"""Between the values of the ladder: wherever something clearly faster may hide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from gmg_tui.model.tuning import FPS
from gmg_tui.tune import knee
from gmg_tui.tune.limits import FOR_THE_KNEE, Limits
from gmg_tui.tune.record import Record
from gmg_tui.tune.values import between

MARGIN = 0.02
"""What promises less above the fastest is not looked for."""
_NEAR = 1.03
"""Values nearer to each other are as good as one."""
_FINE = 1.1
"""What is measured on both sides is not divided finer at once."""
_AROUND = 1.25
"""How far the neighbours of the best may be from it, where the metric may be no rate."""
_JUMP = 4
"""How far beyond the greatest value the end may lie that is tried at once."""
_AT_ONCE = 4
"""Values in all gaps at once: what comes next depends on them."""


class _Gap(NamedTuple):
    """A measured value and where the next begins, with the highest score that can hide between."""

    promise: float
    low: int
    high: int
    open_end: bool
    """Whether `high` itself may be tried."""
    edge: bool
    """Whether `high` did not run."""


def inside(record: Record, limits: Limits, idle: int) -> list[int]:
    """Values to try, the most promising first, for so many idle slots."""
    gaps = _gaps(record, limits)
    parts = _shares(min(max(1, idle), _AT_ONCE), [_most(gap) for gap in gaps])
    found: list[int] = []
    for gap, count in zip(gaps, parts, strict=True):
        found += [min(gap.high, gap.low * _JUMP)] if gap.open_end else between(gap.low, gap.high, count)
    tried = record.values
    room = max(0, limits.room - (0 if knee.candidate(record) is None else FOR_THE_KNEE))
    return [value for value in found if value not in tried or _again(record, value)][:room]


def _shares(count: int, most: Sequence[int]) -> list[int]:
    """So many values shared out among gaps by turns, not more to each than it has room for."""
    shares = [0] * len(most)
    for _ in range(count):
        index = min(
            (index for index in range(len(most)) if shares[index] < most[index]), key=shares.__getitem__, default=None
        )
        if index is not None:
            shares[index] += 1
    return shares


def _most(gap: _Gap) -> int:
    """How many values are worth a trial in a gap at once."""
    if gap.open_end:
        return 1
    return max(1, math.floor(math.log(gap.high / gap.low) / math.log(_NEAR if gap.edge else _FINE)) - 1)


def _again(record: Record, value: int) -> bool:
    """Whether a value that was skipped is tried once more."""
    return value not in record.ran and value not in record.in_flight and record.usable(value)


def _gaps(record: Record, limits: Limits) -> list[_Gap]:
    curve = record.curve
    best = curve.best.value
    enough = curve.best.score * (1 + MARGIN)
    around = record.spec.metric != FPS and len(curve.points) > 2  # It may be no rate, and promise nothing that holds.
    found = []
    for index, point in enumerate(curve.points):
        if index + 1 < len(curve.points):
            end, open_end = curve.points[index + 1].value, False
        elif limits.ceiling is not None and (limits.end is None or limits.ceiling <= limits.end):
            end, open_end = limits.ceiling, False
        elif limits.end is not None:
            end, open_end = limits.end, True
        else:
            continue
        if end < point.value * _NEAR or any(point.value < value <= end for value in record.in_flight):
            continue
        promise = curve.promise(index, end)
        if promise > enough or (around and best in (point.value, end) and end > point.value * _AROUND):
            found.append(_Gap(promise, point.value, end, open_end, end == limits.ceiling))
    # The end comes first: where the time is a straight line it is the fastest, and it shows the rest of the line.
    return sorted(found, key=lambda gap: (gap.open_end, gap.promise), reverse=True)
