"""The charts of report pages, as plotly figures: slots over time, jobs, tunings, and the rates of a comparison."""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import Any, NamedTuple

from plotly.graph_objects import Figure
from plotly.subplots import make_subplots

from gmg_tui.model import JobRecord, TrialKind, Tuning, WorkerState, units
from gmg_tui.model.tried import SETTLE_S
from gmg_tui.results import tuning_text
from gmg_tui.results.column import Column, is_known
from gmg_tui.results.comparison import Comparison
from gmg_tui.results.report import ReportData
from gmg_tui.session.store.database import JobAttempt, MetricsRow
from gmg_tui.session.store.reader import Stored

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C8C8C")
"""Okabe and Ito's palette for the colour-blind, without the colours that are invisible on a light or a dark page."""
_DASHES = ("solid", "dash", "dot", "dashdot")
"""Line styles that distinguish more slots than there are colours."""
_STATE_COLOURS = {
    WorkerState.STARTING: "#BBBBBB",
    WorkerState.BUILDING: "#F0E442",
    WorkerState.COMPILING: "#E69F00",
    WorkerState.RUNNING: "#56B4E9",
    WorkerState.FINISHED: "#009E73",
    WorkerState.FAILED: "#D55E00",
}
_GREY = "#8C8C8C"
_MAX_BARS = 5000
"""Maximum bars of states; the longest are drawn."""
_MAX_POINTS = 60_000
_MAX_TEXT_LENGTH = 200
_GAP_STEPS = 5
"""Time without a sample that leaves a gap in a line, in median steps."""
_SHOWN_SHARE, _HEADROOM = 0.99, 1.08
"""The share of the rates that the axis has to show, and the factor for the room above them."""
_MAX_JOB_CHARTS, _MAX_JOB_LABELS, _MAX_JOBS = 4, 40, 2000
"""Maximum charts by job, jobs with labels on the axis, and jobs to draw."""
_ROW_PX, _CHART_PX, _GAP_PX, _EDGE_PX, _PLAIN_PX, _BY_JOB_PX = 26, 170, 58, 150, 420, 300


class _Chart(NamedTuple):
    title: str
    field: str
    unit: str
    scale: float = 1.0


_CHARTS = (
    _Chart("FPS (environment steps per second)", "fps", "FPS"),
    _Chart("VRAM used (GiB)", "memory_used_mib", "GiB", 1 / 1024),
    _Chart("GPU utilisation (%)", "gpu_util_pct", "%"),
    _Chart("SMs busy (%)", "sm_pct", "%"),
    _Chart("Power (W)", "power_w", "W"),
    _Chart("Temperature (°C)", "temperature_c", "°C"),
)


def draw_timeline(data: ReportData, stored: Stored) -> Figure:
    """Draws the states and metrics of a session's slots over time; `stored` is its open store. Raises `StoreError`."""
    slots = [slot.name for slot in data.session.slots]
    metrics = stored.metrics(max(100, min(2000, _MAX_POINTS // (len(_CHARTS) * max(len(slots), 1)))))
    slots += sorted({run.slot for runs in data.attempts.values() for run in runs} - set(slots))
    charts = [chart for chart in _CHARTS if any(getattr(row, chart.field) is not None for row in metrics)]
    heights = [max(2, len(slots)) * _ROW_PX, *(_CHART_PX for _ in charts)]
    inner_height = sum(heights) + _GAP_PX * len(charts)
    titles = ["Slots", *(chart.title for chart in charts)]
    gap = _GAP_PX / inner_height if charts else 0
    layout = {"row_heights": heights, "vertical_spacing": gap, "subplot_titles": titles}
    figure = make_subplots(len(heights), shared_xaxes=True, **layout)
    zone = time.strftime("%z", time.localtime(data.until))
    figure.update_xaxes(type="date")
    figure.update_xaxes(title_text=f"time (UTC{zone[:3]}:{zone[3:]})", row=len(heights))
    figure.update_yaxes(type="category", categoryorder="array", categoryarray=slots[::-1], row=1)
    for trace in (*_state_bars(data, stored), *_failure_marks(data)):
        figure.add_trace(trace, row=1, col=1)
    by_slot: dict[str, list[MetricsRow]] = {slot: [] for slot in slots}
    for row in metrics:
        by_slot.setdefault(row.slot, []).append(row)
    in_legend: set[str] = set()
    top = _axis_top(metrics)
    for number, chart in enumerate(charts, 2):
        figure.update_yaxes(rangemode="tozero", range=[0.0, top] if top and chart.field == "fps" else None, row=number)
        for index, (slot, rows) in enumerate(by_slot.items()):
            if any(getattr(row, chart.field) is not None for row in rows):
                line = _slot_line(chart, slot, rows, index)
                hover = f"%{{y}} {chart.unit}<br>%{{x|%H:%M:%S}}"
                line |= {"showlegend": slot not in in_legend, "hovertemplate": hover}
                figure.add_trace(line, row=number, col=1)
                in_legend.add(slot)
    figure.update_annotations(x=0, xanchor="left")
    legend = {"orientation": "h", "y": -64 / inner_height, "yanchor": "top", "x": 0}
    return apply_style(figure.update_layout(legend=legend, barmode="overlay"), inner_height + _EDGE_PX)


def _axis_top(rows: Iterable[MetricsRow]) -> float | None:
    """Returns the top of the rates' axis, ignoring outliers and each job's first seconds; None to fit all rates."""
    starts: dict[tuple[str, int | None], float] = {}
    timed = [(row, starts.setdefault((row.slot, row.job), row.time)) for row in rows if row.fps is not None]
    rates = sorted(row.fps or 0.0 for row, start in timed if row.time - start >= SETTLE_S)
    return rates[math.ceil(_SHOWN_SHARE * (len(rates) - 1))] * _HEADROOM or None if rates else None


def draw_jobs(
    jobs: Sequence[JobRecord], columns: Sequence[Column[JobRecord]], best: JobRecord | None
) -> Iterator[Figure]:
    """Yields a figure with a chart by job for each of the first columns with numbers; highlights the job `best`.

    Yields nothing if there is no such column, or if there are too many jobs.
    """
    charts = []
    for column in columns:
        values = [column.value(job) for job in jobs]
        numbers = [None if isinstance(value, str | bool) or not is_known(value) else value for value in values]
        if any(number is not None for number in numbers):
            charts.append((column, numbers))
    charts = charts[:_MAX_JOB_CHARTS]
    if not charts or len(jobs) > _MAX_JOBS:
        return
    titles = [escape_text(column.heading) for column, _ in charts]
    figure, names = make_subplots(1, len(charts), subplot_titles=titles), [escape_text(job.name) for job in jobs]
    colours = [COLOURS[1] if best is not None and job.number == best.number else COLOURS[0] for job in jobs]
    for position, (column, numbers) in enumerate(charts, 1):
        scale = 1 / 1024 if column.unit == "GiB" else 1
        heights = [None if number is None else number * scale for number in numbers]
        texts = [f"{name}<br>{escape_text(column.text(job))}" for name, job in zip(names, jobs, strict=True)]
        points = {"x": names, "y": heights, "hovertext": texts, "hoverinfo": "text", "mode": "markers"}
        figure.add_scatter(**points, marker={"color": colours, "size": 10}, showlegend=False, row=1, col=position)
        rangemode = "tozero" if column.unit or column.title == "FPS" else "normal"
        figure.update_yaxes(rangemode=rangemode, row=1, col=position)
    figure.update_xaxes(type="category", showticklabels=len(jobs) <= _MAX_JOB_LABELS)
    yield apply_style(figure, _BY_JOB_PX).update_layout(margin_r=60)  # room for the last name, which is slanted


def draw_tuning(tuning: Tuning) -> Figure:
    """Draws a tuning's rates by value, with their margins, and the values of the answer."""
    figure, answer = Figure(), tuning.answer
    alone = [trial for trial in tuning.trials if trial.kind is not TrialKind.TOGETHER and trial.rate is not None]
    for number, slot in enumerate(answer.slots):
        trials = sorted((trial for trial in alone if trial.slot == slot), key=lambda trial: trial.value)
        if trials:
            values, rates = [trial.value for trial in trials], [trial.rate for trial in trials]
            line = {"color": COLOURS[number % len(COLOURS)], "width": 1}
            margin = {"type": "percent", "value": max(trial.margin_pct or 0.0 for trial in trials)}
            figure.add_scatter(
                x=values, y=rates, mode="lines+markers", name=escape_text(slot), line=line, error_y=margin
            )
    marks = [(best.value, name) for name, best in tuning_text.named_values(answer, tuning.spec)]
    if answer.memory is not None and answer.memory.most is not None:
        marks.append((answer.memory.most, "memory"))
    if answer.edge is not None:
        marks.append((answer.edge.value, "edge"))
    highest = max((trial.rate or 0.0 for trial in alone), default=0.0)
    for number, (value, name) in enumerate(marks):
        if value > 0:  # the legend names the lines, which may be close together
            line = {"dash": _DASHES[1 + number % (len(_DASHES) - 1)], "width": 1.5, "color": _GREY}
            figure.add_scatter(x=[value, value], y=[0, highest], mode="lines", name=f"{name} {value:,}", line=line)
    figure.update_xaxes(type="log", title_text=escape_text(tuning.spec.variable))
    figure.update_yaxes(title_text=escape_text(tuning_text.unit(tuning.spec)), rangemode="tozero")
    return apply_style(figure)


def draw_rates(comparison: Comparison) -> Figure:
    """Draws the rates of all sessions as bars, grouped by slot, job or value."""
    figure = Figure()
    names = [escape_text(row.name) for row in comparison.rows]
    for number, data in enumerate(comparison.sessions):
        fps = [row.values[number] for row in comparison.rows]
        figure.add_bar(name=escape_text(data.name), x=names, y=fps, marker_color=COLOURS[number % len(COLOURS)])
    figure.update_xaxes(type="category", title_text=comparison.unit)
    figure.update_yaxes(title_text="FPS", rangemode="tozero")
    return apply_style(figure)


def apply_style(figure: Figure, height: int = _PLAIN_PX) -> Figure:
    """Sets the style of a figure, except colours, which the page takes from the theme; returns the figure."""
    font = {"family": "system-ui, sans-serif", "size": 12}
    figure.update_layout(template="none", paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", font=font)
    figure.update_xaxes(zeroline=False)
    figure.update_yaxes(zeroline=False, automargin=True)
    figure.update_annotations(font_size=13)
    return figure.update_layout(height=height, margin={"l": 20, "r": 12, "t": 40}, hovermode="closest")


def escape_text(text: str) -> str:
    """Shortens and escapes a text, so that plotly shows it literally."""
    return escape(text if len(text) <= _MAX_TEXT_LENGTH else f"{text[: _MAX_TEXT_LENGTH - 1]}…")


def _ms(moment: float) -> float:
    """Converts Unix seconds to milliseconds for the axis, shifted so that it shows local time."""
    return round((moment + time.localtime(moment).tm_gmtoff) * 1000, 1)


class _Bar(NamedTuple):
    slot: str
    state: WorkerState
    started: float
    seconds: float
    text: str


def _state_bars(data: ReportData, stored: Stored) -> Iterator[dict[str, Any]]:
    """Yields a trace for each state, with the bars of all slots."""
    changes: dict[str, list[tuple[float, WorkerState]]] = {}
    for moment, slot, state in stored.states():
        changes.setdefault(slot, []).append((moment, state))
    bars = [bar for run, span in _timed_runs(data) for bar in _attempt_bars(run, *span, changes.get(run.slot, []))]
    by_state: dict[WorkerState, list[_Bar]] = {}
    for bar in sorted(bars, key=lambda bar: -bar.seconds)[:_MAX_BARS]:
        by_state.setdefault(bar.state, []).append(bar)
    for state, state_bars in by_state.items():
        yield {
            "type": "bar",
            "orientation": "h",
            "name": state.value,
            "y": [bar.slot for bar in state_bars],
            "base": [_ms(bar.started) for bar in state_bars],
            "x": [round(bar.seconds * 1000, 1) for bar in state_bars],
            "width": 0.72,
            "marker": {"color": _STATE_COLOURS.get(state, _GREY), "line": {"width": 0.5, "color": _GREY}},
            "hoverinfo": "text",
            "hovertext": [bar.text for bar in state_bars],
        }


def _timed_runs(data: ReportData) -> Iterator[tuple[JobAttempt, tuple[float, float]]]:
    """Yields the attempts with a known start and end, and these times."""
    for runs in data.attempts.values():
        yield from ((run, span) for run in runs if (span := data.span(run)) is not None)


def _attempt_bars(
    run: JobAttempt, started: float, ended: float, changes: Sequence[tuple[float, WorkerState]]
) -> Iterator[_Bar]:
    """Yields a bar for each recorded state of an attempt, else one for its last state."""
    within = [(moment, state) for moment, state in changes if started <= moment < ended]
    first = within[0][1] if within else run.attempt.state
    bounds, text = [(started, first), *within[1:], (ended, first)], _hover_text(run, ended - started)
    for (begin, state), (end, _) in pairwise(bounds):
        yield _Bar(run.slot, state, begin, end - begin, f"{state.value}, {units.span(end - begin)}<br>{text}")


def _hover_text(run: JobAttempt, seconds: float) -> str:
    attempt = run.attempt
    lines = [f"<b>job {run.job}</b>, attempt {attempt.number}: {attempt.state.value} after {units.span(seconds)}"]
    lines += [f"{units.fps(attempt.rate)} FPS"] if attempt.rate is not None else []
    return "<br>".join([*lines, *([escape_text(attempt.reason)] if attempt.reason else [])])


def _failure_marks(data: ReportData) -> Iterator[dict[str, Any]]:
    """Yields a trace that marks the failures of all slots; nothing without failures."""
    failed = [(run, span[1]) for run, span in _timed_runs(data) if run.attempt.state is WorkerState.FAILED]
    if failed:
        yield {
            "type": "scatter",
            "mode": "markers",
            "name": "failure",
            "x": [_ms(ended) for _, ended in failed],
            "y": [run.slot for run, _ in failed],
            "marker": {"symbol": "x", "size": 11, "color": _STATE_COLOURS[WorkerState.FAILED]},
            "hoverinfo": "text",
            "hovertext": [f"failure: {escape_text(run.attempt.reason or 'failed')}" for run, _ in failed],
        }


def _slot_line(chart: _Chart, slot: str, rows: Sequence[MetricsRow], index: int) -> dict[str, Any]:
    """Returns the trace of a slot, with gaps where samples are missing and, for rates, between jobs."""
    xs: list[float] = []
    ys: list[float | None] = []
    steps = sorted(later.time - earlier.time for earlier, later in pairwise(rows))
    max_step_s = _GAP_STEPS * steps[len(steps) // 2] if steps else 0.0
    for previous, row in zip([rows[0], *rows], rows, strict=False):
        # Older metrics have longer steps.
        is_gap = row.time - previous.time > max(max_step_s, _GAP_STEPS * previous.seconds)
        if is_gap or (row.job != previous.job and chart.unit == "FPS"):
            xs.append(xs[-1])
            ys.append(None)
        value: float | None = getattr(row, chart.field)
        xs.append(_ms(row.time))
        ys.append(None if value is None else float(f"{value * chart.scale:.6g}"))
    dash = _DASHES[index // len(COLOURS) % len(_DASHES)]
    return {
        "type": "scatter",
        "mode": "lines" if len(xs) > 1 else "markers",
        "name": escape_text(slot),
        "legendgroup": f"slot {slot}",
        "x": xs,
        "y": ys,
        "line": {"width": 1.6, "color": COLOURS[index % len(COLOURS)], "dash": dash},
    }
