"""Reports as self-contained HTML pages, with plotly's charts."""

import shlex
from collections.abc import Iterable, Iterator
from importlib.resources import files
from string import Template

import plotly.io
from plotly.graph_objects import Figure
from plotly.offline import get_plotlyjs

from gmg_tui.model import JobRecord, Tuning, WorkerState, units
from gmg_tui.results import metric_curves, tuning_text
from gmg_tui.results import report_charts as charts
from gmg_tui.results import table as tables
from gmg_tui.results.column import Column, format_exact, sort_rows
from gmg_tui.results.comparison import Comparison
from gmg_tui.results.job_columns import columns, result_names
from gmg_tui.results.report import ReportData, best_job
from gmg_tui.results.table import escape_html
from gmg_tui.session.store.reader import Stored

_CHARTED = ("fps_mean", "memory_peak_mib")
"""Columns with a chart by job, besides the results."""
_CONFIG = {"responsive": True, "displaylogo": False, "modeBarButtonsToRemove": ["lasso2d", "select2d"]}


def page(data: ReportData, stored: Stored, best: str | None = None) -> bytes:
    """Returns the page of one session, ordered by `best` as in `ReportData.sorted_rows`; `stored` is its open store.

    Raises `StoreError`, or `GmgError` if there is no column `best`.
    """
    rows, by, order = data.sorted_rows(best)
    of_jobs = columns(rows)
    rate = next(column for column in of_jobs if column.name == "fps_mean")
    fastest = best_job(sort_rows(rate, rows, descending=True), rate)
    leaders = [("best", by, best_job(rows, by))] if by is not None and by.name != rate.name else []
    leaders = [*leaders, ("fastest", rate, fastest)] if data.queued and data.tuning is None else []
    first = leaders[0][2] if leaders else None
    names = result_names(rows)
    charted = [column for column in of_jobs if column.name in _CHARTED or column.title in names]
    charted.sort(key=lambda column: (by is None or column.name != by.name, column.name not in _CHARTED))
    jobs = [
        f"<h2>{'Jobs' if data.queued else 'Workers'}</h2>",
        *_soft([order] if data.queued else []),
        *map(_chart, charts.by_job(data.jobs, charted, first)),
        tables.render_html(of_jobs, rows, row_class=lambda row: "best" if row is first else row.state.value),
    ]
    body = [
        *_headline(data, leaders),
        *(f"<p><b>{escape_html(each.subject)} failed:</b> {escape_html(each.reason)}</p>" for each in data.failures),
        *_soft(each.advice for each in data.failures if each.advice),
        *(f"<p><b>{escape_html(name)}</b> {escape_html(alert.headline)}</p>" for name, alert in data.alerts),
        *(tuning(data.tuning) if data.tuning is not None else ()),
        *_soft(data.slow_slots),
        *(jobs if data.tuning is None or best is not None else ()),  # trials are a tuning's jobs
        *_metrics(data, stored),
        "<h2>Over time</h2>",
        _chart(charts.over_time(data, stored)),
    ]
    return _filled(data.name, [data.heading], body)


def _metrics(data: ReportData, stored: Stored) -> Iterator[str]:
    figures = [charts.styled(figure) for figure in metric_curves.charts(data.jobs, stored, charts.COLOURS)]
    if figures:
        yield "<h2>Metrics</h2>"
        yield tables.render_html(metric_curves.columns(data.metrics, "job" if data.queued else "worker"), data.metrics)
        yield from map(_chart, figures)


def _headline(data: ReportData, leaders: Iterable[tuple[str, Column[JobRecord], JobRecord | None]]) -> Iterator[str]:
    """Yields the best and the fastest job with their settings, then the totals."""
    facts = []
    for title, column, job in leaders:
        if job is not None:
            settings = "  ".join(f"{name} {format_exact(value)}" for name, value in job.values.items())
            facts.append((f"{title} job: #{job.number} {job.name}", f"{column.heading} {column.text(job)}", settings))
    if (rate := data.rate) is not None:
        without = " without failed workers" if data.failed else ""
        per_watt = f"{units.short(rate.env_steps_per_j)} FPS/W" if rate.env_steps_per_j is not None else ""
        facts.append((f"total FPS{without}", units.fps(rate.mean), per_watt))
    totals = dict(data.totals)
    facts += [(name, totals[name], "") for name in ("energy", "time") if name in totals]
    facts += [(state.value, f"{data.states[state]:,}", "") for state in WorkerState if state in data.states]
    row = "<div><dt>{}</dt><dd>{}</dd><dt>{}</dt></div>"
    boxes = (row.format(*map(escape_html, fact)) for fact in facts)
    yield f"<dl>{''.join(boxes)}</dl>"


def comparison(made: Comparison) -> bytes:
    """Returns the page that compares several sessions."""
    settings, rates, figures, metrics = made.tables
    body = [
        *(f"<p>{escape_html(line)}</p>" for line in made.remarks),
        "<h2>What differs</h2>",
        tables.render_html(*settings) if made.differences else "<p>Nothing.</p>",
        "<h2>Rates</h2>",
        _chart(charts.rates(made)),
        tables.render_html(*rates),
        tables.render_html(*figures) if made.figures else "",
        *(["<h2>Metrics</h2>", tables.render_html(*metrics)] if made.metrics else []),
        *(_chart(charts.styled(figure)) for figure in metric_curves.compared(made.sessions, charts.COLOURS)),
    ]
    title = " and ".join(data.name for data in made.sessions)
    return _filled(title, [data.heading for data in made.sessions], body)


def tuning(of: Tuning) -> Iterator[str]:
    """Yields the section with a tuning's curve, answer and trials."""
    yield f"<h2>Tuning: {escape_html(of.spec.variable)} with the most {escape_html(tuning_text.unit(of.spec))}</h2>"
    answer = of.answer
    yield from _soft(filter(None, [tuning_text.incomplete_reason(of)]))
    yield _chart(charts.curve(of))
    if together := tuning_text.rate_together(answer, of.spec):
        yield f"<p>{escape_html(of.spec.variable)} = {escape_html(together)}</p>"
    yield tables.render_html(tuning_text.answer_columns(of.spec), tuning_text.named_values(answer, of.spec))
    yield from (f"<p>{name}: {escape_html(text)}</p>" for name, text in tuning_text.notes(answer, of.spec))
    if of.command:
        yield f"<pre>{escape_html(shlex.join(of.command))}</pre>"
    yield from _soft([tuning_text.caution(of.spec)])
    trials = sorted(of.trials, key=lambda trial: (trial.value, trial.number))
    yield tables.render_html(tuning_text.columns(of.spec), trials, row_class=lambda trial: trial.state.value)


def _chart(figure: Figure) -> str:
    html: str = plotly.io.to_html(
        figure, config=_CONFIG, include_plotlyjs=False, include_mathjax=False, full_html=False
    )
    return html


def _filled(title: str, about: Iterable[str], body: Iterable[str]) -> bytes:
    template = Template(files("gmg_tui.results").joinpath("report_page.html").read_text("utf-8"))
    parts = [f"<script>{get_plotlyjs()}</script>", *body]
    text = template.substitute(title=escape_html(title), about="".join(_soft(about)), body="\n".join(parts))
    return text.encode(errors="replace")


def _soft(lines: Iterable[str]) -> list[str]:
    return [f'<p class="soft">{escape_html(line)}</p>' for line in lines]
