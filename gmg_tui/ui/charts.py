"""Charts: an axis with round steps, a canvas of cells, and stacked charts of metrics on one time axis."""

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from statistics import fmean
from typing import Final, NamedTuple, TypeAlias

from gmg_tui.model import units
from gmg_tui.ui.drawing import Row, Values, braille_line

GUTTER: Final = 9
"""Cells left of a plot, for its axis and labels."""
AXIS_ROWS: Final = 2
"""Rows below a plot, for its axis and labels."""
MIN_TICK_ROWS: Final = 3
"""Minimum rows between two labelled values."""
_SCALES: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_MAX_DECIMALS: Final = 6
_MIN_SPAN_SHARE: Final = 0.02
_MIN_AXIS_SPAN: Final = 1e-300
"""Minimum span of a fitted axis; dividing by a smaller one would overflow."""
_MIN_AXIS_SHARE: Final = 1e-9
"""Minimum span of an axis as a share of its lower end: ticks must be numbers that differ."""
_MAX_OUTLIER_SHARE: Final = 0.05
_PADDING_SHARE: Final = 0.05
_MIN_SCIENTIFIC_VALUE: Final = 1e15
"""Minimum value at an end of an axis for labels in scientific notation."""


class Axis(NamedTuple):
    """A linear axis with ticks at round values."""

    low: float
    high: float
    step: float

    def fraction(self, value: float) -> float:
        """Returns the position of a value: 0 at the low end, 1 at the high end; not clamped."""
        return (value - self.low) / (self.high - self.low)

    def row(self, value: float, height: int) -> int:
        """Returns the row of a value in a plot of `height` rows, clamped to the plot."""
        return round((1 - max(0.0, min(1.0, self.fraction(value)))) * (height * 4 - 1)) // 4

    def labels(self, height: int, unit: str = "") -> dict[int, str]:
        """Returns the labels of the ticks by row; ticks in the same row share the label of the lowest."""
        return {self.row(tick, height): f"{self.label(tick)} {unit}".rstrip() for tick in reversed(self.ticks)}

    @property
    def ticks(self) -> list[float]:
        """The round values from the low end to the high one."""
        first, last = math.ceil(self.low / self.step - 1e-9), math.floor(self.high / self.step + 1e-9)
        return [number * self.step for number in range(first, last + 1)]

    def label(self, value: float) -> str:
        """Formats a value with enough decimals to tell neighbouring ticks apart."""
        greatest = max(abs(self.low), abs(self.high))
        if greatest >= _MIN_SCIENTIFIC_VALUE:
            return f"{value:.1e}"
        scale, letter = next((scale, letter) for scale, letter in _SCALES if greatest >= scale or scale == 1)
        decimals = max(0, -math.floor(math.log10(self.step / scale) + 1e-9))
        if not math.isclose(round(self.step / scale, decimals), self.step / scale):
            decimals += 1  # for steps of 2.5
        text = f"{value / scale:.{decimals}f}{letter}" if decimals < _MAX_DECIMALS else f"{value:.3g}"
        return text if value else "0"


def make_axis(low: float, high: float, intervals: int) -> Axis:
    """Returns an axis from `low` to `high` with up to `intervals` + 1 ticks, or up to three if that is more."""
    if high - low < max(
        sys.float_info.min, _MIN_AXIS_SHARE * abs(low)
    ):  # such as a node's tiny power limit, or no span
        high = low + max(1.0, _MIN_AXIS_SHARE * abs(low))
    power = 10.0 ** math.floor(math.log10(high - low))
    steps = (step * power * scale for scale in (1.0, 0.1, 0.01) for step in (5.0, 2.5, 2.0, 1.0))
    axes = (Axis(low, high, step) for step in steps)
    return [axis for axis in axes if len(axis.ticks) <= max(3, intervals + 1)][-1]


def fit_axis(values: Iterable[float], intervals: int) -> Axis:
    """Returns an axis that fits these values; it starts at 0 if the lowest is at most half the greatest.

    It spans at least 2 % of the greatest value, so that noise does not look like a change, and ignores the lowest 5 %
    of the values, such as rates at the start.
    """
    ascending = sorted(values) or [0.0]
    low, high = ascending[int(_MAX_OUTLIER_SHARE * (len(ascending) - 1))], ascending[-1]
    missing_span = max(0.0, _MIN_SPAN_SHARE * abs(high) - (high - low))
    padding = _PADDING_SHARE * (high - low) + missing_span / 2
    low, high = (0.0 if 0 <= low <= high / 2 else low - padding), high + padding
    return make_axis(low, high if high - low > _MIN_AXIS_SPAN else low + 1.0, intervals)


class Canvas:
    """A grid of cells, each with a character and a style."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._cells = [[(" ", "text")] * width for _ in range(height)]

    def put(self, column: int, row: int, text: str, style: str) -> None:
        """Writes a text, clipped to the canvas."""
        for x, character in enumerate(text, column):
            if 0 <= x < self.width and 0 <= row < self.height:
                self._cells[row][x] = (character, style)

    def draw_grid(self, rows: Iterable[int], columns: Iterable[int]) -> None:
        """Draws faint lines along these rows and columns."""
        horizontal, vertical = set(rows), set(columns)
        for row in range(self.height):
            for column in range(self.width) if row in horizontal else vertical:
                character = "┊" if row not in horizontal else "┼" if column in vertical else "┈"
                self.put(column, row, character, "border")

    def draw_line(self, fractions: Values, styles: Sequence[str]) -> None:
        """Draws a braille line through `fractions` of the height, with a style for each column."""
        for number, row in enumerate(braille_line(fractions, self.width, self.height)):
            for column, character in enumerate(row):
                if character != " ":
                    self.put(column, number, character, styles[column])

    def plot(self, fractions: Values, labels: Mapping[int, str], columns: Iterable[int], style: str) -> list[Row]:
        """Draws a line on a grid of the labelled rows and these columns, and returns the rows; `labels` are by row."""
        self.draw_grid(labels, columns)
        self.draw_line(fractions, [style] * self.width)
        return self.rows(labels)

    def rows(self, labels: Mapping[int, str] | None = None) -> list[Row]:
        """Returns the rows, with an axis on the left that has these labels (by row); None for no axis."""
        rows = []
        for number, cells in enumerate(self._cells):
            row = Row(self.width if labels is None else self.width + GUTTER)
            if labels is not None:
                label = labels.get(number)
                row.add((label or "")[: GUTTER - 2].rjust(GUTTER - 2), "dim")
                row.add(" │" if label is None else " ┤", "dim")
            for style, run in groupby(cells, key=lambda cell: cell[1]):
                row.add("".join(text for text, _ in run), style)
            rows.append(row)
        return rows


def interpolate(positions: Iterable[float], values: Iterable[float], dots: int) -> list[float | None]:
    """Returns a value per dot: the mean of its points (`positions` from 0 to 1), else interpolated; None outside."""
    values_of_dots: dict[int, list[float]] = {}
    for position, value in zip(positions, values, strict=True):
        values_of_dots.setdefault(round(position * (dots - 1)), []).append(value)
    means = sorted((dot, fmean(dot_values)) for dot, dot_values in values_of_dots.items())
    line: list[float | None] = [None] * dots
    for dot, value in means[:1]:
        line[dot] = value
    for (start, first), (end, last) in pairwise(means):
        for dot in range(start, end + 1):
            line[dot] = first + (last - first) * (dot - start) / (end - start)
    return line


def bottom_axis(width: int, ticks: Mapping[int, str], marks: Mapping[int, str] = {}) -> list[Row]:
    """Returns the axis below a plot; by column, `ticks` has labels, drawn if they fit, and `marks` has letters."""
    canvas, free_end = Canvas(width, AXIS_ROWS), width
    for row, character in enumerate("─ "):
        canvas.put(0, row, character * width, "dim")
    for column, text in sorted(ticks.items(), reverse=True):
        canvas.put(column, 0, "┬", "dim")
        start = max(0, min(width - len(text), column - len(text) // 2))
        if start + len(text) <= free_end:
            canvas.put(start, 1, text, "dim")
            free_end = start - 1
    for column, letter in marks.items():
        canvas.put(column, 0, letter, "tab")
    corner, below = Row(width + GUTTER).pad_to(GUTTER - 1).add("└", "dim"), Row(width + GUTTER)
    return [row.append(cells) for row, cells in zip((corner, below.pad_to(GUTTER)), canvas.rows(), strict=True)]


# Metrics over time

Reduction: TypeAlias = Callable[[Sequence[float]], float]
"""A function that reduces the known values of a column to one: the mean for rate, load and power, the maximum for
memory, which a short peak can exhaust."""

_MIN_TICK_CELLS: Final = 12
"""Minimum cells between two labelled times."""
_TICK_INTERVALS_S: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


class Track(NamedTuple):
    """One chart of the stack."""

    title: str
    newest: str
    """The newest value with its unit."""
    values: Values
    high: float | None
    """The value at the upper edge of an axis that starts at 0; None to fit the axis to the values."""
    unit: str
    style: str
    reduce: Reduction
    empty_text: str
    """The text shown if all values are unknown."""


def stack(tracks: Sequence[Track], *, width: int, height: int, end: float, step_s: float) -> list[Row]:
    """Returns the charts, each below its title, then the time axis: exactly `height` lines of `width` cells.

    All tracks have the same number of values, `step_s` seconds apart; the axis begins at the first known value.
    `height` must be at least `AXIS_ROWS` plus three rows per track; `end` is the Unix time of the last value.
    """
    plot_width = width - GUTTER
    all_plot_rows = height - AXIS_ROWS - len(tracks)
    count = max((len(track.values) for track in tracks), default=0)
    starts = (next((index for index, value in enumerate(track.values) if value is not None), count) for track in tracks)
    first = min(min(starts, default=0), max(0, count - 1))
    ticks = _time_ticks(plot_width, step_s * max(1, count - first), end)
    rows: list[Row] = []
    for number, track in enumerate(tracks):
        shown = track._replace(values=track.values[first:])
        rows.append(_heading(shown, width))
        plot_rows = all_plot_rows // len(tracks) + (number < all_plot_rows % len(tracks))
        rows += _plot_rows(shown, plot_width, plot_rows, list(ticks))
    return rows + bottom_axis(plot_width, ticks)


def _heading(track: Track, width: int) -> Row:
    """Returns the title, the newest value, and the range of the values shown."""
    known = [value for value in track.values if value is not None]
    row = Row(width).add(track.title, track.style).add(f"  {track.newest}")
    if known:
        decimals, unit = int(track.unit == "GiB"), track.unit
        lowest, mean, highest = (
            f"{value:.{decimals}f} {unit}" if unit else units.short(value)
            for value in (min(known), fmean(known), max(known))
        )
        detail = f"   lowest {lowest}  mean {mean}  highest {highest}"
        row.add(detail if len(detail) <= row.room else "", "dim")
    return row


def _plot_rows(track: Track, width: int, height: int, columns: Sequence[int]) -> list[Row]:
    canvas, known = Canvas(width, height), [value for value in track.values if value is not None]
    if not known:
        canvas.put(1, height // 2, track.empty_text, "dim")
        return canvas.rows({})
    intervals = max(1, (height - 1) // MIN_TICK_ROWS)
    axis = fit_axis(known, intervals) if not track.high else make_axis(0.0, track.high, intervals)
    values = resample(track.values, 2 * width, track.reduce)
    fractions = [None if value is None else axis.fraction(value) for value in values]
    return canvas.plot(fractions, axis.labels(height, track.unit), columns, track.style)


def resample(values: Values, columns: int, reduce: Reduction) -> list[float | None]:
    """Resamples `values` to exactly `columns` values.

    `reduce` combines the known values of a column; a column without known values is None. If there are fewer values
    than columns, they are repeated.
    """
    starts = [column * len(values) // columns for column in range(columns + 1)]
    slices = (values[start : max(start + 1, end)] for start, end in pairwise(starts))
    known = ([value for value in column if value is not None] for column in slices)
    return [reduce(column) if column else None for column in known]


def _time_ticks(width: int, seconds: float, end: float) -> dict[int, str]:
    """Returns the labels of the time axis by column: the time of day at the end, round offsets before it."""
    step_s = next((tick_s for tick_s in _TICK_INTERVALS_S if tick_s / seconds * width >= _MIN_TICK_CELLS), 86400 * 7)
    ticks = {width - 1: units.time_of_day(end)}
    for number in range(1, int(seconds / step_s) + 1):
        ticks[max(0, width - 1 - round(number * step_s / seconds * (width - 1)))] = f"−{units.span(number * step_s)}"
    return ticks
