"""Reports as self-contained HTML pages, with plotly's charts."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from importlib.resources import files
from string import Template

import plotly.io
from plotly.graph_objects import Figure
from plotly.offline import get_plotlyjs

from gmg_tui.model import Tuning, units
from gmg_tui.results import report_charts as charts
from gmg_tui.results import table as tables
from gmg_tui.results import tuning_text as tune_words
from gmg_tui.results.comparison import Comparison
from gmg_tui.results.job_columns import columns
from gmg_tui.results.report import ReportData
from gmg_tui.results.table import in_html
from gmg_tui.session.store.reader import Stored

_CONFIG = {"responsive": True, "displaylogo": False, "modeBarButtonsToRemove": ["lasso2d", "select2d"]}


def page(data: ReportData, stored: Stored) -> bytes:
    """The page of one session; `stored` is its open store. Raises `StoreError`."""
    rows = data.rows()
    facts = [*((state, f"{number:,}") for state, number in sorted(data.states.items())), *data.totals]
    if data.total_fps is not None:
        facts.append(("FPS without failed workers" if "failed" in data.states else "FPS", units.fps(data.total_fps)))
    body = [
        f"<dl>{''.join(f'<div><dt>{in_html(name)}</dt><dd>{in_html(value)}</dd></div>' for name, value in facts)}</dl>",
        *(tuning(data.tuning) if data.tuning is not None else ()),
        *_soft(data.slow_slots),
        "<h2>Over time</h2>",
        _chart(charts.over_time(data, stored)),
        "<h2>Jobs</h2>",
        tables.html(columns(rows), rows, kind=lambda row: row.state.value),
    ]
    return _filled(data.name, [data.heading], body)


def comparison(made: Comparison) -> bytes:
    """The page of several sessions beside each other."""
    body = [
        *(f"<p>{in_html(line)}</p>" for line in made.remarks),
        "<h2>What differs</h2>",
        tables.html(made.setting_columns, made.differences) if made.differences else "<p>Nothing.</p>",
        "<h2>Rates</h2>",
        _chart(charts.rates(made)),
        tables.html(made.rate_columns, made.rate_rows),
    ]
    title = " and ".join(data.name for data in made.sessions)
    return _filled(title, [data.heading for data in made.sessions], body)


def tuning(of: Tuning) -> Iterator[str]:
    """The section with a tuning's curve, answer and trials."""
    yield f"<h2>Tuning: {in_html(tune_words.wanted(of.spec))}</h2>"
    answer = of.answer
    yield _chart(charts.curve(of))
    if together := tune_words.together(answer, of.spec):
        yield f"<p>{in_html(of.spec.variable)} = {in_html(together)}</p>"
    yield tables.html(tune_words.answer_columns(of.spec), tune_words.values_of(answer, of.spec))
    yield from (f"<p>{name}: {in_html(text)}</p>" for name, text in tune_words.notes(answer))
    if of.command:
        yield f"<pre>{in_html(shlex.join(of.command))}</pre>"
    yield from _soft([tune_words.caution(of.spec)])
    trials = sorted(of.trials, key=lambda trial: (trial.value, trial.number))
    yield tables.html(tune_words.columns(of.spec), trials, kind=lambda trial: trial.state.value)


def _chart(figure: Figure) -> str:
    html: str = plotly.io.to_html(
        figure, config=_CONFIG, include_plotlyjs=False, include_mathjax=False, full_html=False
    )
    return html


def _filled(title: str, about: Iterable[str], body: Iterable[str]) -> bytes:
    template = Template(files("gmg_tui.results").joinpath("report_page.html").read_text("utf-8"))
    parts = [f"<script>{get_plotlyjs()}</script>", *body]
    text = template.substitute(title=in_html(title), about="".join(_soft(about)), body="\n".join(parts))
    return text.encode(errors="replace")


def _soft(lines: Iterable[str]) -> list[str]:
    return [f'<p class="soft">{in_html(line)}</p>' for line in lines]
