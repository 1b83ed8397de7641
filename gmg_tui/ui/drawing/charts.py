"""Charts of metrics over time, as strips of text: pure functions, no widget.

A chart is filled from its lower edge, in braille dots (two columns and four rows in each cell), or in ASCII where the
signs are. An unknown value leaves a gap; a value at or below the lower edge still draws the lowest dot, so that zero
and "unknown" differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Final, TypeAlias

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from gmg_tui.ui.drawing.appearance import Signs

Values: TypeAlias = Sequence[float | None]
"""Values at even steps, oldest first."""
Reduction: TypeAlias = Callable[[Sequence[float]], float]
"""Makes one value of the known ones that share a column: the mean for throughput, load and power, where a column
stands for all of its time; the maximum for memory, where even a short peak can exhaust it."""

_ROWS: Final = 4
_LEFT: Final = (0x00, 0x40, 0x44, 0x46, 0x47)
_RIGHT: Final = (0x00, 0x80, 0xA0, 0xB0, 0xB8)
_BRAILLE: Final = 0x2800
_STEPS: Final = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


def is_ascii(signs: Signs) -> bool:
    """Whether charts with these signs are drawn in ASCII."""
    return signs.levels.isascii()


def points_per_cell(signs: Signs) -> int:
    """How many values one cell of a chart shows side by side."""
    return 1 if is_ascii(signs) else 2


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


def chart(
    values: Values,
    *,
    width: int,
    height: int,
    high: float,
    style: Style,
    signs: Signs,
    how: Reduction = fmean,
) -> list[Strip]:
    """A filled chart of `height` strips of `width` cells, upper one first.

    Its lower edge is 0; values outside 0 to `high` are drawn at the nearer edge. All of it has one style: a row is one
    segment, which is little to send over a slow line.
    """
    points = reduce(values, width * points_per_cell(signs), how)
    levels = len(signs.levels) - 1 if is_ascii(signs) else _ROWS
    filled = [_filled(value, high, height * levels) for value in points]
    draw = _ascii_row if is_ascii(signs) else _braille_row
    return [
        Strip([Segment(draw([max(0, min(levels, level - row * levels)) for level in filled], signs), style)], width)
        for row in reversed(range(height))
    ]


def _filled(value: float | None, high: float, steps: int) -> int:
    """How many of `steps` the column of `value` fills."""
    if value is None or math.isnan(value):
        return 0
    return max(1, round(max(0.0, min(1.0, value / high)) * steps))


def _braille_row(levels: Sequence[int], signs: Signs) -> str:
    pairs = zip(levels[::2], levels[1::2], strict=True)
    return "".join(chr(_BRAILLE + _LEFT[left] + _RIGHT[right]) if left or right else " " for left, right in pairs)


def _ascii_row(levels: Sequence[int], signs: Signs) -> str:
    return "".join(signs.levels[level] for level in levels)
