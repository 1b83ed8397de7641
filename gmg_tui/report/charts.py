"""The page's charts, on one axis of time: the jobs on their slots, and what the slots did."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise
from typing import Any, NamedTuple

from gmg_tui import units
from gmg_tui.model import WorkerState
from gmg_tui.report.account import Account, attempt_span
from gmg_tui.store.records import FiguresRow

_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C8C8C")
"""Okabe and Ito's, which the colour-blind can tell apart, less the two that a light or a dark page would swallow."""
_DASHES = ("solid", "dash", "dot", "dashdot")
"""For slots beyond the colours."""
_STATES = {
    WorkerState.FINISHED: "#009E73",
    WorkerState.FAILED: "#D55E00",
    WorkerState.STOPPED: "#E69F00",
}
_LIVE = "#56B4E9"
_MAX_BARS = 2000
"""More attempts are joined where they are too short to be told apart."""
_MAX_POINTS = 2000
_ALL_POINTS = 60_000
"""Of each line, and of all together."""

_GAP_STEPS = 5
"""A time without figures that is so many usual steps long is a gap in a line: nothing ran there."""

_ROW_PX = 26
_CHART_PX = 170
_GAP_PX = 58
_TOP_PX, _BOTTOM_PX = 40, 110


class _Chart(NamedTuple):
    title: str
    field: str
    scale: float
    decimals: int
    unit: str


_CHARTS = (
    _Chart("FPS (environment steps per second)", "fps", 1.0, 0, "FPS"),
    _Chart("GPU utilisation (%)", "gpu_util_pct", 1.0, 1, "%"),
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
    """How many points each line may have."""
    return max(100, min(_MAX_POINTS, _ALL_POINTS // (len(_CHARTS) * max(slots, 1))))


def slots_of(told: Account, figures: Iterable[FiguresRow]) -> list[str]:
    """The slots that there is anything to show of, in the session's order."""
    seen = {one.slot for attempts in told.attempts.values() for one in attempts} | {row.slot for row in figures}
    declared = [slot.name for slot in told.session.slots] if told.session is not None else []
    return [slot for slot in declared if slot in seen] + sorted(seen - set(declared))


def figure(told: Account, figures: Sequence[FiguresRow]) -> dict[str, Any]:
    """The figure in the plotting library's form: data and layout.

    Args:
        told: The session's account.
        figures: Its figures, slot by slot, in the order of time.
    """
    slots = slots_of(told, figures)
    shown = [chart for chart in _CHARTS if any(getattr(row, chart.field) is not None for row in figures)]
    heights = [max(2, len(slots)) * _ROW_PX, *(_CHART_PX for _ in shown)]
    inner = sum(heights) + _GAP_PX * len(shown)
    layout = _layout(told, inner)
    data: list[dict[str, Any]] = []
    top = float(inner)
    for place, height in enumerate(heights):
        axis = f"y{place + 1}" if place else "y"
        domain = [max(0.0, (top - height) / inner), top / inner]
        if place == 0:
            title = "Jobs on their slots"
            data += _timeline(told)
            own: dict[str, Any] = {"categoryorder": "array", "categoryarray": slots[::-1], "type": "category"}
        else:
            chart = shown[place - 1]
            title = chart.title
            data += _lines(chart, figures, slots, axis, legend=place == 1)
            own = {"rangemode": "tozero", "hoverformat": f",.{chart.decimals}f"}
        layout[axis.replace("y", "yaxis")] = {"domain": domain, "automargin": True, "zeroline": False, **own}
        layout["annotations"].append(_title(title, domain[1]))
        top -= height + _GAP_PX
    layout["xaxis"]["anchor"] = f"y{len(heights)}" if len(heights) > 1 else "y"
    return {"data": data, "layout": layout}


def _layout(told: Account, inner: int) -> dict[str, Any]:
    zone = time.strftime("%z", time.localtime(told.until))
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


def _title(text: str, top: float) -> dict[str, Any]:
    return {
        "text": f"<b>{text}</b>",
        "x": 0,
        "xref": "paper",
        "xanchor": "left",
        "y": top,
        "yref": "paper",
        "yanchor": "bottom",
        "yshift": 6,
        "showarrow": False,
    }


def _ms(moment: float) -> float:
    """Unix seconds as the axis has them: milliseconds, shifted so that the local time is shown."""
    return round((moment + time.localtime(moment).tm_gmtoff) * 1000, 1)


def _timeline(told: Account) -> list[dict[str, Any]]:
    """The attempts as bars, a set for each state."""
    bars = _bars(told)
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


def _bars(told: Account) -> list[_Bar]:
    jobs = {job.number: job for job in told.jobs}
    bars = []
    for number, attempts in told.attempts.items():
        job = jobs.get(number)
        for one in attempts:
            if (span := attempt_span(told, one)) is None:
                continue
            attempt = one.attempt
            lines = [f"<b>{plain(job.name if job else str(number))}</b>, attempt {attempt.number}"]
            lines.append(f"{attempt.state.value} on {plain(one.slot)}, {units.span(span[1] - span[0])}")
            if job is not None:
                lines += [f"{plain(name)} = {plain(str(value))}" for name, value in list(job.values.items())[:12]]
                fps = attempt.figures.fps if attempt.figures else (job.fps.last if job.fps else None)
                lines += [f"{units.fps(fps)} FPS"] if fps is not None else []
            lines += [plain(attempt.reason)] if attempt.reason else []
            bars.append(_Bar(one.slot, attempt.state, *span, ["<br>".join(lines)]))
    return sorted(bars, key=lambda bar: (bar.slot, bar.started))


def _joined(bars: Sequence[_Bar]) -> list[_Bar]:
    """Neighbours of one state that are too short to be told apart as one bar."""
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
    chart: _Chart, figures: Sequence[FiguresRow], slots: Sequence[str], axis: str, *, legend: bool
) -> list[dict[str, Any]]:
    """A line for each slot."""
    by_slot: dict[str, list[FiguresRow]] = {slot: [] for slot in slots}
    for row in figures:
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
                    "color": _COLOURS[place % len(_COLOURS)],
                    "dash": _DASHES[place // len(_COLOURS) % len(_DASHES)],
                },
                "hovertemplate": f"%{{y}} {chart.unit}<br>%{{x|%H:%M:%S}}",
            }
        )
    return traces


def _broken(chart: _Chart, rows: Sequence[FiguresRow]) -> tuple[list[float], list[float | None]]:
    """The points of a line, which is broken where a job ends and where nothing is known."""
    xs: list[float] = []
    ys: list[float | None] = []
    steps = sorted(later.time - earlier.time for earlier, later in pairwise(rows))
    longest = _GAP_STEPS * steps[len(steps) // 2] if steps else 0.0
    last: FiguresRow | None = None
    for row in rows:
        value = getattr(row, chart.field)
        if last is not None and ((row.job != last.job and chart.field == "fps") or row.time - last.time > longest):
            xs.append(xs[-1])
            ys.append(None)
        last = row
        xs.append(_ms(row.time))
        ys.append(None if value is None else float(f"{value * chart.scale:.6g}"))
    return (xs, ys) if any(y is not None for y in ys) else ([], [])


def plain(text: str, limit: int = 200) -> str:
    """Text of a worker, that the plotting library shows as it is."""
    return escape(text if len(text) <= limit else f"{text[: limit - 1]}…")
