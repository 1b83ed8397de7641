"""The curve of a tuning run as rows: the rate against the value, on a logarithmic axis.

Each point has its slot's marker and colour, and an error bar if that is taller than a cell. A line joins the mean
rates, corrected for slow and fast slots. A cross marks a value that did not run. The best rates, among which the answer
lies, are also drawn enlarged, beside the whole curve, if there is room.
"""

import math
from collections.abc import Container, Sequence
from typing import Final

from textual.geometry import Size

from gmg_tui.model import Answer, Trial, TrialKind, TrialState, Tuning, WorkerState
from gmg_tui.results import tuning_text
from gmg_tui.ui.charts import AXIS_ROWS, GUTTER, MIN_TICK_ROWS, Axis, Canvas, bottom_axis, fit_axis, interpolate
from gmg_tui.ui.drawing import STATE_SYMBOLS, Row

_SLOT_STYLES: Final = ("fps", "warn", "ok", "vram", "title", "text", "error")
_SLOT_MARKERS: Final = "●○◆◇■□▲△"
_MIN_WIDTH, _MIN_HEIGHT = 10, 2
"""Minimum columns and rows of a plot."""
_MIN_UPPER_RATE_SHARE: Final = 0.8
"""Minimum rate in the enlarged plot, as a share of the best one."""
_MIN_UPPER_VALUES: Final = 3
"""Minimum number of values with such rates for an enlarged plot."""
_WHOLE_CURVE_SHARE: Final = 0.38
"""Share of the width for the whole curve beside the enlarged one."""
_MIN_WHOLE_CURVE_CELLS: Final = 26
"""Minimum columns of the whole curve beside the enlarged one, including the axis."""
_MIN_OCTAVES: Final = 0.1
"""Minimum range of values, in powers of two."""
_PADDING_SHARE: Final = 0.04
"""Padding at each end of the axis of values, as a share of the range of values."""
_MAX_RATE: Final = 1e15
"""Maximum rate to draw; greater ones are errors in the script."""
_MARKER_OFFSETS: Final = (0, 1, -1, 2, -2, 3, -3)
"""Column offsets to try for a marker, so that equal points are drawn side by side."""


def curve_rows(tuning: Tuning, answer: Answer, selected: int | None, width: int, height: int) -> list[Row]:
    """Returns the curve for the slots of `answer` in `height` rows; trial number `selected` is in reverse video."""
    trials = [
        trial
        for trial in tuning.trials
        if trial.kind is not TrialKind.TOGETHER and trial.slot in answer.slots and trial.value > 0
    ]
    points = sorted(filter(_is_drawable, trials), key=lambda trial: trial.number == selected)
    heading, plot_rows = _heading(tuning, answer, points, width), height - 1 - AXIS_ROWS
    if not points or width - GUTTER < _MIN_WIDTH or plot_rows < _MIN_HEIGHT:
        text = "No room for the curve: enlarge the terminal." if points else _empty_text(tuning)
        rows = [heading, *(Row(width) for _ in range(height - 1))]
        if height > 1:
            rows[(height + 1) // 2].pad_to((width - len(text)) // 2).add(text, "dim")
        return rows
    best = max(_corrected(trial, answer) for trial in points)
    upper = [trial for trial in points if _corrected(trial, answer) >= best * _MIN_UPPER_RATE_SHARE]
    values, panels = {trial.value for trial in upper}, [(trials, width)]
    whole_width = round(width * _WHOLE_CURVE_SHARE)
    may_enlarge = len(values) >= _MIN_UPPER_VALUES and best > 0 and values != {trial.value for trial in points}
    if may_enlarge and whole_width >= _MIN_WHOLE_CURVE_CELLS:
        enlarged = [
            trial for trial in trials if min(values) <= trial.value and (trial in upper or not _is_drawable(trial))
        ]
        panels = [(trials, whole_width), (enlarged, width - whole_width)]
    drawn = (_panel(tuning, answer, selected, shown, Size(columns, plot_rows)) for shown, columns in panels)
    rows = [heading]
    for panel_rows in zip(*drawn, strict=True):
        rows.append(Row(width))
        for row in panel_rows:
            rows[-1].append(row)
    return rows


def _corrected(trial: Trial, answer: Answer) -> float:
    """Returns the rate that a trial would have on a typical slot; 0 if it has none."""
    return (trial.rate or 0.0) / (answer.factors.get(trial.slot) or 1.0)


def _panel(tuning: Tuning, answer: Answer, selected: int | None, trials: Sequence[Trial], size: Size) -> list[Row]:
    """Returns a plot of these trials with its axes; `size` includes the labels on the left."""
    points = sorted(filter(_is_drawable, trials), key=lambda trial: trial.number == selected)
    plot = _Plot(size.width - GUTTER, size.height, [trial.value for trial in trials], points)
    plot.draw_line([(trial.value, _corrected(trial, answer)) for trial in points])
    for trial in trials:
        if trial.state is TrialState.FAILED:
            plot.draw_marker(plot.column(trial.value), 0, STATE_SYMBOLS[WorkerState.FAILED], "error")
    for trial in points:
        marker, style = _marker_of(trial.slot, answer)
        style = style if trial.state is TrialState.MEASURED else "dim"
        plot.draw_trial(trial, marker, style, "match" if trial.number == selected else style)
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
    """Returns True if a trial has a rate that can be drawn; NaN cannot."""
    return trial.rate is not None and abs(trial.rate) <= _MAX_RATE


def _ends(trial: Trial) -> tuple[float, float]:
    """Returns the ends of a trial's error bar; its rate twice if it has none."""
    rate = trial.rate or 0.0
    margin = abs(rate) * (trial.margin_pct or 0.0) / 100
    return (rate - margin, rate + margin) if 0 <= margin <= _MAX_RATE else (rate, rate)


class _Plot:
    """A canvas with an axis for values and one for rates."""

    def __init__(self, width: int, height: int, values: Sequence[int], points: Sequence[Trial]) -> None:
        self.canvas = Canvas(width, height)
        left, right = math.log2(min(values)), math.log2(max(values))
        missing_octaves = max(0.0, _MIN_OCTAVES - (right - left))
        left, right = left - missing_octaves / 2, right + missing_octaves / 2
        padding = (right - left) * _PADDING_SHARE
        self._value_axis = Axis(left - padding, right + padding, 1.0)
        self._occupied: set[tuple[int, int]] = set()
        ends = [rate for trial in points for rate in (trial.rate or 0.0, *_ends(trial))]
        if all((trial.rate or 0.0) >= 0 for trial in points):
            ends = [max(0.0, rate) for rate in ends]  # a long error bar may reach below zero
        self._rate_axis = fit_axis(ends if len(points) > 1 else [0.0, *ends], max(1, height // MIN_TICK_ROWS))
        self.labels = self._rate_axis.labels(height)
        self.canvas.draw_grid(self.labels, ())

    def _x(self, value: float) -> float:
        """Returns the position of a value, from 0 at the left to 1 at the right."""
        return self._value_axis.fraction(math.log2(value))

    def column(self, value: float) -> int:
        """Returns the column of a value."""
        return max(0, min(self.canvas.width - 1, round(self._x(value) * (self.canvas.width - 1))))

    def row(self, rate: float) -> int:
        return self._rate_axis.row(rate, self.canvas.height)

    def draw_line(self, points: Sequence[tuple[int, float]]) -> None:
        """Draws a line through the mean rate of each value; `points` are values with their rates."""
        positions = [self._x(value) for value, _ in points]
        fractions = [self._rate_axis.fraction(rate) for _, rate in points]
        width = self.canvas.width
        self.canvas.draw_line(interpolate(positions, fractions, 2 * width), ["dim"] * width)

    def draw_marker(self, column: int, row: int, marker: str, style: str) -> int:
        """Draws a marker, beside any others at the same position. Returns the marker's column."""
        free = (column + offset for offset in _MARKER_OFFSETS if (column + offset, row) not in self._occupied)
        column = next((candidate for candidate in free if 0 <= candidate < self.canvas.width), column)
        self._occupied.add((column, row))
        self.canvas.put(column, row, marker, style)
        return column

    def draw_trial(self, trial: Trial, marker: str, style: str, marker_style: str) -> None:
        """Draws a trial's marker in `marker_style`, and its error bar in `style`."""
        row = self.row(trial.rate or 0.0)
        column = self.draw_marker(self.column(trial.value), row, marker, marker_style)
        low, high = _ends(trial)
        for number in range(self.row(high), self.row(low) + 1):
            if (column, number) not in self._occupied:
                self.canvas.put(column, number, "│", style)

    def ticks(self, low: int) -> list[int]:
        """Returns values for the ticks: powers of two times the tuning's least value `low`, spaced to fit labels."""
        axis, first = self._value_axis, max(0.0, math.log2(max(1, low)))
        label_cells = len(f"{int(2**axis.high):,}") + 2
        octaves_per_label = label_cells / (self.canvas.width - 1) * (axis.high - axis.low)
        powers = range(max(0, math.ceil(axis.low - first)), math.floor(axis.high - first) + 1)
        step = max(1, math.ceil(octaves_per_label))
        return [max(1, low) << power for power in powers if power % step == 0]


def _marker_of(slot: str, answer: Answer) -> tuple[str, str]:
    """Returns the marker of a slot's points, and its style."""
    number = answer.slots.index(slot)
    return _SLOT_MARKERS[number % len(_SLOT_MARKERS)], _SLOT_STYLES[number % len(_SLOT_STYLES)]


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
    """Returns the letter of each answer by column; letters for the same column are put side by side."""
    marks: dict[int, str] = {}
    for name, best in tuning_text.named_values(answer, tuning.spec):
        if best.value in values:
            candidates = (plot.column(best.value) + offset for offset in _MARKER_OFFSETS)
            free = (column for column in candidates if 0 <= column < plot.canvas.width and column not in marks)
            marks[next(free, 0)] = name[0].upper()
    return marks
