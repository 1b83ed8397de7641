"""The page's charts as plotly figures: slots over time, jobs, a tuning's curve, and the rates of a comparison."""

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
_STATES = {
    WorkerState.STARTING: "#BBBBBB",
    WorkerState.BUILDING: "#F0E442",
    WorkerState.COMPILING: "#E69F00",
    WorkerState.RUNNING: "#56B4E9",
    WorkerState.FINISHED: "#009E73",
    WorkerState.FAILED: "#D55E00",
}
_OTHER_STATE = "#8C8C8C"
_MAX_BARS = 5000
"""Maximum bars to draw; the longest are drawn."""
_MAX_POINTS = 60_000
_MAX_TEXT = 200
_GAP_STEPS = 5
"""Median steps without a sample before a line has a gap."""
_SHOWN_SHARE, _HEADROOM = 0.99, 1.08
"""The share of the values that an axis shows, and the room above them."""
_MAX_COLUMNS, _MAX_LABELS, _MAX_JOBS = 4, 40, 2000
"""Maximum charts by job in a row, jobs with labels, and jobs to draw."""
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


def over_time(data: ReportData, stored: Stored) -> Figure:
    """Returns the states and metrics of a session's slots; `stored` is its open store. Raises `StoreError`."""
    slots = [slot.name for slot in data.session.slots]
    metrics = stored.metrics(max(100, min(2000, _MAX_POINTS // (len(_CHARTS) * max(len(slots), 1)))))
    slots += sorted({ran.slot for each in data.attempts.values() for ran in each} - set(slots))
    charts = [chart for chart in _CHARTS if any(getattr(row, chart.field) is not None for row in metrics)]
    heights = [max(2, len(slots)) * _ROW_PX, *(_CHART_PX for _ in charts)]
    inner = sum(heights) + _GAP_PX * len(charts)
    titles = ["Slots", *(chart.title for chart in charts)]
    gap = _GAP_PX / inner if charts else 0
    layout = {"row_heights": heights, "vertical_spacing": gap, "subplot_titles": titles}
    figure = make_subplots(len(heights), shared_xaxes=True, **layout)
    zone = time.strftime("%z", time.localtime(data.until))
    figure.update_xaxes(type="date")
    figure.update_xaxes(title_text=f"time (UTC{zone[:3]}:{zone[3:]})", row=len(heights))
    figure.update_yaxes(type="category", categoryorder="array", categoryarray=slots[::-1], row=1)
    for trace in (*_bars(data, stored), *_failures(data)):
        figure.add_trace(trace, row=1, col=1)
    by_slot: dict[str, list[MetricsRow]] = {slot: [] for slot in slots}
    for row in metrics:
        by_slot.setdefault(row.slot, []).append(row)
    in_legend: set[str] = set()
    top = _top(metrics)
    for number, chart in enumerate(charts, 2):
        figure.update_yaxes(rangemode="tozero", range=[0.0, top] if top and chart.field == "fps" else None, row=number)
        for index, (slot, rows) in enumerate(by_slot.items()):
            if any(getattr(row, chart.field) is not None for row in rows):
                line = _line(chart, slot, rows, index)
                hover = f"%{{y}} {chart.unit}<br>%{{x|%H:%M:%S}}"
                line |= {"showlegend": slot not in in_legend, "hovertemplate": hover}
                figure.add_trace(line, row=number, col=1)
                in_legend.add(slot)
    figure.update_annotations(x=0, xanchor="left")
    figure.update_layout(legend={"orientation": "h", "y": -64 / inner, "yanchor": "top", "x": 0}, barmode="overlay")
    return styled(figure, inner + _EDGE_PX)


def _top(rows: Iterable[MetricsRow]) -> float | None:
    """Returns the top of the rates' axis, without outliers and each job's first seconds; None to fit all rates."""
    begun: dict[tuple[str, int | None], float] = {}
    rated = [(row, begun.setdefault((row.slot, row.job), row.time)) for row in rows if row.fps is not None]
    rates = sorted(row.fps or 0.0 for row, began in rated if row.time - began >= SETTLE_S)
    return rates[math.ceil(_SHOWN_SHARE * (len(rates) - 1))] * _HEADROOM or None if rates else None


def by_job(jobs: Sequence[JobRecord], columns: Sequence[Column[JobRecord]], best: JobRecord | None) -> Iterator[Figure]:
    """Yields a figure of the first columns with numbers, by job, with the best job highlighted."""
    charts = []
    for column in columns:
        cells = [column.value(job) for job in jobs]
        numbers = [None if isinstance(each, str | bool) or not is_known(each) else each for each in cells]
        if any(number is not None for number in numbers):
            charts.append((column, numbers))
    charts = charts[:_MAX_COLUMNS]
    if not charts or len(jobs) > _MAX_JOBS:
        return
    titles = [plain(column.heading) for column, _ in charts]
    figure, names = make_subplots(1, len(charts), subplot_titles=titles), [plain(job.name) for job in jobs]
    colours = [COLOURS[1] if best is not None and job.number == best.number else COLOURS[0] for job in jobs]
    for number, (column, values) in enumerate(charts, 1):
        scale = 1 / 1024 if column.unit == "GiB" else 1
        heights = [None if value is None else value * scale for value in values]
        texts = [f"{name}<br>{plain(column.text(job))}" for name, job in zip(names, jobs, strict=True)]
        points = {"x": names, "y": heights, "hovertext": texts, "hoverinfo": "text", "mode": "markers"}
        figure.add_scatter(**points, marker={"color": colours, "size": 10}, showlegend=False, row=1, col=number)
        figure.update_yaxes(rangemode="tozero" if column.unit or column.title == "FPS" else "normal", row=1, col=number)
    figure.update_xaxes(type="category", showticklabels=len(jobs) <= _MAX_LABELS)
    yield styled(figure, _BY_JOB_PX).update_layout(margin_r=60)  # room for the last name, which is slanted


def curve(tuning: Tuning) -> Figure:
    """Returns the trials by value, with intervals, and the values of the answer."""
    figure, answer = Figure(), tuning.answer
    alone = [trial for trial in tuning.trials if trial.kind is not TrialKind.TOGETHER and trial.rate is not None]
    for number, slot in enumerate(answer.slots):
        trials = sorted((trial for trial in alone if trial.slot == slot), key=lambda trial: trial.value)
        if trials:
            values, rates = [trial.value for trial in trials], [trial.rate for trial in trials]
            line = {"color": COLOURS[number % len(COLOURS)], "width": 1}
            margin = {"type": "percent", "value": max(trial.margin_pct or 0.0 for trial in trials)}
            figure.add_scatter(x=values, y=rates, mode="lines+markers", name=plain(slot), line=line, error_y=margin)
    marks = [(best.value, name) for name, best in tuning_text.named_values(answer, tuning.spec)]
    if answer.memory is not None and answer.memory.most is not None:
        marks.append((answer.memory.most, "memory"))
    if answer.edge is not None:
        marks.append((answer.edge.value, "edge"))
    highest = max((trial.rate or 0.0 for trial in alone), default=0.0)
    for number, (value, name) in enumerate(marks):
        if value > 0:  # named in the legend, as the lines are close together
            line = {"dash": _DASHES[1 + number % (len(_DASHES) - 1)], "width": 1.5, "color": _OTHER_STATE}
            figure.add_scatter(x=[value, value], y=[0, highest], mode="lines", name=f"{name} {value:,}", line=line)
    figure.update_xaxes(type="log", title_text=plain(tuning.spec.variable))
    figure.update_yaxes(title_text=plain(tuning_text.unit(tuning.spec)), rangemode="tozero")
    return styled(figure)


def rates(made: Comparison) -> Figure:
    """Returns the rates of all sessions as bars, grouped by slot or job."""
    figure = Figure()
    keys = [plain(row.name) for row in made.rows]
    for number, data in enumerate(made.sessions):
        fps = [row.values[number] for row in made.rows]
        figure.add_bar(name=plain(data.name), x=keys, y=fps, marker_color=COLOURS[number % len(COLOURS)])
    figure.update_xaxes(type="category", title_text=made.unit)
    figure.update_yaxes(title_text="FPS", rangemode="tozero")
    return styled(figure)


def styled(figure: Figure, height: int = _PLAIN_PX) -> Figure:
    """Applies the style to a figure; the page sets its colours from the theme."""
    font = {"family": "system-ui, sans-serif", "size": 12}
    figure.update_layout(template="none", paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", font=font)
    figure.update_xaxes(zeroline=False)
    figure.update_yaxes(zeroline=False, automargin=True)
    figure.update_annotations(font_size=13)
    return figure.update_layout(height=height, margin={"l": 20, "r": 12, "t": 40}, hovermode="closest")


def plain(text: str) -> str:
    """Escapes a worker's text, so that plotly shows it literally."""
    return escape(text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…")


def _ms(moment: float) -> float:
    """Converts Unix seconds to milliseconds for the axis, shifted to show local time."""
    return round((moment + time.localtime(moment).tm_gmtoff) * 1000, 1)


class _Bar(NamedTuple):
    slot: str
    state: WorkerState
    started: float
    seconds: float
    text: str


def _bars(data: ReportData, stored: Stored) -> Iterator[dict[str, Any]]:
    """Yields a trace for each state with its bars on the slots."""
    changes: dict[str, list[tuple[float, WorkerState]]] = {}
    for moment, slot, state in stored.states():
        changes.setdefault(slot, []).append((moment, state))
    bars = [bar for ran, span in _attempts(data) for bar in _of_attempt(ran, *span, changes.get(ran.slot, []))]
    by_state: dict[WorkerState, list[_Bar]] = {}
    for bar in sorted(bars, key=lambda bar: -bar.seconds)[:_MAX_BARS]:
        by_state.setdefault(bar.state, []).append(bar)
    for state, those in by_state.items():
        yield {
            "type": "bar",
            "orientation": "h",
            "name": state.value,
            "y": [bar.slot for bar in those],
            "base": [_ms(bar.started) for bar in those],
            "x": [round(bar.seconds * 1000, 1) for bar in those],
            "width": 0.72,
            "marker": {"color": _STATES.get(state, _OTHER_STATE), "line": {"width": 0.5, "color": _OTHER_STATE}},
            "hoverinfo": "text",
            "hovertext": [bar.text for bar in those],
        }


def _attempts(data: ReportData) -> Iterator[tuple[JobAttempt, tuple[float, float]]]:
    """Yields the attempts with known times."""
    for each in data.attempts.values():
        yield from ((ran, span) for ran in each if (span := data.span(ran)) is not None)


def _of_attempt(
    ran: JobAttempt, started: float, ended: float, changes: Sequence[tuple[float, WorkerState]]
) -> Iterator[_Bar]:
    """Yields the bars of an attempt's states; only the last one if no others were recorded."""
    within = [(moment, state) for moment, state in changes if started <= moment < ended]
    first = within[0][1] if within else ran.attempt.state
    bounds, text = [(started, first), *within[1:], (ended, first)], _hover(ran, ended - started)
    for (begin, state), (end, _) in pairwise(bounds):
        yield _Bar(ran.slot, state, begin, end - begin, f"{state.value}, {units.span(end - begin)}<br>{text}")


def _hover(ran: JobAttempt, seconds: float) -> str:
    attempt = ran.attempt
    lines = [f"<b>job {ran.job}</b>, attempt {attempt.number}: {attempt.state.value} after {units.span(seconds)}"]
    lines += [f"{units.fps(attempt.rate)} FPS"] if attempt.rate is not None else []
    return "<br>".join([*lines, *([plain(attempt.reason)] if attempt.reason else [])])


def _failures(data: ReportData) -> Iterator[dict[str, Any]]:
    """Yields the marks of failures on the slots."""
    failed = [(ran, span[1]) for ran, span in _attempts(data) if ran.attempt.state is WorkerState.FAILED]
    if failed:
        yield {
            "type": "scatter",
            "mode": "markers",
            "name": "failure",
            "x": [_ms(ended) for _, ended in failed],
            "y": [ran.slot for ran, _ in failed],
            "marker": {"symbol": "x", "size": 11, "color": _STATES[WorkerState.FAILED]},
            "hoverinfo": "text",
            "hovertext": [f"failure: {plain(ran.attempt.reason or 'failed')}" for ran, _ in failed],
        }


def _line(chart: _Chart, slot: str, rows: Sequence[MetricsRow], index: int) -> dict[str, Any]:
    """Returns a slot's line, with gaps between jobs and where there are no samples."""
    xs: list[float] = []
    ys: list[float | None] = []
    steps = sorted(later.time - earlier.time for earlier, later in pairwise(rows))
    longest = _GAP_STEPS * steps[len(steps) // 2] if steps else 0.0
    for before, row in zip([rows[0], *rows], rows, strict=False):
        # Older metrics have longer steps.
        is_gap = row.time - before.time > max(longest, _GAP_STEPS * before.seconds)
        if is_gap or (row.job != before.job and chart.unit == "FPS"):
            xs.append(xs[-1])
            ys.append(None)
        value: float | None = getattr(row, chart.field)
        xs.append(_ms(row.time))
        ys.append(None if value is None else float(f"{value * chart.scale:.6g}"))
    dash = _DASHES[index // len(COLOURS) % len(_DASHES)]
    return {
        "type": "scatter",
        "mode": "lines" if len(xs) > 1 else "markers",
        "name": plain(slot),
        "legendgroup": f"slot {slot}",
        "x": xs,
        "y": ys,
        "line": {"width": 1.6, "color": COLOURS[index % len(COLOURS)], "dash": dash},
    }
