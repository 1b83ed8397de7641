"""A worker's recent rate as a braille line around the median of comparable workers."""

from collections.abc import Iterable
from statistics import median
from typing import Final, NamedTuple

from gmg_tui.model import WorkerState
from gmg_tui.ui.charts import Canvas
from gmg_tui.ui.drawing import STATE_SYMBOLS, Row, Values, braille_line
from gmg_tui.ui.slots import SlotView

_DOT_STEPS_S: Final = (1, 2, 5)
"""Possible seconds per column of dots (a cell has two): the first that fits the longest history is used."""
_HALF_RANGES: Final = (0.1, 0.2, 0.5)
"""Possible ranges of a line above and below the median, as shares of the median."""
_MAX_OUTLIER_SHARE: Final = 0.1
"""Maximum share of values, such as those just after a start, that may exceed the range."""
_SLOW_DEVIATION: Final = -0.03
"""Deviation below which a rate is coloured as slow, as a share of the median."""
_RESTART_SYMBOL: Final = STATE_SYMBOLS[WorkerState.RESTARTING]


class RateLine(NamedTuple):
    """The recent rates of a worker."""

    deviations: Values
    """Deviations from the median as shares of it, two per cell."""
    newest: float | None
    """The current rate's deviation; None without a rate or a median."""
    restart_cell: int | None
    """The cell where the newest attempt started; None for the first attempt, or if not visible."""
    seconds: int
    """The seconds that the line spans."""
    half_range: float = 0.0
    """Half the line's height as a share of the median; the same for all lines on the screen."""

    @property
    def cells(self) -> int:
        """The line's width in cells."""
        return len(self.deviations) // 2


def rate_lines(entries: Iterable[SlotView], cells: int) -> dict[str, RateLine]:
    """Returns the lines of workers by slot, `cells` wide and on one scale."""
    entries = list(entries)
    longest_s = max((_history_s(entry) for entry in entries), default=0)
    dot_s = next((step_s for step_s in _DOT_STEPS_S if longest_s <= 2 * cells * step_s), _DOT_STEPS_S[-1])
    lines = {entry.slot.name: _rate_line(entry, cells, dot_s) for entry in entries}
    half_range = common_half_range(lines.values())
    return {name: line._replace(half_range=half_range) for name, line in lines.items()}


def _history_s(entry: SlotView) -> int:
    first = next((second for second, rate in entry.history.fps.items() if rate is not None), None)
    return 0 if first is None else entry.history.end - first + 1


def _rate_line(entry: SlotView, cells: int, dot_s: int) -> RateLine:
    """Returns the recent rates compared with the median of comparable workers or, without one, with their own median.

    Columns of dots are aligned to the clock, and cells to even columns, so that the line moves by whole cells: this
    sends less over a slow connection.
    """
    worker, history = entry.worker, entry.history
    end = (history.end // dot_s | 1) + 1
    columns = range(end - 2 * cells, end)
    start = int(worker.newest.started // dot_s)
    first = columns.start if worker.job is None else start  # omits the previous job's rates
    values = [history.mean(column * dot_s, dot_s) if column >= first else None for column in columns]
    reference = entry.median_fps or median([value for value in values if value] or [0.0])
    rate = worker.current_fps
    return RateLine(
        [None if value is None or not reference else value / reference - 1 for value in values],
        rate / reference - 1 if rate is not None and reference else None,
        (start - columns.start) // 2 if worker.attempt > 1 and start in columns else None,
        2 * cells * dot_s,
    )


def deviation_style(deviation: float) -> str:
    """Returns the style of a deviation's text."""
    return "warn" if deviation < _SLOW_DEVIATION else "dim"


def common_half_range(lines: Iterable[RateLine]) -> float:
    """Returns the smallest range that lines rarely exceed, not counting rates below half the median."""
    widest = 0.0
    for line in lines:
        sizes = sorted(abs(value) for value in line.deviations if value is not None and value > -_HALF_RANGES[-1])
        if sizes:
            widest = max(widest, sizes[int((1 - _MAX_OUTLIER_SHARE) * (len(sizes) - 1))])
    return next((half_range for half_range in _HALF_RANGES if widest <= half_range), _HALF_RANGES[-1])


def _fractions(line: RateLine, height: int) -> Values:
    """Returns the heights of a line from 0 to 1 in `height` rows; the median lies on a row of dots."""
    middle, last = height * 2 - 1, height * 4 - 1
    scale = height * 2 / line.half_range / last
    return [None if value is None else 1 - middle / last + value * scale for value in line.deviations]


def line_text(line: RateLine) -> str:
    """Returns the line in one row, with the symbol of a restart."""
    (text,), cell = braille_line(_fractions(line, 1), line.cells, 1), line.restart_cell
    return (text if cell is None else f"{text[:cell]}{_RESTART_SYMBOL}{text[cell + 1 :]}").rstrip()


def line_rows(line: RateLine, height: int) -> list[Row]:
    """Returns the line in `height` rows, slow cells in the style `warn`, with a restart's symbol in the lowest row."""
    pairs = list(zip(line.deviations[::2], line.deviations[1::2], strict=True))
    slow = [any(value is not None and value < _SLOW_DEVIATION for value in pair) for pair in pairs]
    canvas = Canvas(line.cells, height)
    canvas.draw_line(_fractions(line, height), ["warn" if is_slow else "fps-graph" for is_slow in slow])
    if line.restart_cell is not None:
        canvas.put(line.restart_cell, height - 1, _RESTART_SYMBOL, "warn")
    return canvas.rows()
