"""Charts of metrics over time, one above the other on one time axis, as rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Final, NamedTuple, TypeAlias

from gmg_tui.model import units
from gmg_tui.ui.canvas import AXIS_ROWS, GUTTER, Canvas, axis, bottom_axis, fitted
from gmg_tui.ui.drawing import Row, Values

Reduction: TypeAlias = Callable[[Sequence[float]], float]
"""Reduces the known values that share a column: the mean for rate, load and power, as a column stands for all of its
time; the maximum for memory, which a short peak can exhaust."""

_ROWS_PER_STEP: Final = 3
"""Rows of a chart from one labelled value to the next, at least."""
_TICK_CELLS: Final = 12
"""Cells from one labelled time to the next, at least."""
_TIMES_S: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


class Track(NamedTuple):
    """One chart of the stack."""

    title: str
    now: str
    """The newest value with its unit."""
    values: Values
    high: float | None
    """The value at the upper edge, with 0 at the lower one; None to fit the axis to the values."""
    unit: str
    style: str
    how: Reduction
    missing: str
    """Shown in the chart when none of the values is known."""


def least_height(tracks: int) -> int:
    """Returns the rows that this number of charts needs to be readable."""
    return tracks * 3 + AXIS_ROWS


def stack(tracks: Sequence[Track], *, width: int, height: int, end: float, step_s: float) -> list[Row]:
    """Returns the charts, each under its title, then the time axis: exactly `height` lines of `width` cells.

    All tracks have the same number of values, `step_s` seconds apart; the axis begins with the first one that is known.
    `height` is at least `least_height`, and `end` is the Unix time of the last value.
    """
    plot = width - GUTTER
    room = height - AXIS_ROWS - len(tracks)
    count = max((len(track.values) for track in tracks), default=0)
    starts = (next((at for at, value in enumerate(track.values) if value is not None), count) for track in tracks)
    first = min(min(starts, default=0), max(0, count - 1))
    ticks = _time_ticks(plot, step_s * max(1, count - first), end)
    rows: list[Row] = []
    for number, track in enumerate(tracks):
        shown = track._replace(values=track.values[first:])
        rows.append(_heading(shown, width))
        rows += _body(shown, plot, room // len(tracks) + (number < room % len(tracks)), list(ticks))
    return rows + bottom_axis(plot, ticks)


def _heading(track: Track, width: int) -> Row:
    """The title, the newest value, and the range of the values shown."""
    known = [value for value in track.values if value is not None]
    row = Row(width).add(track.title, track.style).add(f"  {track.now}")
    if known:
        least, mean, most = (_with_unit(value, track.unit) for value in (min(known), fmean(known), max(known)))
        detail = f"   lowest {least}  mean {mean}  highest {most}"
        row.add(detail if len(detail) <= row.room else "", "dim")
    return row


def _with_unit(value: float, unit: str) -> str:
    return f"{value:.{int(unit == 'GiB')}f} {unit}" if unit else units.short(value)


def _body(track: Track, plot: int, height: int, columns: Sequence[int]) -> list[Row]:
    canvas, known = Canvas(plot, height), [value for value in track.values if value is not None]
    if not known:
        canvas.put(1, height // 2, track.missing, "dim")
        return canvas.rows({})
    steps = max(1, (height - 1) // _ROWS_PER_STEP)
    scale = fitted(known, steps) if not track.high else axis(0.0, track.high, steps)
    labels = {
        round((1 - scale.fraction(tick)) * (height * 4 - 1)) // 4: f"{scale.label(tick)} {track.unit}".rstrip()
        for tick in scale.ticks
    }
    canvas.grid(labels, columns)
    fractions = [
        None if value is None else scale.fraction(value) for value in spread(track.values, 2 * plot, track.how)
    ]
    canvas.line(fractions, [track.style] * plot)
    return canvas.rows(labels)


def spread(values: Values, columns: int, how: Reduction) -> list[float | None]:
    """Returns exactly `columns` values for `values`, evenly in time.

    `how` reduces the known values that share a column; a column without any is unknown. Fewer values than columns are
    repeated, so that they fill the width.
    """
    count = len(values)
    if count <= columns:
        return [values[column * count // columns] for column in range(columns)] if count else [None] * columns
    reduced: list[float | None] = []
    for column in range(columns):
        shared = values[column * count // columns : (column + 1) * count // columns]
        present = [value for value in shared if value is not None]
        reduced.append(how(present) if present else None)
    return reduced


def _time_ticks(width: int, seconds: float, end: float) -> dict[int, str]:
    """Returns the labels of the time axis by column: the clock at its end, before it round spans of time."""
    step_s = next((each for each in _TIMES_S if each / seconds * width >= _TICK_CELLS), 86400 * 7)
    ticks = {width - 1: time.strftime("%H:%M:%S", time.localtime(end))}
    for number in range(1, int(seconds / step_s) + 1):
        ticks[max(0, width - 1 - round(number * step_s / seconds * (width - 1)))] = f"−{units.span(number * step_s)}"
    return ticks
