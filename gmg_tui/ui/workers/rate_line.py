"""A worker's recent rate as a braille line around the median of comparable workers."""

from collections.abc import Iterable
from statistics import median
from typing import Final, NamedTuple

from gmg_tui.model import WorkerState
from gmg_tui.ui.charts import Canvas
from gmg_tui.ui.drawing import STATE_SYMBOLS, Row, Values, braille_line
from gmg_tui.ui.slots import SlotView

_DOTS_S: Final = (1, 2, 5)
"""Seconds per column of dots, two per cell: the first value with which the longest history fits."""
_RANGES: Final = (0.1, 0.2, 0.5)
"""Ranges of a line above and below the median, as shares of the median."""
_MAX_OUTLIER_SHARE: Final = 0.1
"""Share of values, such as those after a start, that may exceed the range before it widens."""
_SLOW: Final = -0.03
"""Deviation below which a rate is coloured as slow."""
_RESTART: Final = STATE_SYMBOLS[WorkerState.RESTARTING]


class RateLine(NamedTuple):
    """The recent rates of a worker."""

    deviations: Values
    """Deviations from the median as shares of it, two per cell."""
    now: float | None
    """The current rate's deviation; None without a rate or a median."""
    restart_cell: int | None
    """The cell where an attempt after the first started; None if not visible."""
    seconds: int
    """The time the line spans."""
    half_range: float = 0.0
    """Half the line's height as a share of the median, the same for all lines shown."""

    @property
    def cells(self) -> int:
        """The line's width in cells."""
        return len(self.deviations) // 2


def rate_lines(entries: Iterable[SlotView], cells: int) -> dict[str, RateLine]:
    """Returns the lines of workers by slot, on one scale."""
    shown = list(entries)
    longest = max((_known_s(entry) for entry in shown), default=0)
    dot_s = next((step_s for step_s in _DOTS_S if longest <= 2 * cells * step_s), _DOTS_S[-1])
    lines = {entry.slot.name: _rate_line(entry, cells, dot_s) for entry in shown}
    half_range = common_range(lines.values())
    return {name: line._replace(half_range=half_range) for name, line in lines.items()}


def _known_s(entry: SlotView) -> int:
    first = next((second for second, rate in entry.history.fps.items() if rate is not None), None)
    return 0 if first is None else entry.history.end - first + 1


def _rate_line(entry: SlotView, cells: int, dot_s: int) -> RateLine:
    """Compares the recent rates with the median of comparable workers, or else with the worker's own median.

    Columns of dots are aligned to the clock, and cells to even columns, so that the line moves by whole cells, which sends
    less over a slow connection.
    """
    worker, history = entry.worker, entry.history
    end = (history.end // dot_s | 1) + 1
    columns = range(end - 2 * cells, end)
    start = int(worker.newest.started // dot_s)
    first = columns.start if worker.job is None else start  # omits the previous job's rates
    values = [history.mean(column * dot_s, dot_s) if column >= first else None for column in columns]
    middle = entry.median_fps or median([value for value in values if value] or [0.0])
    rate = worker.current_fps
    return RateLine(
        [None if value is None or not middle else value / middle - 1 for value in values],
        rate / middle - 1 if rate is not None and middle else None,
        (start - columns.start) // 2 if worker.attempt > 1 and start in columns else None,
        2 * cells * dot_s,
    )


def deviation_style(deviation: float) -> str:
    """Returns the style of a deviation's text."""
    return "warn" if deviation < _SLOW else "dim"


def common_range(lines: Iterable[RateLine]) -> float:
    """Returns the smallest range that lines rarely exceed; ignores rates below half the median, which would flatten all."""
    widest = 0.0
    for line in lines:
        sizes = sorted(abs(value) for value in line.deviations if value is not None and value > -_RANGES[-1])
        if sizes:
            widest = max(widest, sizes[int((1 - _MAX_OUTLIER_SHARE) * (len(sizes) - 1))])
    return next((half_range for half_range in _RANGES if widest <= half_range), _RANGES[-1])


def _fractions(line: RateLine, height: int) -> Values:
    """Returns a line's positions from 0 to 1 in `height` rows, with the median on a row of dots."""
    middle, last = height * 2 - 1, height * 4 - 1
    scale = height * 2 / line.half_range / last
    return [None if value is None else 1 - middle / last + value * scale for value in line.deviations]


def line_text(line: RateLine) -> str:
    """Returns the line in one row, with the symbol of a restart."""
    (text,), at = braille_line(_fractions(line, 1), line.cells, 1), line.restart_cell
    return (text if at is None else f"{text[:at]}{_RESTART}{text[at + 1 :]}").rstrip()


def line_rows(line: RateLine, height: int) -> list[Row]:
    """Returns the line in `height` rows, slow cells in the warning style, with a restart's symbol in the lowest row."""
    pairs = list(zip(line.deviations[::2], line.deviations[1::2], strict=True))
    slow = [any(value is not None and value < _SLOW for value in pair) for pair in pairs]
    canvas = Canvas(line.cells, height)
    canvas.draw_line(_fractions(line, height), ["warn" if is_slow else "fps-graph" for is_slow in slow])
    if line.restart_cell is not None:
        canvas.put(line.restart_cell, height - 1, _RESTART, "warn")
    return canvas.rows()
