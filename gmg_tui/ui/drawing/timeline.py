"""Charts one above the other on one time axis, as lines of styled text."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from textual.content import Content

from gmg_tui import units
from gmg_tui.ui.drawing.charts import POINTS_PER_CELL, Reduction, Values, chart

GUTTER: Final = 9
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


class Mark(NamedTuple):
    """Something that happened, on the time axis."""

    at: float
    """Unix time, seconds."""
    text: str
    style: str
    """As in Textual's CSS: `$primary`."""


def least_height(tracks: int) -> int:
    """Rows that a stack of so many charts needs to be readable."""
    return tracks * 3 + _AXIS_ROWS


def stack(
    tracks: Sequence[Track], marks: Sequence[Mark] = (), *, width: int, height: int, end: float, step_s: float
) -> list[Content]:
    """The charts, each under its title, then the time axis with `marks`: exactly `height` lines of `width` cells.

    All tracks have the same number of values, `step_s` seconds apart. `height` is at least `least_height`, and `end`,
    the Unix time of the last value, is written as local time at the right end of the axis.
    """
    plot = width - GUTTER
    column_s = _column_s(max((len(track.values) for track in tracks), default=0), step_s, width)
    room = height - _AXIS_ROWS - len(tracks)
    lines: list[Content] = []
    for number, track in enumerate(tracks):
        lines.append(Content.assemble((track.title, f"bold {track.style}"), f" {track.now}"))
        lines += _body(track, plot, room // len(tracks) + (number < room % len(tracks)))
    return lines + _axis(plot, column_s * POINTS_PER_CELL, end, marks)


def resolution(count: int, step_s: float, width: int) -> str:
    """What one column of dots of a stack stands for: `1 column = 4 s`."""
    seconds = _column_s(count, step_s, width)
    return f"1 column = {units.span(seconds) if seconds >= 10 else f'{seconds:.2g} s'}"


def _column_s(count: int, step_s: float, width: int) -> float:
    """Seconds that one column of dots stands for, of `count` values."""
    columns = max(1, (width - GUTTER) * POINTS_PER_CELL)
    return step_s * max(1.0, count / columns)


def _body(track: Track, plot: int, height: int) -> list[Content]:
    labels = [""] * height
    labels[-1] = track.label(0.0)
    if height % 2 == 0 and height > 3:
        labels[height // 2] = track.label(track.high / 2)
    labels[0] = track.label(track.high)
    if all(value is None for value in track.values):
        rows, style = [""] * height, _DIM
        rows[height // 2] = f" {track.missing}"
    else:
        rows, style = chart(track.values, width=plot, height=height, high=track.high, how=track.how), track.style
    pairs = zip(labels, rows, strict=True)
    return [Content.assemble((f"{label:>{GUTTER - 1}}│", _DIM), (row, style)) for label, row in pairs]


def _axis(plot: int, cell_s: float, end: float, marks: Sequence[Mark]) -> list[Content]:
    """The line with its ticks and marks, and under it how long ago ticks are; the clock at the right end."""
    line = ["─"] * plot
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
            line[cell] = "┬"
            _write(labels, label, start)
            free = start - 1
        ago_s += interval_s
    axis = Content.assemble((" " * (GUTTER - 1) + "╰", _DIM), *_marked(line, cell_s, end, marks))
    return [axis, Content.styled("".join(labels), _DIM)]


def _marked(line: list[str], cell_s: float, end: float, marks: Sequence[Mark]) -> Iterator[tuple[str, str]]:
    """The line, with each mark from its cell on; of those that would touch, the newest."""
    free, places = len(line), list[tuple[int, Mark]]()
    for mark in sorted(marks, reverse=True):
        cell = len(line) - 1 - round((end - mark.at) / cell_s)
        start = min(cell, len(line) - len(mark.text))
        if 0 <= cell < len(line) and start >= 0 and start + len(mark.text) <= free:
            places.append((start, mark))
            free = start - 1
    done = 0
    for start, mark in reversed(places):
        yield "".join(line[done:start]), _DIM
        yield mark.text, mark.style
        done = start + len(mark.text)
    yield "".join(line[done:]), _DIM


def _write(cells: list[str], text: str, start: int) -> None:
    cells[start : start + len(text)] = text
