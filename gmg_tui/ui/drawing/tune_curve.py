"""The curve of a tuning: rate over the value, on a logarithmic axis. Pure functions, no widget.

Each point has the sign and colour of its slot, and its interval where that is higher than a cell; a dotted line joins
the means of the values. Vertical lines stand where a value did not run, and where the memory ends.
"""

from __future__ import annotations

from itertools import groupby, pairwise
from statistics import fmean
from typing import Final, NamedTuple

from rich.segment import Segment
from textual.strip import Strip

from gmg_tui import units
from gmg_tui.model import Answer, Trial, TrialState, Tuning, WorkerState
from gmg_tui.tune import words
from gmg_tui.ui.drawing import tune_scale as scales
from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.drawing.tune_scale import Scale, drawable

_COLOURS: Final = ("fps", "power", "ok", "vram", "title", "text", "temperature")
_MARKS: Final = "●○◆◇■□▲△"
_GUTTER: Final = 8
"""Cells of the labels at the left, with the axis."""
_AROUND: Final = 3
"""Rows of the heading, the axis and its labels."""
_DOTS: Final = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""The dots of a braille cell: its columns, each from the top."""
_BRAILLE: Final = 0x2800


class _Frame(NamedTuple):
    """Where values and rates are drawn."""

    width: int
    height: int
    scale: Scale

    def column(self, value: int) -> int:
        """The cell of a value."""
        return max(0, min(self.width - 1, round(self.scale.x(value) * (self.width - 1))))

    def row(self, rate: float) -> int:
        """The cell of a rate: that of its dot."""
        return round(self.scale.y(rate) * (self.height * 4 - 1)) // 4


class _Canvas:
    """Cells with a character and a style's name each."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._cells: list[list[tuple[str, str]]] = [[(" ", "text")] * width for _ in range(height)]

    def put(self, column: int, row: int, text: str, style: str) -> None:
        """Write a text, as far as it is inside."""
        for at, character in enumerate(text, column):
            if 0 <= at < self.width and 0 <= row < self.height:
                self._cells[row][at] = (character, style)

    def label(self, column: int, text: str, style: str) -> None:
        """Write a text beside a column where nothing else is, as low as may be; nowhere if there is no such place."""
        for row in reversed(range(self.height)):
            for at in (column + 2, column - 1 - len(text)):
                inside = at >= 0 and at + len(text) <= self.width
                if inside and all(character == " " for character, _ in self._cells[row][at : at + len(text)]):
                    self.put(at, row, text, style)
                    return

    def segments(self, row: int, appearance: Appearance) -> list[Segment]:
        """A row as segments."""
        runs = groupby(self._cells[row], key=lambda cell: cell[1])
        return [Segment("".join(text for text, _ in run), appearance.style(style)) for style, run in runs]


def mark_of(slot: str, answer: Answer) -> tuple[str, str]:
    """The sign of a slot's points, and its style's name."""
    number = answer.slots.index(slot) if slot in answer.slots else 0
    return _MARKS[number % len(_MARKS)], _COLOURS[number % len(_COLOURS)]


def letter_of(name: str) -> str:
    """The letter by which a value that is an answer stands on the axis."""
    return name[0].upper()


def curve(
    tuning: Tuning, answer: Answer, width: int, height: int, appearance: Appearance, *, chosen: int | None = None
) -> list[Strip]:
    """The curve of the slots of `answer` in exactly `height` rows, with the trial whose number is `chosen` reversed."""
    points = scales.points(tuning, answer)
    heading = _heading(tuning, answer, points, width, appearance)
    scale = scales.scale(tuning, answer)
    if scale is None or width - _GUTTER < 10 or height - _AROUND < 2:
        text = "no rate yet" if not points else "no room for the curve; enlarge the terminal"
        empty = [Row(appearance, width) for _ in range(max(0, height - 1))]
        if empty:
            empty[len(empty) // 2].to((width - len(text)) // 2).add(text, "dim")
        return [heading, *(row.strip() for row in empty)][:height]
    frame = _Frame(width - _GUTTER, height - _AROUND, scale)
    canvas = _Canvas(frame.width, frame.height)
    limits = _limits(answer)
    for value, _, sign, style in limits:
        for row in range(canvas.height):
            canvas.put(frame.column(value), row, sign, style)
    _failures(canvas, frame, tuning, answer, appearance)
    _line(canvas, frame, points, appearance)
    for trial in sorted(points, key=lambda trial: trial.number == chosen):
        _point(canvas, frame, trial, answer, appearance, chosen=trial.number == chosen)
    for value, text, _, style in limits:
        canvas.label(frame.column(value), text, style)
    rows = [
        Strip([*_label(frame, row, appearance), *canvas.segments(row, appearance)], width)
        for row in range(frame.height)
    ]
    return [heading, *rows, *_axis(frame, tuning, answer, appearance)]


def _heading(tuning: Tuning, answer: Answer, points: list[Trial], width: int, appearance: Appearance) -> Strip:
    line = Row(appearance, width).add(f" {words.unit(tuning.spec)}", "strong")
    line.add(f" over {tuning.spec.variable}", "dim")
    measured = {trial.slot for trial in points}
    slots = [slot for slot in answer.slots if slot in measured]
    for slot in slots:
        mark, style = mark_of(slot, answer)
        if line.room < len(slot) + 6:
            return line.add(f" {appearance.signs.ellipsis}", "dim").strip()
        line.add(f"  {mark}", style).add(f" {slot}", "text")
    return line.strip()


def _label(frame: _Frame, row: int, appearance: Appearance) -> list[Segment]:
    """The axis at the left, with a label at its ends and in the middle."""
    top, bottom = frame.scale.top, frame.scale.bottom
    labelled = {0: top, frame.height - 1: bottom}
    if frame.height > 4:
        middle = (frame.height - 1) // 2
        labelled[middle] = top - (top - bottom) * middle / (frame.height - 1)
    text = (units.short(labelled[row]) if labelled[row] else "0") if row in labelled else ""
    axis = "┤" if text else "│"
    return [
        Segment(f"{text:>{_GUTTER - 2}} ", appearance.style("dim")),
        Segment(axis, appearance.style("border")),
    ]


def _axis(frame: _Frame, tuning: Tuning, answer: Answer, appearance: Appearance) -> list[Strip]:
    """The axis below, with the letters of the answers on it, and its labels."""
    axis, labels = _Canvas(frame.width, 1), _Canvas(frame.width, 1)
    axis.put(0, 0, "─" * frame.width, "border")
    widest = len(f"{int(2**frame.scale.right):,}")
    for value in frame.scale.ticks(tuning.spec.low, (widest + 2) / (frame.width - 1)):
        column, text = frame.column(value), f"{value:,}"
        axis.put(column, 0, "┬", "border")
        labels.put(max(0, min(frame.width - len(text), column - len(text) // 2)), 0, text, "dim")
    for name, best in reversed(words.values_of(answer, tuning.spec)):
        if best.value > 0:
            axis.put(frame.column(best.value), 0, letter_of(name), "ok")
    corner = f"{'':{_GUTTER - 1}}└"
    return [
        Strip([Segment(corner, appearance.style("border")), *axis.segments(0, appearance)], frame.width + _GUTTER),
        Strip(
            [Segment(" " * _GUTTER, appearance.style("dim")), *labels.segments(0, appearance)], frame.width + _GUTTER
        ),
    ]


def _limits(answer: Answer) -> list[tuple[int, str, str, str]]:
    """The values at which upright lines stand: where the memory ends, and the edge; each with label, sign and style."""
    found = []
    memory, edge = scales.limits(answer)
    if memory is not None:
        found.append((memory, f"memory {memory:,}", "┊", "vram"))
    if edge is not None:
        found.append((edge, f"edge {edge:,}", "╎", "error"))
    return found


def _failures(canvas: _Canvas, frame: _Frame, tuning: Tuning, answer: Answer, appearance: Appearance) -> None:
    """Mark the values that did not run."""
    sign = appearance.signs.states[WorkerState.FAILED]
    for value in scales.failures(tuning, answer):
        canvas.put(frame.column(value), 0, sign, "error")


def _line(canvas: _Canvas, frame: _Frame, points: list[Trial], appearance: Appearance) -> None:
    """Join the means of the values by dots."""
    rates: dict[int, list[float]] = {}
    for trial in points:
        if trial.rate is not None:
            rates.setdefault(trial.value, []).append(trial.rate)
    means = [(frame.scale.x(value), frame.scale.y(fmean(found))) for value, found in sorted(rates.items())]
    across, down = 2, 4
    cells: dict[tuple[int, int], int] = {}
    for (x0, y0), (x1, y1) in pairwise(means):
        begin, end = round(x0 * (frame.width * across - 1)), round(x1 * (frame.width * across - 1))
        for dot in range(begin, end + 1):
            share = (dot - begin) / (end - begin) if end > begin else 0.0
            height = round((y0 + (y1 - y0) * share) * (frame.height * down - 1))
            column, row = dot // across, height // down
            cells[column, row] = cells.get((column, row), 0) | _DOTS[dot % across][height % down]
    for (column, row), dots in cells.items():
        canvas.put(column, row, chr(_BRAILLE + dots), "border")


def _point(
    canvas: _Canvas, frame: _Frame, trial: Trial, answer: Answer, appearance: Appearance, *, chosen: bool
) -> None:
    """A trial's interval and sign; dim while it is measured."""
    if trial.rate is None:
        return
    mark, style = mark_of(trial.slot, answer)
    style = style if trial.state is TrialState.MEASURED else "dim"
    column, row = frame.column(trial.value), frame.row(trial.rate)
    ends = [frame.row(rate) for rate in (trial.rate_high, trial.rate_low) if rate is not None and drawable(rate)]
    if len(ends) == 2:
        for at in range(ends[0], ends[1] + 1):
            canvas.put(column, at, "│", style)
    canvas.put(column, row, mark, "match" if chosen else style)
