"""The combinations that were run several times, as a table for the terminal and as rows for the page."""

from __future__ import annotations

from gmg_tui import tables, units
from gmg_tui.model import JobRecord
from gmg_tui.report.data import Order
from gmg_tui.results.combinations import Combination, Measure, combinations
from gmg_tui.text import clean

MAX_ROWS = 40
HEADING = "mean and spread (standard deviation) over the runs that finished"
_NAME = 40
"""The greatest width of a combination's name."""
_WRITTEN = {
    "fps_settled": ("FPS", units.fps),
    "fps_last": ("FPS last", units.fps),
    "elapsed_s": ("time", units.duration),
    "memory_peak_mib": ("VRAM peak", units.mib),
    "gpu_util_mean_pct": ("GPU %", units.whole),
    "energy_j": ("energy", units.energy),
}
"""What the table calls a column of the summary, and how it writes its values; others as they are."""
_FIRST = ("fps_settled", "elapsed_s", "memory_peak_mib")
"""The fixed columns that it has, before the results of the script."""


def ranked(jobs: list[JobRecord], order: Order) -> list[Combination]:
    """The combinations in an order, by their means; in that of their first jobs where the column has none."""
    found = combinations(jobs)
    column = order.column
    if column is None or not any(column in one.measures for one in found):
        return found
    known = [one for one in found if column in one.measures]
    known.sort(key=lambda one: one.measures[column].mean, reverse=not order.smallest_first)
    return [*known, *(one for one in found if column not in one.measures)]


def table(jobs: list[JobRecord], order: Order, width: int) -> list[str]:
    """The lines of the table, the last empty; none where nothing was run several times."""
    found = ranked(jobs, order)
    if not found:
        return []
    known = dict.fromkeys(name for one in found for name in one.measures)
    results = [name for name in known if name not in _WRITTEN]
    shown = [name for name in dict.fromkeys((order.column, *_FIRST, *results)) if name in known]
    columns = [["combination", *(tables.cut(clean(one.name.encode()), _NAME) for one in found)]]
    columns.append(["runs", *(_runs(one) for one in found)])
    for name in filter(None, shown):
        title, write = _WRITTEN.get(name, (name, _plain))
        columns.append([title, *(write(one.measures[name].mean) if name in one.measures else "–" for one in found)])
        columns.append(["±", *(_spread(one.measures.get(name)) for one in found)])
    while len(columns) > 4 and sum(tables.width(one) + tables.GAP for one in columns) - tables.GAP > width:
        del columns[-2:]
    rows = list(zip(*columns, strict=True))[: MAX_ROWS + 1]
    more = [f"and {len(found) - MAX_ROWS:,} more combinations"] if len(found) > MAX_ROWS else []
    return ["", HEADING, *tables.lines(rows, "l" + "r" * (len(columns) - 1)), *more, ""]


def _runs(one: Combination) -> str:
    return str(len(one.runs)) if one.finished == len(one.runs) else f"{one.finished} of {len(one.runs)}"


def _plain(value: float | None) -> str:
    return units.NOT_KNOWN if value is None else f"{value:.6g}"


def _spread(measure: Measure | None) -> str:
    """The spread as a share of the mean, which is the same for all units; empty where it is not known."""
    if measure is None or measure.spread is None or not measure.mean:
        return ""
    return f"{measure.spread / abs(measure.mean) * 100:.1f} %"
