"""The account of a session as one page for the browser, which needs nothing but itself."""

from __future__ import annotations

import time
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import plotly.io

from gmg_tui import units
from gmg_tui.model import JobRecord
from gmg_tui.report import charts
from gmg_tui.report.account import Account, totals
from gmg_tui.results.summary import FIXED, Cell, cells, columns
from gmg_tui.store.reader import Stored
from gmg_tui.store.records import Event

_CELL = 400
"""The most signs of a cell."""
_EVENTS = 500
_CONFIG = {"responsive": True, "displaylogo": False, "modeBarButtonsToRemove": ["lasso2d", "select2d"]}


def page(told: Account, stored: Stored, state: str) -> bytes:
    """The page.

    Args:
        told: The session's account.
        stored: Its store, for the figures.
        state: How the session is: `running`, `ended` or `lost`.

    Raises:
        StoreError: The store is damaged.
    """
    slots = len(told.session.slots) if told.session is not None else 1
    points = charts.points(slots)
    figures = stored.figures(points)
    template = Template(files("gmg_tui.report").joinpath("page.html").read_text("utf-8"))
    text = template.substitute(
        name=escape(told.name),
        about=escape(_about(told, state)),
        totals=_totals(told),
        charts=_drawn(charts.figure(told, figures)),
        points=f"{points:,}",
        jobs=_jobs(told),
        events=_events(told.events[-_EVENTS:]),
    )
    return text.encode(errors="replace")


def _drawn(figure: dict[str, Any]) -> str:
    drawn = plotly.io.to_html(
        figure,
        config=_CONFIG,
        include_plotlyjs=True,
        include_mathjax=False,
        full_html=False,
        div_id="charts",
        validate=False,
    )
    return str(drawn)


def _about(told: Account, state: str) -> str:
    parts = [state]
    if told.session is not None:
        spec = told.session.spec
        started = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(told.session.started))
        parts += [spec.script, f"since {started}", f"on {spec.host}" if spec.host else ""]
    return " · ".join(part for part in parts if part)


def _totals(told: Account) -> str:
    whole = totals(told)
    named = [(state, f"{number:,}") for state, number in sorted(whole.states.items())]
    if whole.total_s is not None:
        named.append(("total time", units.clock(whole.total_s)))
    if whole.jobs_s is not None:
        named.append(("the jobs' times together", units.clock(whole.jobs_s)))
    if whole.speed_up is not None:
        named.append((f"speed-up over one {told.place}", f"{whole.speed_up:.1f} ×"))
    if whole.energy_j is not None:
        named.append(("energy", units.energy(whole.energy_j)))
    return "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in named)


def _jobs(told: Account) -> str:
    """The table of jobs: the columns of the CSV that hold anything."""
    wanted = columns(told.jobs)
    rows = [cells(job, wanted) for job in told.jobs]
    used = [
        place
        for place, title in enumerate(wanted.header)
        if title in FIXED[:3] or any(row[place] is not None for row in rows)
    ]
    head = "".join(
        f'<th scope="col" aria-sort="none"><button type="button">{escape(wanted.header[place])}</button></th>'
        for place in used
    )
    body = "\n".join(_row(job, row, used) for job, row in zip(told.jobs, rows, strict=True))
    return f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>"


def _row(job: JobRecord, row: Sequence[Cell], used: Sequence[int]) -> str:
    made = "".join(_cell(row[place]) for place in used)
    return f'<tr class="{job.state.value}">{made}</tr>'


def _cell(cell: Cell) -> str:
    if cell is None:
        return "<td></td>"
    if isinstance(cell, str):
        shown = cell if len(cell) <= _CELL else f"{cell[: _CELL - 1]}…"
        return f'<td class="text">{escape(shown)}</td>'
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
        told = (moment, event.kind, where, event.text)
        made.append("<tr>" + "".join(f'<td class="text">{escape(text)}</td>' for text in told) + "</tr>")
    return "\n".join(made) or "<tr><td>nothing</td></tr>"
