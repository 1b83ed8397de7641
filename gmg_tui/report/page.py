"""A report as one self-contained HTML page."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from string import Template

from gmg_tui import units
from gmg_tui.errors import GmgError
from gmg_tui.model import Tuning
from gmg_tui.report import charts, combined, gpus
from gmg_tui.report.data import Order, ReportData, choose_order, totals
from gmg_tui.report.rows import Row, rows_of
from gmg_tui.report.tuning import section
from gmg_tui.results.combinations import file_rows
from gmg_tui.results.summary import FIXED, Cell, cells, columns
from gmg_tui.store.reader import Stored
from gmg_tui.store.records import Event

_CELL = 400
"""The longest text of a cell, in characters."""
_EVENTS = 500
_CONTROLS = dict.fromkeys((*range(9), *range(14, 32), 11, 12, 127), "·")
"""What HTML has no place for: a NUL ends what some browsers read."""
_CONFIG = {"responsive": True, "displaylogo": False, "modeBarButtonsToRemove": ["lasso2d", "select2d"]}
_COMBINED = """<h2>Combinations</h2>
<p class="soft">What was run several times, with {said}.</p>
<div class="scroll"><table class="sortable"><thead><tr>{head}</tr></thead>
<tbody>
{body}
</tbody></table></div>"""
_CHARTS = """<h2>Over time</h2>
$charts
<p class="soft">Each line has at most about $points points; where there are more samples, each point is the mean of its
interval. Drag to zoom all charts, double-click to reset; click a name in the legend to hide it.</p>"""


def page(data: ReportData, stored: Stored, state: str, tuning: Tuning | None = None) -> tuple[bytes, bool]:
    """The page of a session that is `running`, `ended` or `lost`, and whether it has charts.

    They need plotly (the extra `report`), and the metrics in the store. The curve of a `tuning` needs neither.

    Raises:
        StoreError: The store is damaged.
    """
    drawn = _charts(data, stored)
    template = Template(files("gmg_tui.report").joinpath("page.html").read_text("utf-8"))
    filled = template.substitute(
        name=text(data.name),
        about=text(_about(data, state)),
        totals=_totals(data),
        tuning="" if tuning is None else section(tuning),
        gpus="\n".join(f'<p class="soft">{text(line)}</p>' for line in gpus.lines(data, _order(data))),
        charts=drawn or "",
        combined=_combined(data),
        jobs=_jobs(data),
        events=_events(data.events[-_EVENTS:]),
    )
    return filled.encode(errors="replace"), drawn is not None


def text(raw: str) -> str:
    """`raw` as a page may have it, whatever is in it."""
    return escape(raw.translate(_CONTROLS))


def _charts(data: ReportData, stored: Stored) -> str | None:
    """The section with the charts; None without plotly."""
    try:
        import plotly.io
    except ImportError:
        return None
    points = charts.points(len(data.session.slots) if data.session is not None else 1)
    drawn = plotly.io.to_html(
        charts.figure(data, stored.metrics(points)),
        config=_CONFIG,
        include_plotlyjs=True,
        include_mathjax=False,
        full_html=False,
        div_id="charts",
        validate=False,
    )
    return Template(_CHARTS).substitute(charts=drawn, points=f"{points:,}")


def _about(data: ReportData, state: str) -> str:
    parts = [state]
    if data.session is not None:
        spec = data.session.spec
        started = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(data.session.started))
        parts += [
            "simulated" if spec.simulate is not None else "",
            spec.script,
            f"since {started}",
            f"on {spec.host}" if spec.host else "",
        ]
    return " · ".join(part for part in parts if part)


def _totals(data: ReportData) -> str:
    whole = totals(data)
    named = [(state, f"{number:,}") for state, number in sorted(whole.states.items())]
    if whole.total_s is not None:
        named.append(("total time", units.clock(whole.total_s)))
    if whole.jobs_s is not None:
        named.append(("total job time", units.clock(whole.jobs_s)))
    if whole.speed_up is not None:
        named.append(("speed-up", f"{whole.speed_up:.1f}×"))
    if whole.energy_j is not None:
        named.append(("energy", units.energy(whole.energy_j)))
    return "".join(f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>" for name, value in named)


def _order(data: ReportData) -> Order:
    """The order that the sweep asks for; the jobs' own where it asks for none, or for a column that nothing has."""
    sweep = data.session.spec.sweep if data.session is not None else None
    try:
        return choose_order(data.jobs, sweep.best if sweep is not None else None)
    except GmgError:
        return choose_order([], None)


def _combined(data: ReportData) -> str:
    """The section with what was run several times; empty where nothing was."""
    found = combined.ranked(data.jobs, _order(data))
    if not found:
        return ""
    header, *body = file_rows(found)
    listed = "\n".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in body)
    return _COMBINED.format(said=text(combined.HEADING), head=_head(map(str, header)), body=listed)


def _head(titles: Iterable[str]) -> str:
    """The cells of a table's head, which sort it."""
    return "".join(
        f'<th scope="col" aria-sort="none"><button type="button">{text(title)}</button></th>' for title in titles
    )


def _jobs(data: ReportData) -> str:
    """The table of jobs, a row for each attempt: the columns of the CSV that hold anything, arguments and start."""
    wanted = columns(data.jobs)
    listed = rows_of(data)
    rows = [(*cells(row.record, wanted), *_attempt(row)) for row in listed]
    header = (*wanted.header, "args", "started")
    used = [
        place for place, title in enumerate(header) if title in FIXED[:3] or any(row[place] is not None for row in rows)
    ]
    head = _head(header[place] for place in used)
    body = "\n".join(
        f'<tr class="{one.record.state.value}">{"".join(_cell(row[place]) for place in used)}</tr>'
        for one, row in zip(listed, rows, strict=True)
    )
    return f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>"


def _attempt(row: Row) -> tuple[Cell, Cell]:
    """An attempt's arguments and start."""
    started = row.record.started
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(started)) if started else None
    return shlex.join(row.args) if row.args else None, when


def _cell(cell: Cell) -> str:
    if cell is None:
        return "<td></td>"
    if isinstance(cell, str):
        shown = cell if len(cell) <= _CELL else f"{cell[: _CELL - 1]}…"
        return f'<td class="text">{text(shown)}</td>'
    if isinstance(cell, bool):
        return f"<td>{str(cell).lower()}</td>"
    small = isinstance(cell, float) and abs(cell) < 1e6
    shown = f"{cell:,}" if isinstance(cell, int) else f"{cell:,.6g}" if small else f"{cell:,.0f}"
    return f'<td data-value="{cell}">{shown}</td>'


def _events(events: Sequence[Event]) -> str:
    made = []
    for event in events:
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.time))
        where = " ".join(filter(None, (event.slot, f"job {event.job}" if event.job is not None else "")))
        data = (moment, event.kind, where, event.text)
        made.append("<tr>" + "".join(f'<td class="text">{text(said)}</td>' for said in data) + "</tr>")
    return "\n".join(made) or "<tr><td>none</td></tr>"
