"""The tab with reported metrics and their recent history, above facts about the worker and its GPU."""

import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from textual.app import ComposeResult
from textual.containers import Vertical

from gmg_tui.model import Curve, Point, units
from gmg_tui.model.curves import rank
from gmg_tui.results.column import Column
from gmg_tui.ui.charts import AXIS_ROWS, GUTTER, MIN_TICK_ROWS, Canvas, bottom_axis, fit_axis, interpolate, make_axis
from gmg_tui.ui.drawing import Row, braille_line
from gmg_tui.ui.facts import Fact, Facts
from gmg_tui.ui.rows import Lines
from gmg_tui.ui.table import Table

HISTORY_POINTS: Final = 32
"""Points of each metric's sparkline, two per cell."""
_MIN_WIDTH, _MIN_HEIGHT = 24, 5
"""Minimum size of a chart, in cells."""
_MIN_TICK_CELLS: Final = 16
"""Minimum cells between two labelled steps."""


class NamedCurve(NamedTuple):
    """A metric's name and curve."""

    name: str
    curve: Curve

    @property
    def group(self) -> str:
        """The name up to the first slash, as in TensorBoard; empty without one."""
        return self.name.partition("/")[0] if "/" in self.name else ""

    @property
    def best(self) -> Point | None:
        """The highest value, or the lowest if lower is better; None if unknown."""
        return self.curve.best(self.name)


def _sparkline(metric: NamedCurve) -> str | None:
    """Returns a sparkline of a metric, scaled to the values; None if all are equal."""
    values = [point.value if math.isfinite(point.value) else None for point in metric.curve.points]
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    if not high - low > 0:
        return None
    fractions = [None if value is None else value / (high - low) - low / (high - low) for value in values]
    return braille_line(fractions, (len(values) + 1) // 2, 1)[0]


_COLUMNS: Final = (
    Column[NamedCurve]("group", lambda metric: metric.group or None, align_left=True, max_width=24),
    Column[NamedCurve](
        "metric", lambda metric: metric.name.removeprefix(f"{metric.group}/"), align_left=True, max_width=36
    ),
    Column[NamedCurve]("value", lambda metric: metric.curve.last),
    Column[NamedCurve]("history", _sparkline, align_left=True),
    Column[NamedCurve]("best", lambda metric: metric.best and metric.best.value),
    Column[NamedCurve]("best_step", lambda metric: metric.best and metric.best.step, "at step"),
    Column[NamedCurve]("lowest", lambda metric: metric.curve.lowest and metric.curve.lowest.value),
    Column[NamedCurve]("highest", lambda metric: metric.curve.highest and metric.curve.highest.value),
)


def sort_metrics(curves: Mapping[str, Curve]) -> list[NamedCurve]:
    """Returns the metrics sorted by group; groups with rewards come first."""
    ranks: dict[str, int] = {}
    for metric in (named := [NamedCurve(*item) for item in curves.items()]):
        ranks[metric.group] = min(rank(metric.name), ranks.get(metric.group, rank(metric.name)))
    return sorted(named, key=lambda metric: (ranks[metric.group], metric.group, rank(metric.name), metric.name))


class MetricsTab(Vertical):
    """A table of metrics above the worker's facts, or the chart of one metric."""

    DEFAULT_CSS = """
    MetricsTab {
        & > Table { height: auto; min-height: 2; max-height: 60%; }
        & > Facts, & > Lines { height: 1fr; padding: 0 1; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.table = Table(_COLUMNS, key=lambda metric: metric.name)
        self.table.can_focus = False
        self._facts, self._chart_lines = Facts(block_width=44), Lines(self._chart_rows)
        self._curves: Mapping[str, Curve] = {}
        self.chart = ""
        """The name of the metric whose chart is shown; empty for the table."""

    def compose(self) -> ComposeResult:
        """Yields the table, the facts and the chart."""
        self._chart_lines.display = False
        yield from (self.table, self._facts, self._chart_lines)

    def show(self, curves: Mapping[str, Curve], facts: Iterable[Fact], empty_text: str) -> None:
        """Shows the metrics (`empty_text` if there are none) above the facts, or only the chart if one is selected."""
        self._curves, self.table.empty = curves, empty_text
        self._chart_lines.display = bool(self.chart)
        self.table.display = self._facts.display = not self.chart
        self._chart_lines.show((self.chart, curves.get(self.chart)))
        self.table.show(sort_metrics(curves))
        self._facts.show(facts)

    def _chart_rows(self, width: int, height: int) -> list[Row]:
        curve = self._curves.get(self.chart)
        if curve is None:
            return [Row(width).add(f"{self.chart}: not reported here", "dim")]
        return chart_rows(self.chart, curve, width, height)

    def toggle_chart(self) -> None:
        """Switches between the table and the selected metric's chart; the next `show` draws it."""
        self.chart = "" if self.chart or self.table.selected is None else self.table.selected.name

    @property
    def text(self) -> str:
        """The cells of the metric under the cursor, to copy."""
        return self.table.text

    def action_go(self, direction: str) -> None:
        """Moves the cursor; beyond the last metric, scrolls the facts."""
        is_up = direction in {"line-up", "up", "home"}
        in_facts = self._facts.scroll_y > 0 if is_up else self.table.cursor_row + 1 >= self.table.row_count
        (self._facts if in_facts else self.table).action_go(direction)


def chart_rows(name: str, curve: Curve, width: int, height: int) -> list[Row]:
    """Returns the chart of a metric over the script's steps, or over time if some values have no step."""
    plot, height = width - GUTTER, height - AXIS_ROWS - 1
    points = [point for point in curve.points if math.isfinite(point.value)]
    if plot < _MIN_WIDTH or height < _MIN_HEIGHT or not points:
        return [
            Row(width).add("The terminal is too small for a chart." if points else f"{name}: no finite value", "dim")
        ]
    by_step = all(point.step is not None for point in points)
    xs = [float(point.step or 0) if by_step else point.time - points[0].time for point in points]
    y_axis = fit_axis([point.value for point in points], max(1, height // MIN_TICK_ROWS))
    low, high = min(xs), max(xs)
    x_axis = make_axis(low, high, max(1, plot // _MIN_TICK_CELLS))
    columns = {round(x_axis.fraction(tick) * (plot - 1)): tick for tick in x_axis.ticks}
    ys = [y_axis.fraction(point.value) for point in points]
    line = interpolate([x_axis.fraction(x) for x in xs], ys, 2 * plot)
    rows = Canvas(plot, height).plot(line, y_axis.labels(height), columns, "fps")
    write = (lambda tick: x_axis.label(tick)) if by_step else units.span
    labels = {column: write(tick) for column, tick in columns.items()}
    return [_heading(name, curve, "steps" if by_step else "time", width), *rows, *bottom_axis(plot, labels)]


def _heading(name: str, curve: Curve, x_unit: str, width: int) -> Row:
    best, last = curve.best(name), curve.last
    row = Row(width).add(name, "fps").add(f"  {units.NOT_KNOWN if last is None else units.number(last)}")
    if best is not None:
        step_text = "" if best.step is None else f" at step {best.step:,}"
        row.add(
            f"   best {units.number(best.value)}{step_text}  {units.count(curve.count, 'value')} over {x_unit}", "dim"
        )
    return row
