"""Charts of metrics over time, and the curve of a tuning, as lines of styled text: pure functions, no widget.

The charts stand one above the other on one time axis, each filled from its lower edge, which is 0; an unknown value
leaves a gap. The curve is the rate over the value, which has a logarithmic axis: each point has the sign and colour of
its slot, and its interval where that is higher than a cell; a dotted line joins the means of the values; a cross stands
above a value that did not run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from itertools import groupby, pairwise
from statistics import fmean
from typing import Final, NamedTuple, TypeAlias

from textual.content import Content

from gmg_tui.model import Answer, Trial, TrialKind, TrialState, Tuning, WorkerState, units
from gmg_tui.results import tuning_text as tune_words
from gmg_tui.ui.drawing import SIGNS, history_rows, safe

Values: TypeAlias = Sequence[float | None]
"""Values at even steps, oldest first."""
Reduction: TypeAlias = Callable[[Sequence[float]], float]
"""Makes one value of the known ones that share a column: the mean for throughput, load and power, where a column
stands for all of its time; the maximum for memory, where even a short peak can exhaust it."""

_STEPS: Final = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
_GUTTER: Final = 9
"""Cells left of charts and curve, for the labels of their edges and the line."""
_AXIS_ROWS: Final = 2
_DIM: Final = "$text-muted"


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
    return lines + _axis(plot, step_s * max(plot, count), end)


def _body(track: Track, plot: int, height: int) -> list[Content]:
    labels = [track.label(track.high), *[""] * (height - 2), track.label(0.0)]
    if all(value is None for value in track.values):
        rows, style = [""] * height, _DIM
        rows[height // 2] = f" {track.missing}"
    else:
        rows, style = history_rows(reduce(track.values, plot, track.how), track.high, plot, height), track.style
    pairs = zip(labels, rows, strict=True)
    return [Content.assemble((f"{label:>{_GUTTER - 1}}│", _DIM), (row, style)) for label, row in pairs]


def _axis(width: int, seconds: float, end: float) -> list[Content]:
    """The line, and under it how long ago its left end and its middle are; the clock at the right end."""
    clock, half = time.strftime("%H:%M:%S", time.localtime(end)), width // 2
    labels = f"-{units.span(seconds)}".ljust(half) + f"-{units.span(seconds / 2)}"
    axis = f"{'':{_GUTTER - 1}}╰" + "─" * half + "┬" + "─" * (width - half - 1)
    return [Content.styled(line, _DIM) for line in (axis, " " * _GUTTER + labels.ljust(width - len(clock)) + clock)]


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


# The curve of a tuning

_COLOURS: Final = ("$accent", "$warning", "$success", "$secondary", "$primary", "$foreground", "$error")
_SIGNS: Final = "●○◆◇■□▲△"
_AROUND: Final = 1 + _AXIS_ROWS
"""Rows of the heading, the axis and its labels."""
_PAD: Final = 0.04
"""Room at both ends of the axis of values, as a share of it."""
_RATE_STEPS: Final = 6
"""Steps of the axis of rates, about."""
_MOST: Final = 1e15
"""A greater rate is an error of the script's."""
_DOTS: Final = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""The dots of a braille cell: its columns, each from the top."""
_BRAILLE: Final = 0x2800


def curve(tuning: Tuning, answer: Answer, selected: int | None, width: int, height: int) -> list[Content]:
    """The curve of the slots of `answer` in `height` rows, with the trial whose number is `selected` in reverse."""
    trials = [
        trial
        for trial in tuning.trials
        if trial.kind is not TrialKind.TOGETHER and trial.slot in answer.slots and trial.value > 0
    ]
    points = sorted(filter(_drawable, trials), key=lambda trial: trial.number == selected)
    heading = _heading(tuning, answer, points, width)
    if not points or width - _GUTTER < 10 or height - _AROUND < 2:
        text = "no rate yet" if not points else "no room for the curve; enlarge the terminal"
        lines = [heading, *[Content("")] * (height - 1)]
        if height > 1:
            lines[(height + 1) // 2] = Content.styled(text.center(width)[:width], _DIM)
        return lines
    plot = _Plot(width - _GUTTER, height - _AROUND, [each.value for each in trials], points)
    for trial in trials:
        if trial.state is TrialState.FAILED:
            plot.put(plot.column(trial.value), 0, SIGNS.states[WorkerState.FAILED], "$error")
    plot.join(points)
    for trial in points:
        sign, style = _sign_of(trial.slot, answer)
        plot.point(trial, sign, style if trial.state is TrialState.MEASURED else _DIM, reverse=trial.number == selected)
    return [heading, *plot.rows(), *_value_axis(plot, tuning, answer)]


def _drawable(trial: Trial) -> bool:
    """Whether a trial has a rate that can be drawn; NaN, which a script may report, compares as false."""
    return trial.rate is not None and abs(trial.rate) <= _MOST


def _ends(trial: Trial) -> tuple[float, float]:
    """The ends of a trial's interval."""
    rate = trial.rate or 0.0
    half = abs(rate) * (trial.margin_pct or 0.0) / 100
    return rate - half, rate + half


class _Plot:
    """Cells with a character and a style each, and where values and rates stand among them."""

    def __init__(self, width: int, height: int, values: Sequence[int], points: Sequence[Trial]) -> None:
        self.width, self.height = width, height
        self._cells: list[list[tuple[str, str]]] = [[(" ", "")] * width for _ in range(height)]
        left, right = math.log2(min(values)), math.log2(max(values))
        if right - left < 1:
            left, right = left - 1, right + 1
        pad = (right - left) * _PAD
        self.left, self.right = left - pad, right + pad
        rates = [rate for trial in points for rate in (trial.rate or 0.0, *_ends(trial)) if abs(rate) <= _MOST]
        least, greatest = min(rates), max(rates)
        if all((trial.rate or 0.0) >= 0 for trial in points):
            least = max(0.0, least)  # a wide interval reaches below what can be
        # Small differences are visible only where the axis does not begin at 0.
        floor = least if least < 0 or (least > greatest / 2 and len(points) > 1) else 0.0
        step = ceiling((greatest - floor if greatest > floor else abs(greatest)) / _RATE_STEPS)
        self.bottom = math.floor(floor / step) * step
        self.top = max(math.ceil(greatest / step) * step, self.bottom + step)

    def _x(self, value: int) -> float:
        """Where a value stands, from 0 at the left to 1."""
        return (math.log2(value) - self.left) / (self.right - self.left)

    def _y(self, rate: float) -> float:
        """Where a rate stands, from 0 at the top to 1; what is beyond stands at the end."""
        return max(0.0, min(1.0, (self.top - rate) / (self.top - self.bottom)))

    def column(self, value: int) -> int:
        """The column of a value."""
        return max(0, min(self.width - 1, round(self._x(value) * (self.width - 1))))

    def row(self, rate: float) -> int:
        """The row of a rate: that of its dot."""
        return round(self._y(rate) * (self.height * 4 - 1)) // 4

    def put(self, column: int, row: int, text: str, style: str) -> None:
        """Write a text, as far as it is inside."""
        for at, character in enumerate(text, column):
            if 0 <= at < self.width:
                self._cells[row][at] = (character, style)

    def join(self, points: Sequence[Trial]) -> None:
        """Join the means of the values by dots."""
        by_value = groupby(sorted(points, key=lambda trial: trial.value), key=lambda trial: trial.value)
        means = [(self._x(value), self._y(fmean(trial.rate or 0.0 for trial in trials))) for value, trials in by_value]
        cells: dict[tuple[int, int], int] = {}
        for (x0, y0), (x1, y1) in pairwise(means):
            begin, end = round(x0 * (self.width * 2 - 1)), round(x1 * (self.width * 2 - 1))
            for dot in range(begin, end + 1):
                share = (dot - begin) / (end - begin) if end > begin else 0.0
                down = round((y0 + (y1 - y0) * share) * (self.height * 4 - 1))
                cell = (dot // 2, down // 4)
                cells[cell] = cells.get(cell, 0) | _DOTS[dot % 2][down % 4]
        for (column, row), dots in cells.items():
            self.put(column, row, chr(_BRAILLE + dots), _DIM)

    def point(self, trial: Trial, sign: str, style: str, *, reverse: bool) -> None:
        """Draw a trial's interval and its sign."""
        column = self.column(trial.value)
        low, high = _ends(trial)
        if low < high <= _MOST:
            for row in range(self.row(high), self.row(low) + 1):
                self.put(column, row, "│", style)
        self.put(column, self.row(trial.rate or 0.0), sign, f"reverse {style}" if reverse else style)

    def rows(self) -> list[Content]:
        """The cells, right of the axis of rates with a label at its ends and in the middle."""
        middle = (self.height - 1) // 2
        labelled = {0: self.top, self.height - 1: self.bottom}
        if self.height > 4:
            labelled[middle] = self.top - (self.top - self.bottom) * middle / (self.height - 1)
        lines = []
        for row, cells in enumerate(self._cells):
            rate = labelled.get(row)
            label = "" if rate is None else units.short(rate) if rate else "0"
            axis = f"{label:>{_GUTTER - 2}} {'│' if rate is None else '┤'}"
            lines.append(Content.assemble((axis, _DIM), _styled(cells)))
        return lines

    def ticks(self, low: int) -> list[int]:
        """Values for the axis: the least one, `low`, times powers of two, with room for their labels."""
        gap = (len(f"{int(2**self.right):,}") + 2) / (self.width - 1) * (self.right - self.left)
        first = max(0.0, math.log2(max(1, low)))
        powers = range(max(0, math.ceil(self.left - first)), math.floor(self.right - first) + 1)
        each = max(1, math.ceil(gap))
        return [max(1, low) << power for power in powers if power % each == 0]


def _styled(cells: Sequence[tuple[str, str]]) -> Content:
    runs = groupby(cells, key=lambda cell: cell[1])
    return Content.assemble(*(("".join(text for text, _ in run), style) for style, run in runs))


def _sign_of(slot: str, answer: Answer) -> tuple[str, str]:
    """The sign of a slot's points, and its style."""
    number = answer.slots.index(slot)
    return _SIGNS[number % len(_SIGNS)], _COLOURS[number % len(_COLOURS)]


def _heading(tuning: Tuning, answer: Answer, points: Sequence[Trial], width: int) -> Content:
    measured = {trial.slot for trial in points}
    slots = [(_sign_of(slot, answer), slot) for slot in answer.slots if slot in measured]
    axes = Content.assemble(
        (f" {safe(tune_words.unit(tuning.spec))}", "bold"), (f" over {safe(tuning.spec.variable)}", _DIM)
    )
    signs = (Content.assemble(("  " + sign, style), f" {safe(slot)}") for (sign, style), slot in slots)
    return Content("").join([axes, *signs]).truncate(width, ellipsis=True)


def _value_axis(plot: _Plot, tuning: Tuning, answer: Answer) -> list[Content]:
    """The axis of values, with the letters of the answers on it, and its labels."""
    line, labels = [("─", _DIM)] * plot.width, [" "] * plot.width
    for value in plot.ticks(tuning.spec.low):
        column, text = plot.column(value), f"{value:,}"
        line[column] = ("┬", _DIM)
        if len(text) <= plot.width:
            start = max(0, min(plot.width - len(text), column - len(text) // 2))
            labels[start : start + len(text)] = text
    for name, best in reversed(tune_words.values_of(answer, tuning.spec)):
        if best.value > 0:
            line[plot.column(best.value)] = (name[0].upper(), "bold $success")
    corner = Content.styled(f"{'':{_GUTTER - 1}}└", _DIM)
    return [corner + _styled(line), Content.styled(" " * _GUTTER + "".join(labels), _DIM)]
