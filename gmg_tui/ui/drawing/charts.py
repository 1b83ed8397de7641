"""Charts of metrics over time, as rows of text: pure functions, no widget.

A chart is filled from its lower edge, in braille dots: two columns and four rows in each cell. An unknown value leaves a
gap; a value at or below the lower edge still draws the lowest dot, so that zero and "unknown" differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Final, TypeAlias

Values: TypeAlias = Sequence[float | None]
"""Values at even steps, oldest first."""
Reduction: TypeAlias = Callable[[Sequence[float]], float]
"""Makes one value of the known ones that share a column: the mean for throughput, load and power, where a column
stands for all of its time; the maximum for memory, where even a short peak can exhaust it."""

POINTS_PER_CELL: Final = 2
"""Values that one cell shows side by side."""
_ROWS: Final = 4
_LEFT: Final = (0x00, 0x40, 0x44, 0x46, 0x47)
_RIGHT: Final = (0x00, 0x80, 0xA0, 0xB0, 0xB8)
_BRAILLE: Final = 0x2800
_STEPS: Final = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


def reduce(values: Values, columns: int, how: Reduction) -> list[float | None]:
    """Exactly `columns` values for `values`.

    More values than columns are distributed evenly, each to exactly one column, and `how` reduces those of a column;
    unknown ones are left out, and a column of nothing else is unknown. Fewer are put at the right, after unknown ones.
    """
    count = len(values)
    if count <= columns:
        return [None] * (columns - count) + list(values)
    reduced: list[float | None] = []
    for column in range(columns):
        shared = values[column * count // columns : (column + 1) * count // columns]
        known = [value for value in shared if value is not None]
        reduced.append(how(known) if known else None)
    return reduced


def ceiling(value: float) -> float:
    """The least round number (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8 times a power of ten) that is not below `value`."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in _STEPS if step * power >= value), 10 * power)


def chart(values: Values, *, width: int, height: int, high: float, how: Reduction = fmean) -> list[str]:
    """A filled chart of `height` rows of `width` cells, upper one first.

    Its lower edge is 0; values outside 0 to `high` are drawn at the nearer edge.
    """
    filled = [_filled(value, high, height * _ROWS) for value in reduce(values, width * POINTS_PER_CELL, how)]
    return [_braille([max(0, min(_ROWS, level - row * _ROWS)) for level in filled]) for row in reversed(range(height))]


def _filled(value: float | None, high: float, steps: int) -> int:
    """How many of `steps` the column of `value` fills."""
    if value is None or math.isnan(value):
        return 0
    return max(1, round(max(0.0, min(1.0, value / high)) * steps))


def _braille(levels: Sequence[int]) -> str:
    pairs = zip(levels[::2], levels[1::2], strict=True)
    return "".join(chr(_BRAILLE + _LEFT[left] + _RIGHT[right]) if left or right else " " for left, right in pairs)
