"""The page's charts, on one time axis: the jobs on their slots, and the slots' metrics."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise
from typing import Any, NamedTuple

from gmg_tui import units
from gmg_tui.model import WorkerState
from gmg_tui.report.data import ReportData, attempt_span
from gmg_tui.store.records import MetricsRow

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C8C8C")
"""Okabe and Ito's, which the colour-blind can tell apart, less the two that are invisible on a light or a dark page."""
_DASHES = ("solid", "dash", "dot", "dashdot")
"""For more slots than colours."""
_STATES = {WorkerState.FINISHED: "#009E73", WorkerState.FAILED: "#D55E00", WorkerState.STOPPED: "#E69F00"}
_LIVE = "#56B4E9"
_MAX_BARS = 2000
"""Of more attempts, those too short to be distinguished are joined."""
_MAX_POINTS = 2000
_ALL_POINTS = 60_000
"""Per line, and in total."""

_GAP_STEPS = 5
"""A time without samples of so many median steps is a gap in the line: nothing ran."""

_ROW_PX = 26
_CHART_PX = 170
_GAP_PX = 58
_TOP_PX, _BOTTOM_PX = 40, 110
_LEFT_OVER_CHART = {"x": 0, "xref": "paper", "xanchor": "left", "yref": "paper", "yanchor": "bottom", "yshift": 6}
_TITLE = {**_LEFT_OVER_CHART, "showarrow": False}
"""An annotation of plotly's, without its text and height."""


class _Chart(NamedTuple):
    title: str
    field: str
    scale: float
    decimals: int
    unit: str


_CHARTS = (
    _Chart("FPS (environment steps per second)", "fps", 1.0, 0, "FPS"),
    _Chart("GPU utilisation (%)", "gpu_util_pct", 1.0, 1, "%"),
    _Chart("SMs busy (%)", "sm_pct", 1.0, 1, "%"),
    _Chart("VRAM used (GiB)", "memory_used_mib", 1 / 1024, 2, "GiB"),
    _Chart("Power (W)", "power_w", 1.0, 1, "W"),
    _Chart("Temperature (°C)", "temperature_c", 1.0, 1, "°C"),
)


class _Bar(NamedTuple):
    """An attempt, or several short ones, on the timeline."""

    slot: str
    state: WorkerState
    started: float
    ended: float
    texts: list[str]


def points(slots: int) -> int:
    """The most points of a line."""
    return max(100, min(_MAX_POINTS, _ALL_POINTS // (len(_CHARTS) * max(slots, 1))))


def slots_of(data: ReportData, metrics: Iterable[MetricsRow]) -> list[str]:
    """The slots with attempts or metrics, in the session's order."""
    seen = {one.slot for attempts in data.attempts.values() for one in attempts} | {row.slot for row in metrics}
    declared = [slot.name for slot in data.session.slots] if data.session is not None else []
    return [slot for slot in declared if slot in seen] + sorted(seen - set(declared))


def figure(data: ReportData, metrics: Sequence[MetricsRow]) -> dict[str, Any]:
    """The charts as a plotly figure; `metrics` slot by slot, in order of time."""
    slots = slots_of(data, metrics)
    shown = [chart for chart in _CHARTS if any(getattr(row, chart.field) is not None for row in metrics)]
    heights = [max(2, len(slots)) * _ROW_PX, *(_CHART_PX for _ in shown)]
    inner = sum(heights) + _GAP_PX * len(shown)
    layout = _layout(data, inner)
    traces: list[dict[str, Any]] = []
    top = float(inner)
    for place, height in enumerate(heights):
        axis = f"y{place + 1}" if place else "y"
        domain = [max(0.0, (top - height) / inner), top / inner]
        if place == 0:
            title = "Jobs on their slots"
            traces += _timeline(data)
            own: dict[str, Any] = {"categoryorder": "array", "categoryarray": slots[::-1], "type": "category"}
        else:
            chart = shown[place - 1]
            title = chart.title
            traces += _lines(chart, metrics, slots, axis, legend=place == 1)
            own = {"rangemode": "tozero", "hoverformat": f",.{chart.decimals}f"}
        layout[axis.replace("y", "yaxis")] = {"domain": domain, "automargin": True, "zeroline": False, **own}
        layout["annotations"].append({**_TITLE, "text": f"<b>{title}</b>", "y": domain[1]})
        top -= height + _GAP_PX
    layout["xaxis"]["anchor"] = f"y{len(heights)}" if len(heights) > 1 else "y"
    return {"data": traces, "layout": layout}


def _layout(data: ReportData, inner: int) -> dict[str, Any]:
    zone = time.strftime("%z", time.localtime(data.until))
    return {
        "height": inner + _TOP_PX + _BOTTOM_PX,
        "margin": {"l": 20, "r": 12, "t": _TOP_PX, "b": _BOTTOM_PX},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 12},
        "barmode": "overlay",
        "hovermode": "closest",
        "hoverlabel": {"align": "left"},
        "legend": {"orientation": "h", "y": -64 / inner, "yanchor": "top", "x": 0},
        "xaxis": {"type": "date", "title": {"text": f"time (UTC{zone[:3]}:{zone[3:]})"}, "zeroline": False},
        "annotations": [],
    }


def _ms(moment: float) -> float:
    """Unix seconds as milliseconds for the axis, shifted to show local time."""
    return round((moment + time.localtime(moment).tm_gmtoff) * 1000, 1)


def _timeline(data: ReportData) -> list[dict[str, Any]]:
    """The attempts as bars, a trace for each state."""
    bars = _bars(data)
    if len(bars) > _MAX_BARS:
        bars = _joined(bars)
    by_state: dict[WorkerState, list[_Bar]] = {}
    for bar in bars:
        by_state.setdefault(bar.state, []).append(bar)
    return [
        {
            "type": "bar",
            "orientation": "h",
            "name": state.value,
            "legendgroup": f"state {state.value}",
            "y": [bar.slot for bar in found],
            "base": [_ms(bar.started) for bar in found],
            "x": [round((bar.ended - bar.started) * 1000, 1) for bar in found],
            "width": 0.72,
            "marker": {
                "color": _STATES.get(state, _LIVE),
                "line": {"width": 0.5, "color": "rgba(128,128,128,0.9)"},
                "pattern": {"shape": "/" if state is WorkerState.FAILED else ""},
            },
            "hoverinfo": "text",
            "hovertext": [_hover(bar) for bar in found],
        }
        for state, found in sorted(by_state.items())
    ]


def _bars(data: ReportData) -> list[_Bar]:
    jobs = {job.number: job for job in data.jobs}
    bars = []
    for number, attempts in data.attempts.items():
        job = jobs.get(number)
        for one in attempts:
            if (span := attempt_span(data, one)) is None:
                continue
            attempt = one.attempt
            lines = [f"<b>{plain(job.name if job else str(number))}</b>, attempt {attempt.number}"]
            lines.append(f"{attempt.state.value} on {plain(one.slot)}, {units.span(span[1] - span[0])}")
            if job is not None:
                lines += [f"{plain(name)} = {plain(str(value))}" for name, value in list(job.values.items())[:12]]
                reached = attempt.metrics
                fps = reached.settled or reached.fps if reached else job.fps.best_known if job.fps else None
                lines += [f"{units.fps(fps)} FPS"] if fps is not None else []
            lines += [plain(attempt.reason)] if attempt.reason else []
            bars.append(_Bar(one.slot, attempt.state, *span, ["<br>".join(lines)]))
    return sorted(bars, key=lambda bar: (bar.slot, bar.started))


def _joined(bars: Sequence[_Bar]) -> list[_Bar]:
    """`bars` with neighbours of the same state joined where they are too short to be distinguished."""
    span = max(bar.ended for bar in bars) - min(bar.started for bar in bars)
    short = span * len({bar.slot for bar in bars}) / _MAX_BARS
    joined: list[_Bar] = []
    for bar in bars:
        last = joined[-1] if joined else None
        if (
            last is not None
            and (last.slot, last.state) == (bar.slot, bar.state)
            and bar.ended - bar.started < short
            and bar.started - last.ended < short
            and (len(last.texts) > 1 or last.ended - last.started < short)
        ):
            joined[-1] = last._replace(ended=max(last.ended, bar.ended), texts=[*last.texts, *bar.texts])
        else:
            joined.append(bar)
    return joined


def _hover(bar: _Bar) -> str:
    if len(bar.texts) == 1:
        return bar.texts[0]
    first, last = (text.partition("<br>")[0] for text in (bar.texts[0], bar.texts[-1]))
    return f"{len(bar.texts):,} attempts, {bar.state.value}<br>from {first}<br>to {last}"


def _lines(
    chart: _Chart, metrics: Sequence[MetricsRow], slots: Sequence[str], axis: str, *, legend: bool
) -> list[dict[str, Any]]:
    """A line for each slot."""
    by_slot: dict[str, list[MetricsRow]] = {slot: [] for slot in slots}
    for row in metrics:
        by_slot[row.slot].append(row)
    traces = []
    for place, (slot, rows) in enumerate(by_slot.items()):
        xs, ys = _broken(chart, rows)
        if not xs:
            continue
        traces.append(
            {
                "type": "scatter",
                "mode": "lines" if len(xs) > 1 else "markers",
                "name": plain(slot),
                "legendgroup": f"slot {slot}",
                "showlegend": legend,
                "xaxis": "x",
                "yaxis": axis,
                "x": xs,
                "y": ys,
                "connectgaps": False,
                "line": {
                    "width": 1.6,
                    "color": COLOURS[place % len(COLOURS)],
                    "dash": _DASHES[place // len(COLOURS) % len(_DASHES)],
                },
                "hovertemplate": f"%{{y}} {chart.unit}<br>%{{x|%H:%M:%S}}",
            }
        )
    return traces


def _broken(chart: _Chart, rows: Sequence[MetricsRow]) -> tuple[list[float], list[float | None]]:
    """The points of a line, which is interrupted where a job ends and where there are no samples."""
    xs: list[float] = []
    ys: list[float | None] = []
    steps = sorted(later.time - earlier.time for earlier, later in pairwise(rows))
    longest = _GAP_STEPS * steps[len(steps) // 2] if steps else 0.0
    last: MetricsRow | None = None
    for row in rows:
        value = _value(row, chart.field)
        if last is not None and ((row.job != last.job and chart.field == "fps") or row.time - last.time > longest):
            xs.append(xs[-1])
            ys.append(None)
        last = row
        xs.append(_ms(row.time))
        ys.append(None if value is None else float(f"{value * chart.scale:.6g}"))
    return (xs, ys) if any(y is not None for y in ys) else ([], [])


def _value(row: MetricsRow, field: str) -> float | None:
    """A metric of a row; of the FPS the settled rate, where it is known."""
    if field == "fps" and row.fps_settled is not None:
        return row.fps_settled
    value: float | None = getattr(row, field)
    return value


def plain(text: str, limit: int = 200) -> str:
    """Text from a worker, escaped so that plotly shows it literally."""
    return escape(text if len(text) <= limit else f"{text[: limit - 1]}…")
