"""Reports as self-contained HTML pages with Plotly charts."""

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
"""Columns with a chart by job, besides those of metrics and results."""
_CONFIG = {"responsive": True, "displaylogo": False, "modeBarButtonsToRemove": ["lasso2d", "select2d"]}


def render_session(data: ReportData, stored: Stored, best: str | None = None) -> bytes:
    """Returns the page of one session, in the order of `ReportData.sorted_rows`; `stored` is its open store.

    Raises `StoreError`, or `GmgError` if there is no column `best`.
    """
    rows, sort_column, order = data.sorted_rows(best)
    job_columns = columns(rows)
    rate = next(column for column in job_columns if column.name == "fps_mean")
    fastest = best_job(sort_rows(rate, rows, descending=True), rate)
    sort_name = sort_column.name if sort_column is not None else rate.name
    leaders = [("best", sort_column, best_job(rows, sort_column))] if sort_column and sort_name != rate.name else []
    leaders = [*leaders, ("fastest", rate, fastest)] if data.queued and data.tuning is None else []
    winner = leaders[0][2] if leaders else None
    names = result_names(rows)
    charted = [column for column in job_columns if column.name in _CHARTED or column.title in names]
    charted.sort(key=lambda column: (not sort_column or column.name != sort_name, column.name not in _CHARTED))
    failures = data.failures
    jobs = [
        f"<h2>{'Jobs' if data.queued else 'Workers'}</h2>",
        *_soft_paragraphs([order] if data.queued else []),
        *map(_chart, charts.draw_jobs(data.jobs, charted, winner)),
        tables.render_html(job_columns, rows, row_class=lambda row: "best" if row is winner else row.state.value),
    ]
    body = [
        *_headline(data, leaders),
        *(
            f"<p><b>{escape_html(failure.subject)} failed:</b> {escape_html(failure.reason)}</p>"
            for failure in failures
        ),
        *_soft_paragraphs(failure.advice for failure in failures if failure.advice),
        *(f"<p><b>{escape_html(name)}</b> {escape_html(alert.headline)}</p>" for name, alert in data.alerts),
        *(render_tuning(data.tuning) if data.tuning is not None else ()),
        *_soft_paragraphs(data.slow_slots),
        *(jobs if data.tuning is None or best is not None else ()),  # a tuning's trials are its jobs
        *_metrics(data, stored),
        "<h2>Over time</h2>",
        _chart(charts.draw_timeline(data, stored)),
    ]
    return _fill_template(data.name, [data.heading], body)


def _metrics(data: ReportData, stored: Stored) -> Iterator[str]:
    figures = [charts.apply_style(figure) for figure in metric_curves.draw_charts(data.jobs, stored, charts.COLOURS)]
    if figures:
        yield "<h2>Metrics</h2>"
        yield tables.render_html(metric_curves.columns(data.metrics, "job" if data.queued else "worker"), data.metrics)
        yield from map(_chart, figures)


def _headline(data: ReportData, leaders: Iterable[tuple[str, Column[JobRecord], JobRecord | None]]) -> Iterator[str]:
    """Yields the section with the best and the fastest job, each with its values, and the totals."""
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


def render_comparison(comparison: Comparison) -> bytes:
    """Returns the page that compares several sessions. Raises `StoreError`."""
    settings, rates, figures, metrics = comparison.tables
    curves = metric_curves.draw_comparison(comparison.sessions, charts.COLOURS)
    body = [
        *(f"<p>{escape_html(remark)}</p>" for remark in comparison.remarks),
        "<h2>Different settings</h2>",
        tables.render_html(*settings) if comparison.differences else "<p>None.</p>",
        "<h2>Rates</h2>",
        _chart(charts.draw_rates(comparison)),
        tables.render_html(*rates),
        tables.render_html(*figures) if comparison.figures else "",
        *(["<h2>Metrics</h2>", tables.render_html(*metrics)] if comparison.metrics else []),
        *(_chart(charts.apply_style(figure)) for figure in curves),
    ]
    title = " and ".join(data.name for data in comparison.sessions)
    return _fill_template(title, [data.heading for data in comparison.sessions], body)


def render_tuning(tuning: Tuning) -> Iterator[str]:
    """Yields the section with a tuning's curve, answer and trials."""
    yield f"<h2>Tuning: {escape_html(tuning.spec.variable)} with the most {escape_html(tuning_text.unit(tuning.spec))}</h2>"
    answer = tuning.answer
    yield from _soft_paragraphs(filter(None, [tuning_text.incomplete_text(tuning)]))
    yield _chart(charts.draw_tuning(tuning))
    if together := tuning_text.rate_together(answer, tuning.spec):
        yield f"<p>{escape_html(tuning.spec.variable)} = {escape_html(together)}</p>"
    yield tables.render_html(tuning_text.answer_columns(tuning.spec), tuning_text.named_values(answer, tuning.spec))
    yield from (f"<p>{name}: {escape_html(text)}</p>" for name, text in tuning_text.notes(answer, tuning.spec))
    if tuning.command:
        yield f"<pre>{escape_html(shlex.join(tuning.command))}</pre>"
    yield from _soft_paragraphs([tuning_text.caution(tuning.spec)])
    trials = sorted(tuning.trials, key=lambda trial: (trial.value, trial.number))
    yield tables.render_html(tuning_text.columns(tuning.spec), trials, row_class=lambda trial: trial.state.value)


def _chart(figure: Figure) -> str:
    html: str = plotly.io.to_html(
        figure, config=_CONFIG, include_plotlyjs=False, include_mathjax=False, full_html=False
    )
    return html


def _fill_template(title: str, headings: Iterable[str], body: Iterable[str]) -> bytes:
    template = Template(files("gmg_tui.results").joinpath("report_page.html").read_text("utf-8"))
    with_plotly = "\n".join([f"<script>{get_plotlyjs()}</script>", *body])
    headings_html = "".join(_soft_paragraphs(headings))
    text = template.substitute(title=escape_html(title), headings=headings_html, body=with_plotly)
    return text.encode(errors="replace")


def _soft_paragraphs(lines: Iterable[str]) -> list[str]:
    return [f'<p class="soft">{escape_html(line)}</p>' for line in lines]
