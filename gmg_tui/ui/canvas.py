"""The parts of charts and curves: an axis in round steps, and cells to draw on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from statistics import fmean
from typing import Final, NamedTuple

from gmg_tui.ui.drawing import Piece, Row, Values, braille_line

GUTTER: Final = 9
"""Cells left of a plot, for the labels of its axis and the line."""
AXIS_ROWS: Final = 2
"""Rows below a plot, for the line and the labels of its axis."""
_SCALES: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_MAX_DECIMALS: Final = 6
_MIN_SPAN: Final = 0.02
_MIN_POSITIVE: Final = 1e-300
"""Smaller spans cannot be divided."""
_OUTLIERS: Final = 0.05
_PAD: Final = 0.05
_LABELLED: Final = 1e15
"""Greater values are labelled in scientific notation."""


class Axis(NamedTuple):
    """A linear axis with ticks at round values."""

    low: float
    high: float
    step: float

    def fraction(self, value: float) -> float:
        """Returns the place of a value, from 0 at the low end to 1; beyond the ends too."""
        return (value - self.low) / (self.high - self.low)

    @property
    def ticks(self) -> list[float]:
        """The round values from the low end to the high one."""
        first, last = math.ceil(self.low / self.step - 1e-9), math.floor(self.high / self.step + 1e-9)
        return [number * self.step for number in range(first, last + 1)]

    def label(self, value: float) -> str:
        """Returns a value with as many decimals as tell neighbouring ticks apart."""
        most = max(abs(self.low), abs(self.high))
        if most >= _LABELLED:
            return f"{value:.1e}"
        scale, letter = next(each for each in _SCALES if most >= each[0] or each[0] == 1)
        decimals = max(0, -math.floor(math.log10(self.step / scale) + 1e-9))
        if not math.isclose(round(self.step / scale, decimals), self.step / scale):
            decimals += 1  # steps of 2.5
        text = f"{value / scale:.{decimals}f}{letter}" if decimals < _MAX_DECIMALS else f"{value:.3g}"
        return text if value else "0"


def axis(low: float, high: float, intervals: int) -> Axis:
    """Returns the axis from `low` to `high` whose ticks are at least two, and about `intervals` and one."""
    power = 10.0 ** math.floor(math.log10(high - low))
    steps = (step * power * scale for scale in (1.0, 0.1, 0.01) for step in (5.0, 2.5, 2.0, 1.0))
    fitting = [each for step in steps if len((each := Axis(low, high, step)).ticks) <= max(3, intervals + 1)]
    return fitting[-1]


def fitted(values: Iterable[float], intervals: int) -> Axis:
    """Returns an axis for these values that begins at 0, unless they are all far above it.

    It covers at least 2 % of the greatest one, as noise must not look like a change, and leaves out a few of the lowest
    values, such as the rates of a start.
    """
    known = sorted(values) or [0.0]
    low, high = known[int(_OUTLIERS * (len(known) - 1))], known[-1]
    missing = max(0.0, _MIN_SPAN * abs(high) - (high - low)) / 2
    pad = _PAD * (high - low) + missing
    low, high = (0.0 if 0 <= low <= high / 2 else low - pad), high + pad
    return axis(low, high if high - low > _MIN_POSITIVE else low + 1.0, intervals)


class Canvas:
    """Cells with a character and a style each."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._cells = [[(" ", "text")] * width for _ in range(height)]

    def put(self, column: int, row: int, text: str, style: str) -> None:
        """Writes a text; what lies outside is cut."""
        for at, character in enumerate(text, column):
            if 0 <= at < self.width and 0 <= row < self.height:
                self._cells[row][at] = (character, style)

    def grid(self, rows: Iterable[int], columns: Iterable[int]) -> None:
        """Draws faint lines."""
        lines, crossing = set(columns), set(rows)
        for row in range(self.height):
            for column in range(self.width) if row in crossing else lines:
                sign = "┼" if row in crossing and column in lines else "┈" if row in crossing else "┊"
                self.put(column, row, sign, "border")

    def line(self, fractions: Values, styles: Sequence[str]) -> None:
        """Draws a braille line over what is there, with the style of each column."""
        for number, row in enumerate(braille_line(fractions, self.width, self.height)):
            for column, character in enumerate(row):
                if character != " ":
                    self.put(column, number, character, styles[column])

    def rows(self, labels: Mapping[int, str] | None = None) -> list[Row]:
        """Returns the rows, right of an axis with `labels` by row if there are any."""
        made = []
        for number, cells in enumerate(self._cells):
            row = Row(self.width if labels is None else self.width + GUTTER)
            if labels is not None:
                label = labels.get(number)
                row.add(f"{(label or '')[: GUTTER - 2]:>{GUTTER - 2}} {'│' if label is None else '┤'}", "dim")
            made.append(_add_cells(row, cells))
        return made


def _add_cells(row: Row, cells: Sequence[Piece]) -> Row:
    for style, run in groupby(cells, key=lambda cell: cell[1]):
        row.add("".join(text for text, _ in run), style)
    return row


def joined(places: Iterable[float], values: Iterable[float], dots: int) -> list[float | None]:
    """Returns `dots` values for points at `places` from 0 to 1: means of those that share a dot, joined by lines."""
    shared: dict[int, list[float]] = {}
    for place, value in zip(places, values, strict=True):
        shared.setdefault(round(place * (dots - 1)), []).append(value)
    means = sorted((dot, fmean(of)) for dot, of in shared.items())
    line: list[float | None] = [None] * dots
    for dot, value in means[:1]:
        line[dot] = value
    for (start, before), (end, value) in pairwise(means):
        for dot in range(start, end + 1):
            line[dot] = before + (value - before) * (dot - start) / (end - start)
    return line


def bottom_axis(width: int, ticks: Mapping[int, str], marks: Mapping[int, str] = {}) -> list[Row]:
    """Returns the line below a plot with ticks by column, and the labels that have room.

    `marks` are letters on the line, by column.
    """
    line, labels, free = [("─", "dim")] * width, [" "] * width, width
    for column, text in sorted(ticks.items(), reverse=True):
        line[column] = ("┬", "dim")
        start = max(0, min(width - len(text), column - len(text) // 2))
        if start + len(text) <= free:
            labels[start : start + len(text)] = text
            free = start - 1
    for column, letter in marks.items():
        line[column] = (letter, "tab")
    below = Row(width + GUTTER).to(GUTTER).add("".join(labels), "dim")
    return [_add_cells(Row(width + GUTTER).to(GUTTER - 1).add("└", "dim"), line), below]
