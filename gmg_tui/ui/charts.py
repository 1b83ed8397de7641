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
ROWS_PER_TICK: Final = 3
"""Minimum rows between two labelled values."""
_SCALES: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_MAX_DECIMALS: Final = 6
_MIN_SPAN_SHARE: Final = 0.02
_MIN_AXIS_SPAN: Final = 1e-300
"""Dividing by a smaller span would overflow."""
_MAX_OUTLIER_SHARE: Final = 0.05
_PADDING_SHARE: Final = 0.05
_MIN_SCIENTIFIC: Final = 1e15
"""Minimum value of an axis for labels in scientific notation."""


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
        """Returns the labels of the ticks by row; of ticks in the same row, only the lowest."""
        return {self.row(tick, height): f"{self.label(tick)} {unit}".rstrip() for tick in reversed(self.ticks)}

    @property
    def ticks(self) -> list[float]:
        """The round values from the low end to the high one."""
        first, last = math.ceil(self.low / self.step - 1e-9), math.floor(self.high / self.step + 1e-9)
        return [number * self.step for number in range(first, last + 1)]

    def label(self, value: float) -> str:
        """Formats a value with enough decimals to tell neighbouring ticks apart."""
        most = max(abs(self.low), abs(self.high))
        if most >= _MIN_SCIENTIFIC:
            return f"{value:.1e}"
        scale, letter = next(step for step in _SCALES if most >= step[0] or step[0] == 1)
        decimals = max(0, -math.floor(math.log10(self.step / scale) + 1e-9))
        if not math.isclose(round(self.step / scale, decimals), self.step / scale):
            decimals += 1  # for steps of 2.5
        text = f"{value / scale:.{decimals}f}{letter}" if decimals < _MAX_DECIMALS else f"{value:.3g}"
        return text if value else "0"


def axis(low: float, high: float, intervals: int) -> Axis:
    """Returns the axis from `low` to `high` with about `intervals` + 1 ticks, but at least two."""
    if high - low < sys.float_info.min:  # such as a tiny power limit from a node
        high = low + 1.0
    power = 10.0 ** math.floor(math.log10(high - low))
    steps = (step * power * scale for scale in (1.0, 0.1, 0.01) for step in (5.0, 2.5, 2.0, 1.0))
    fitting = [made for step in steps if len((made := Axis(low, high, step)).ticks) <= max(3, intervals + 1)]
    return fitting[-1]


def fit_axis(values: Iterable[float], intervals: int) -> Axis:
    """Returns an axis that fits these values, from 0 unless all are far above it.

    It spans at least 2 % of the greatest value, so that noise does not look like a change, and ignores the lowest 5 % of
    the values, such as rates at the start.
    """
    known = sorted(values) or [0.0]
    low, high = known[int(_MAX_OUTLIER_SHARE * (len(known) - 1))], known[-1]
    missing = max(0.0, _MIN_SPAN_SHARE * abs(high) - (high - low)) / 2
    pad = _PADDING_SHARE * (high - low) + missing
    low, high = (0.0 if 0 <= low <= high / 2 else low - pad), high + pad
    return axis(low, high if high - low > _MIN_AXIS_SPAN else low + 1.0, intervals)


class Canvas:
    """Cells, each with a character and a style."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._cells = [[(" ", "text")] * width for _ in range(height)]

    def put(self, column: int, row: int, text: str, style: str) -> None:
        """Writes a text, clipped to the canvas."""
        for at, character in enumerate(text, column):
            if 0 <= at < self.width and 0 <= row < self.height:
                self._cells[row][at] = (character, style)

    def grid(self, rows: Iterable[int], columns: Iterable[int]) -> None:
        """Draws faint lines along these rows and columns."""
        lines, crossing = set(columns), set(rows)
        for row in range(self.height):
            for column in range(self.width) if row in crossing else lines:
                sign = "┼" if row in crossing and column in lines else "┈" if row in crossing else "┊"
                self.put(column, row, sign, "border")

    def line(self, fractions: Values, styles: Sequence[str]) -> None:
        """Draws a braille line on top, with a style for each column."""
        for number, row in enumerate(braille_line(fractions, self.width, self.height)):
            for column, character in enumerate(row):
                if character != " ":
                    self.put(column, number, character, styles[column])

    def plot(self, fractions: Values, labels: Mapping[int, str], columns: Iterable[int], style: str) -> list[Row]:
        """Returns the rows of a line on a grid; `labels` are by row."""
        self.grid(labels, columns)
        self.line(fractions, [style] * self.width)
        return self.rows(labels)

    def rows(self, labels: Mapping[int, str] | None = None) -> list[Row]:
        """Returns the rows, with an axis at the left if there are `labels` (by row)."""
        made = []
        for number, cells in enumerate(self._cells):
            row = Row(self.width if labels is None else self.width + GUTTER)
            if labels is not None:
                label = labels.get(number)
                row.add(f"{(label or '')[: GUTTER - 2]:>{GUTTER - 2}} {'│' if label is None else '┤'}", "dim")
            for style, run in groupby(cells, key=lambda cell: cell[1]):
                row.add("".join(text for text, _ in run), style)
            made.append(row)
        return made


def interpolate(places: Iterable[float], values: Iterable[float], dots: int) -> list[float | None]:
    """Returns `dots` values for points at `places` from 0 to 1: the mean per dot, interpolated between points."""
    shared: dict[int, list[float]] = {}
    for place, value in zip(places, values, strict=True):
        shared.setdefault(round(place * (dots - 1)), []).append(value)
    means = sorted((dot, fmean(known)) for dot, known in shared.items())
    line: list[float | None] = [None] * dots
    for dot, value in means[:1]:
        line[dot] = value
    for (start, before), (end, value) in pairwise(means):
        for dot in range(start, end + 1):
            line[dot] = before + (value - before) * (dot - start) / (end - start)
    return line


def bottom_axis(width: int, ticks: Mapping[int, str], marks: Mapping[int, str] = {}) -> list[Row]:
    """Returns the axis below a plot: ticks with the labels that fit, and letters (`marks`), each by column."""
    canvas, free = Canvas(width, AXIS_ROWS), width
    for row, sign in enumerate("─ "):
        canvas.put(0, row, sign * width, "dim")
    for column, text in sorted(ticks.items(), reverse=True):
        canvas.put(column, 0, "┬", "dim")
        start = max(0, min(width - len(text), column - len(text) // 2))
        if start + len(text) <= free:
            canvas.put(start, 1, text, "dim")
            free = start - 1
    for column, letter in marks.items():
        canvas.put(column, 0, letter, "tab")
    corner = Row(width + GUTTER).to(GUTTER - 1).add("└", "dim"), Row(width + GUTTER).to(GUTTER)
    return [left.append(row) for left, row in zip(corner, canvas.rows(), strict=True)]


# Metrics over time

Reduction: TypeAlias = Callable[[Sequence[float]], float]
"""Reduces the known values of a column: the mean for rate, load and power, the maximum for memory, which a short peak
can exhaust."""

_TICK_CELLS: Final = 12
"""Minimum cells between two labelled times."""
_TICK_INTERVALS_S: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


class Track(NamedTuple):
    """One chart of the stack."""

    title: str
    now: str
    """The newest value with its unit."""
    values: Values
    high: float | None
    """The value at the upper edge of an axis from 0; None to fit the axis to the values."""
    unit: str
    style: str
    reduce: Reduction
    missing: str
    """Text shown if all values are unknown."""


def stack(tracks: Sequence[Track], *, width: int, height: int, end: float, step_s: float) -> list[Row]:
    """Returns the charts, each below its title, then the time axis: exactly `height` lines of `width` cells.

    All tracks have the same number of values, `step_s` seconds apart; the axis begins at the first known value.
    `height` has at least `AXIS_ROWS` and three rows for each track, and `end` is the Unix time of the last value.
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
        rows += _plot_rows(shown, plot, room // len(tracks) + (number < room % len(tracks)), list(ticks))
    return rows + bottom_axis(plot, ticks)


def _heading(track: Track, width: int) -> Row:
    """Returns the title, the newest value, and the range of the values shown."""
    known = [value for value in track.values if value is not None]
    row = Row(width).add(track.title, track.style).add(f"  {track.now}")
    if known:
        decimals, unit = int(track.unit == "GiB"), track.unit
        least, mean, most = (
            f"{value:.{decimals}f} {unit}" if unit else units.short(value)
            for value in (min(known), fmean(known), max(known))
        )
        detail = f"   lowest {least}  mean {mean}  highest {most}"
        row.add(detail if len(detail) <= row.room else "", "dim")
    return row


def _plot_rows(track: Track, plot: int, height: int, columns: Sequence[int]) -> list[Row]:
    canvas, known = Canvas(plot, height), [value for value in track.values if value is not None]
    if not known:
        canvas.put(1, height // 2, track.missing, "dim")
        return canvas.rows({})
    steps = max(1, (height - 1) // ROWS_PER_TICK)
    scale = fit_axis(known, steps) if not track.high else axis(0.0, track.high, steps)
    shown = resample(track.values, 2 * plot, track.reduce)
    fractions = [None if value is None else scale.fraction(value) for value in shown]
    return canvas.plot(fractions, scale.labels(height, track.unit), columns, track.style)


def resample(values: Values, columns: int, reduce: Reduction) -> list[float | None]:
    """Resamples `values` to exactly `columns` values.

    `reduce` combines the known values of a column; without any, the column is unknown. If there are fewer values than
    columns, they are repeated.
    """
    starts = [column * len(values) // columns for column in range(columns + 1)]
    parts = (values[start : max(start + 1, end)] for start, end in pairwise(starts))
    known = ([value for value in part if value is not None] for part in parts)
    return [reduce(part) if part else None for part in known]


def _time_ticks(width: int, seconds: float, end: float) -> dict[int, str]:
    """Returns the labels of the time axis by column: the time of day at the end, round offsets before it."""
    step_s = next((tick_s for tick_s in _TICK_INTERVALS_S if tick_s / seconds * width >= _TICK_CELLS), 86400 * 7)
    ticks = {width - 1: units.time_of_day(end)}
    for number in range(1, int(seconds / step_s) + 1):
        ticks[max(0, width - 1 - round(number * step_s / seconds * (width - 1)))] = f"−{units.span(number * step_s)}"
    return ticks
