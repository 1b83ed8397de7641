"""Charts of metrics over time, one above the other on one axis, as lines of styled text: pure functions, no widget.

Each chart is filled from its lower edge, which is 0; an unknown value leaves a gap.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from textual.content import Content

from gmg_tui import units
from gmg_tui.ui.drawing.row import history_rows

Values: TypeAlias = Sequence[float | None]
"""Values at even steps, oldest first."""
Reduction: TypeAlias = Callable[[Sequence[float]], float]
"""Makes one value of the known ones that share a column: the mean for throughput, load and power, where a column
stands for all of its time; the maximum for memory, where even a short peak can exhaust it."""

_STEPS: Final = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
_GUTTER: Final = 9
"""Cells left of the charts, for the labels of their edges and the line."""
_AXIS_ROWS: Final = 2
_LABEL_GAP: Final = 14
"""Least number of cells between two labels of the time axis."""
_DIM: Final = "$text-muted"
_INTERVALS_S: Final = tuple(
    [1, 2, 5, 10, 15, 30]
    + [60 * minutes for minutes in (1, 2, 5, 10, 15, 30)]
    + [3600 * hours for hours in (1, 2, 3, 6, 12)]
    + [86400 * days for days in (1, 2, 7, 14, 28)]
)


class Track(NamedTuple):
    """One chart of the stack."""

    title: str
    now: str
    """The newest value with its unit, beside the title."""
    values: Values
    high: float
    """The value at the upper edge; the lower edge is 0."""
    label: Callable[[float], str]
    """Formats the value of an edge."""
    style: str
    """As in Textual's CSS: `$accent`."""
    how: Reduction
    missing: str
    """Shown in the chart when none of the values is known."""


def least_height(tracks: int) -> int:
    """Rows that a stack of so many charts needs to be readable."""
    return tracks * 3 + _AXIS_ROWS


def stack(tracks: Sequence[Track], *, width: int, height: int, end: float, step_s: float) -> list[Content]:
    """The charts, each under its title, then the time axis: exactly `height` lines of `width` cells.

    All tracks have the same number of values, `step_s` seconds apart. `height` is at least `least_height`, and `end`,
    the Unix time of the last value, is written as local time at the right end of the axis.
    """
    plot = width - _GUTTER
    room = height - _AXIS_ROWS - len(tracks)
    lines: list[Content] = []
    for number, track in enumerate(tracks):
        lines.append(Content.assemble((track.title, f"bold {track.style}"), f" {track.now}"))
        lines += _body(track, plot, room // len(tracks) + (number < room % len(tracks)))
    count = max((len(track.values) for track in tracks), default=0)
    return lines + _axis(plot, step_s * max(1.0, count / plot), end)


def _body(track: Track, plot: int, height: int) -> list[Content]:
    labels = [track.label(track.high), *[""] * (height - 2), track.label(0.0)]
    if all(value is None for value in track.values):
        rows, style = [""] * height, _DIM
        rows[height // 2] = f" {track.missing}"
    else:
        rows, style = history_rows(reduce(track.values, plot, track.how), track.high, plot, height), track.style
    pairs = zip(labels, rows, strict=True)
    return [Content.assemble((f"{label:>{_GUTTER - 1}}│", _DIM), (row, style)) for label, row in pairs]


def _axis(plot: int, cell_s: float, end: float) -> list[Content]:
    """The line with its ticks, and under it how long ago ticks are; the clock at the right end."""
    line = [("─", _DIM)] * plot
    clock = time.strftime("%H:%M:%S", time.localtime(end))
    labels = list(clock.rjust(_GUTTER + plot))
    interval_s = next((s for s in _INTERVALS_S if s >= cell_s * _LABEL_GAP), _INTERVALS_S[-1])
    ago_s = interval_s
    while (cell := plot - 1 - round(ago_s / cell_s)) >= 0:
        label = f"-{units.span(ago_s)}"
        start = _GUTTER + cell - len(label) // 2
        if start + len(label) < len(labels) - len(clock):
            line[cell] = ("┬", _DIM)
            labels[start : start + len(label)] = label
        ago_s += interval_s
    axis = Content.assemble((" " * (_GUTTER - 1) + "╰", _DIM), *line)
    return [axis, Content.styled("".join(labels), _DIM)]


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
        present = [value for value in shared if value is not None]
        reduced.append(how(present) if present else None)
    return reduced


def ceiling(value: float) -> float:
    """The least round number (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8 times a power of ten) that is not below `value`."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in _STEPS if step * power >= value), 10 * power)
