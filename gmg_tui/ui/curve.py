"""The curve of a tuning as rows: the rate over the value, on a logarithmic axis.

Each point has its slot's marker and colour, and an error bar if taller than a cell; a line joins the means, corrected for
slow and fast slots; a cross marks a value that did not run. The best rates, where the answer lies, are also
drawn enlarged, beside the whole curve.
"""

import math
from collections.abc import Container, Sequence
from typing import Final

from textual.geometry import Size

from gmg_tui.model import Answer, Trial, TrialKind, TrialState, Tuning, WorkerState
from gmg_tui.results import tuning_text
from gmg_tui.ui.charts import AXIS_ROWS, GUTTER, ROWS_PER_TICK, Axis, Canvas, bottom_axis, fit_axis, interpolate
from gmg_tui.ui.drawing import STATE_SYMBOLS, Row

_COLOURS: Final = ("fps", "warn", "ok", "vram", "title", "text", "error")
_MARKERS: Final = "●○◆◇■□▲△"
_MIN_WIDTH, _MIN_HEIGHT = 10, 2
"""Minimum cells of a plot."""
_MIN_UPPER_RATE_SHARE: Final = 0.8
"""Minimum share of the best rate for the enlarged plot."""
_MIN_UPPER_VALUES: Final = 3
"""Minimum number of values with such rates to enlarge them."""
_WHOLE_SHARE: Final = 0.38
"""Share of the width for the whole curve beside the enlarged one."""
_MIN_WHOLE_CELLS: Final = 26
"""Minimum columns of the whole curve beside the enlarged one, including its axis."""
_MIN_OCTAVES: Final = 0.1
"""Minimum range of values, in powers of two."""
_PADDING_SHARE: Final = 0.04
"""Padding at both ends of the axis of values, as a share of it."""
_MAX_RATE: Final = 1e15
"""Greater rates are errors in the script."""
_MARKER_OFFSETS: Final = (0, 1, -1, 2, -2, 3, -3)
"""Column offsets to try for a marker, so that equal points are drawn side by side."""


def curve(tuning: Tuning, answer: Answer, selected: int | None, width: int, height: int) -> list[Row]:
    """Returns the curve for the slots of `answer` in `height` rows; trial number `selected` is in reverse video."""
    trials = [
        trial
        for trial in tuning.trials
        if trial.kind is not TrialKind.TOGETHER and trial.slot in answer.slots and trial.value > 0
    ]
    points = sorted(filter(_is_drawable, trials), key=lambda trial: trial.number == selected)
    heading, plot_rows = _heading(tuning, answer, points, width), height - 1 - AXIS_ROWS
    if not points or width - GUTTER < _MIN_WIDTH or plot_rows < _MIN_HEIGHT:
        text = "no room for the curve: enlarge the terminal" if points else _empty_text(tuning)
        rows = [heading, *(Row(width) for _ in range(height - 1))]
        if height > 1:
            rows[(height + 1) // 2].to((width - len(text)) // 2).add(text, "dim")
        return rows
    best = max(_corrected(trial, answer) for trial in points)
    upper = [trial for trial in points if _corrected(trial, answer) >= best * _MIN_UPPER_RATE_SHARE]
    values, panels = {trial.value for trial in upper}, [(trials, width)]
    left = round(width * _WHOLE_SHARE)
    is_part = len(values) >= _MIN_UPPER_VALUES and best > 0 and values != {trial.value for trial in points}
    if is_part and left >= _MIN_WHOLE_CELLS:
        shown = [
            trial for trial in trials if min(values) <= trial.value and (trial in upper or not _is_drawable(trial))
        ]
        panels = [(trials, left), (shown, width - left)]
    drawn = (_panel(tuning, answer, selected, shown, Size(columns, plot_rows)) for shown, columns in panels)
    rows = [heading]
    for parts in zip(*drawn, strict=True):
        rows.append(Row(width))
        for part in parts:
            rows[-1].append(part)
    return rows


def _corrected(trial: Trial, answer: Answer) -> float:
    """Returns a trial's rate, corrected to that of a typical slot."""
    return (trial.rate or 0.0) / (answer.factors.get(trial.slot) or 1.0)


def _panel(tuning: Tuning, answer: Answer, selected: int | None, trials: Sequence[Trial], size: Size) -> list[Row]:
    """Returns a plot of these trials with its axes; `size` includes the labels on the left."""
    points = sorted(filter(_is_drawable, trials), key=lambda trial: trial.number == selected)
    plot = _Plot(size.width - GUTTER, size.height, [trial.value for trial in trials], points)
    plot.join([(trial.value, _corrected(trial, answer)) for trial in points])
    for trial in trials:
        if trial.state is TrialState.FAILED:
            plot.marker(plot.column(trial.value), 0, STATE_SYMBOLS[WorkerState.FAILED], "error")
    for trial in points:
        marker, style = _marker_of(trial.slot, answer)
        style = style if trial.state is TrialState.MEASURED else "dim"
        plot.point(trial, marker, style, "match" if trial.number == selected else style)
    values = {trial.value for trial in trials}
    ticks = plot.ticks(tuning.spec.low)
    ticks = ticks if len(ticks) > 1 else sorted(values)
    labels = {plot.column(value): f"{value:,}" for value in ticks}
    return [
        *plot.canvas.rows(plot.labels),
        *bottom_axis(plot.canvas.width, labels, _answer_marks(plot, values, tuning, answer)),
    ]


def _empty_text(tuning: Tuning) -> str:
    failed = next((trial.reason for trial in tuning.trials if trial.state is TrialState.FAILED), None)
    if failed is None or any(not trial.state.ended for trial in tuning.trials):
        return "No rate yet: the first trial is being measured."
    return f"No trial was measured: {failed}."


def _is_drawable(trial: Trial) -> bool:
    """Returns True if a trial has a rate that can be drawn, which excludes NaN."""
    return trial.rate is not None and abs(trial.rate) <= _MAX_RATE


def _ends(trial: Trial) -> tuple[float, float]:
    """Returns the ends of a trial's interval; without one, its rate twice."""
    rate = trial.rate or 0.0
    half = abs(rate) * (trial.margin_pct or 0.0) / 100
    return (rate - half, rate + half) if 0 <= half <= _MAX_RATE else (rate, rate)


class _Plot:
    """Maps values and rates to a canvas."""

    def __init__(self, width: int, height: int, values: Sequence[int], points: Sequence[Trial]) -> None:
        self.canvas = Canvas(width, height)
        left, right = math.log2(min(values)), math.log2(max(values))
        missing = max(0.0, _MIN_OCTAVES - (right - left)) / 2
        left, right = left - missing, right + missing
        pad = (right - left) * _PADDING_SHARE
        self._values = Axis(left - pad, right + pad, 1.0)
        self._occupied: set[tuple[int, int]] = set()
        ends = [rate for trial in points for rate in (trial.rate or 0.0, *_ends(trial))]
        if all((trial.rate or 0.0) >= 0 for trial in points):
            ends = [max(0.0, rate) for rate in ends]  # a wide interval may reach below zero
        self._rates = fit_axis(ends if len(points) > 1 else [0.0, *ends], max(1, height // ROWS_PER_TICK))
        self.labels = self._rates.labels(height)
        self.canvas.grid(self.labels, ())

    def _x(self, value: float) -> float:
        """Returns the position of a value, from 0 at the left to 1 at the right."""
        return self._values.fraction(math.log2(value))

    def column(self, value: float) -> int:
        """Returns the column of a value."""
        return max(0, min(self.canvas.width - 1, round(self._x(value) * (self.canvas.width - 1))))

    def row(self, rate: float) -> int:
        return self._rates.row(rate, self.canvas.height)

    def join(self, points: Sequence[tuple[int, float]]) -> None:
        """Joins the mean rates of the values."""
        places, heights = [self._x(value) for value, _ in points], [self._rates.fraction(rate) for _, rate in points]
        self.canvas.line(interpolate(places, heights, 2 * self.canvas.width), ["dim"] * self.canvas.width)

    def marker(self, column: int, row: int, marker: str, style: str) -> int:
        """Draws a marker next to existing ones. Returns its column."""
        free = (column + offset for offset in _MARKER_OFFSETS if (column + offset, row) not in self._occupied)
        column = next((place for place in free if 0 <= place < self.canvas.width), column)
        self._occupied.add((column, row))
        self.canvas.put(column, row, marker, style)
        return column

    def point(self, trial: Trial, marker: str, style: str, marker_style: str) -> None:
        """Draws a trial's marker, and its error bar in `style`."""
        row = self.row(trial.rate or 0.0)
        column = self.marker(self.column(trial.value), row, marker, marker_style)
        low, high = _ends(trial)
        for number in range(self.row(high), self.row(low) + 1):
            if (column, number) not in self._occupied:
                self.canvas.put(column, number, "│", style)

    def ticks(self, low: int) -> list[int]:
        """Returns ticks for the axis: the least value `low` times powers of two, with room for their labels."""
        gap = (
            (len(f"{int(2**self._values.high):,}") + 2)
            / (self.canvas.width - 1)
            * (self._values.high - self._values.low)
        )
        first = max(0.0, math.log2(max(1, low)))
        powers = range(max(0, math.ceil(self._values.low - first)), math.floor(self._values.high - first) + 1)
        step = max(1, math.ceil(gap))
        return [max(1, low) << power for power in powers if power % step == 0]


def _marker_of(slot: str, answer: Answer) -> tuple[str, str]:
    """Returns the marker of a slot's points, and its style."""
    number = answer.slots.index(slot)
    return _MARKERS[number % len(_MARKERS)], _COLOURS[number % len(_COLOURS)]


def _heading(tuning: Tuning, answer: Answer, points: Sequence[Trial], width: int) -> Row:
    """Returns the names of the axes, and the marker of each measured slot."""
    measured = {trial.slot for trial in points}
    row = Row(width).add(f" {tuning_text.unit(tuning.spec)}", "strong").add(f" over {tuning.spec.variable}", "dim")
    for slot in answer.slots:
        if slot in measured:
            marker, style = _marker_of(slot, answer)
            row.add(f"  {marker}", style).add(f" {slot}")
    return row


def _answer_marks(plot: _Plot, values: Container[int], tuning: Tuning, answer: Answer) -> dict[int, str]:
    """Returns the letters of the answers by column, side by side if their values are equal."""
    marks: dict[int, str] = {}
    for name, best in tuning_text.named_values(answer, tuning.spec):
        if best.value in values:
            near = (plot.column(best.value) + offset for offset in _MARKER_OFFSETS)
            column = next((place for place in near if 0 <= place < plot.canvas.width and place not in marks), 0)
            marks[column] = name[0].upper()
    return marks
