"""Charts one above the other on one time axis, as strips of text."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from gmg_tui import units
from gmg_tui.ui.charts import Reduction, Values, chart, is_ascii, points_per_cell
from gmg_tui.ui.look import Look

GUTTER: Final = 9
"""Cells left of the charts, for the labels of their edges and the line."""
_AXIS_ROWS: Final = 2
_LABEL_GAP: Final = 14
"""Cells between two labels of the time axis, at least."""
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
    """The newest figure with its unit, beside the title."""
    values: Values
    high: float
    """The figure at the upper edge; the lower edge is nought."""
    label: Callable[[float], str]
    """Writes the figure of an edge."""
    style: str
    """A name of `look.STYLES`."""
    how: Reduction
    missing: str
    """What stands in the chart when none of the values is known."""


def least_height(tracks: int) -> int:
    """Rows that a stack of so many charts needs to be readable."""
    return tracks * 3 + _AXIS_ROWS


def stack(tracks: Sequence[Track], *, width: int, height: int, end: float, step_s: float, look: Look) -> list[Strip]:
    """The charts, each under its title, then the time axis: exactly `height` strips of `width` cells.

    Args:
        tracks: From the top; all have the same number of values.
        width: Cells across, with the gutter.
        height: Rows; at least `least_height`.
        end: Unix time of the last value, seconds; written as local time at the right end of the axis.
        step_s: Seconds between two values.
        look: Styles and signs.
    """
    plot = width - GUTTER
    columns = plot * points_per_cell(look.signs)
    count = max((len(track.values) for track in tracks), default=0)
    column_s = step_s * max(1.0, count / columns)
    room = height - _AXIS_ROWS - len(tracks)
    strips: list[Strip] = []
    for number, track in enumerate(tracks):
        body = room // len(tracks) + (number < room % len(tracks))
        strips.append(_title(track, width, look))
        strips += _body(track, plot, body, look)
    return strips + _axis(plot, column_s * points_per_cell(look.signs), end, look)


def resolution(count: int, step_s: float, width: int, look: Look) -> str:
    """What one column of dots of a stack stands for: `1 column = 4 s`."""
    columns = max(1, (width - GUTTER) * points_per_cell(look.signs))
    seconds = step_s * max(1.0, count / columns)
    return f"1 column = {units.span(seconds) if seconds >= 10 else f'{seconds:.2g} s'}"


def _title(track: Track, width: int, look: Look) -> Strip:
    name = look.style(track.style) + Style(bold=True)
    return Strip([Segment(f"{track.title} ", name), Segment(track.now, look.style("text"))]).adjust_cell_length(
        width, look.style("text")
    )


def _body(track: Track, plot: int, height: int, look: Look) -> list[Strip]:
    dim = look.style("dim")
    labels = [""] * height
    labels[-1] = track.label(0.0)
    if height % 2 == 0 and height > 3:
        labels[height // 2] = track.label(track.high / 2)
    labels[0] = track.label(track.high)
    if all(value is None for value in track.values):
        rows = [Strip([Segment(" " * plot)], plot)] * height
        rows[height // 2] = Strip([Segment(f" {track.missing}", dim)]).adjust_cell_length(plot, dim)
    else:
        rows = chart(
            track.values,
            width=plot,
            height=height,
            low=0.0,
            high=track.high,
            style=look.style(track.style),
            signs=look.signs,
            how=track.how,
        )
    line = look.signs.line[1]
    return [
        Strip([Segment(f"{label:>{GUTTER - 1}}{line}", dim), *row], GUTTER + plot)
        for label, row in zip(labels, rows, strict=True)
    ]


def _axis(plot: int, cell_s: float, end: float, look: Look) -> list[Strip]:
    """The line with its ticks, and under it how long ago they are; the clock at the right end."""
    dim = look.style("dim")
    tick = "+" if is_ascii(look.signs) else "┬"
    line = [look.signs.line[0]] * plot
    labels = [" "] * (GUTTER + plot)
    clock = time.strftime("%H:%M:%S", time.localtime(end))
    _write(labels, clock, GUTTER + plot - len(clock))
    free = GUTTER + plot - len(clock) - 1
    interval_s = next((s for s in _INTERVALS_S if s >= cell_s * _LABEL_GAP), _INTERVALS_S[-1])
    ago_s = interval_s
    while (cell := plot - 1 - round(ago_s / cell_s)) >= 0:
        label = f"-{units.span(ago_s)}"
        start = GUTTER + cell - len(label) // 2
        if start + len(label) <= free:
            line[cell] = tick
            _write(labels, label, start)
            free = start - 1
        ago_s += interval_s
    corner = " " * (GUTTER - 1) + look.signs.corner[2]
    return [
        Strip([Segment(corner + "".join(line), dim)], GUTTER + plot),
        Strip([Segment("".join(labels), dim)], GUTTER + plot),
    ]


def _write(cells: list[str], text: str, start: int) -> None:
    cells[start : start + len(text)] = text
