"""Metrics over time, as CSV and as charts of a page, and a summary with the best and last values of each metric."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from gmg_tui.model import Curve, JobRecord, Point, WorkerState, units
from gmg_tui.model.attempt import mean
from gmg_tui.model.curves import best_of, rank
from gmg_tui.results.column import Column, as_csv
from gmg_tui.results.job_columns import iso_ms
from gmg_tui.session import STORE
from gmg_tui.session.store.reader import Stored, open_store

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from gmg_tui.results.report import ReportData


_Lines = dict[str, dict[str, list[list[Curve]]]]
"""The lines to draw, by metric and label: for each job, the curves of its attempts."""
_MAX_BAND_POINTS = 400
MAX_CHARTS = 24
MAX_LINES = 60
"""Maximum number of jobs to draw per session; later jobs are left out."""
MAX_ROWS = 12
"""Maximum metrics in a table on a terminal."""


class _Point(NamedTuple):
    """A row of the CSV file, with its columns: a value of a metric, reported by one process of a job."""

    job: int
    name: str
    slot: str
    attempt: int
    rank: int
    metric: str
    time: str | None
    step: int | None
    value: float


_COLUMNS = [Column[_Point](name, attrgetter(name)) for name in _Point._fields]


def points_csv(jobs: Iterable[JobRecord], stored: Stored) -> Iterator[bytes]:
    """Yields the lines of a CSV file with all points of all metrics."""
    return as_csv(_COLUMNS, _points(jobs, stored))


def _points(jobs: Iterable[JobRecord], stored: Stored) -> Iterator[_Point]:
    for job in jobs:
        for attempt in stored.curves_of(job.number):
            for name, curve in attempt.curves.items():
                for time, step, value in curve.points:
                    process = (job.number, job.name, attempt.slot, attempt.number, attempt.rank)
                    yield _Point(*process, name, iso_ms(time), step, value)


def draw_charts(jobs: Iterable[JobRecord], stored: Stored, colours: tuple[str, ...]) -> Iterator[Figure]:
    """Yields a chart of each metric with several values, over steps, or hours if a value has no step; rewards first.

    Each job is one line. If an attempt repeats steps, its values replace those of earlier attempts.
    """
    lines: _Lines = {}
    _add_jobs(lines, stored, ((job, job.name) for job in jobs))
    yield from _draw(lines, colours)


def draw_comparison(sessions: Iterable[ReportData], colours: tuple[str, ...]) -> Iterator[Figure]:
    """Yields the charts of several sessions; jobs with equal settings are one line with a band. Raises `StoreError`."""
    lines: _Lines = {}
    for data in sessions:
        labels: dict[object, str] = {}
        for job in data.jobs:
            labels.setdefault(settings(job), job.name)
        several = len(labels) > 1
        with open_store(data.folder / STORE, copied=True) as stored:
            labelled = ((job, f"{data.name} {labels[settings(job)]}" if several else data.name) for job in data.jobs)
            _add_jobs(lines, stored, labelled)
    yield from _draw(lines, colours)


def _add_jobs(lines: _Lines, stored: Stored, labelled: Iterable[tuple[JobRecord, str]]) -> None:
    """Adds the curves of the jobs to the lines with their labels."""
    for job, label in islice(labelled, MAX_LINES):
        by_name: dict[str, list[Curve]] = {}
        for attempt in stored.curves_of(job.number):
            for name, curve in attempt.curves.items() if attempt.rank == 0 else ():
                by_name.setdefault(name, []).append(curve)
        for name, curves in by_name.items():
            lines.setdefault(name, {}).setdefault(label, []).append(curves)


def _draw(lines: _Lines, colours: tuple[str, ...]) -> Iterator[Figure]:
    from plotly.graph_objects import Figure

    # Metrics with a single value per attempt are in the tables, and in the charts by job.
    drawn = [name for name, by_label in lines.items() if any(len(curve.times) > 1 for curve in _curves(by_label))]
    for name in sorted(drawn, key=lambda name: (rank(name), name))[:MAX_CHARTS]:
        figure = Figure()
        by_step = all(None not in curve.steps for curve in _curves(lines[name]))
        for number, (label, jobs) in enumerate(lines[name].items()):
            joined, colour = [_join(curves, by_step=by_step) for curves in jobs], colours[number % len(colours)]
            xs, ys = joined[0]
            if len(joined) > 1:
                xs, ys, lowest, highest = _band(joined)
                edge = {"mode": "lines", "line": {"width": 0}, "showlegend": False, "hoverinfo": "skip"}
                figure.add_scatter(x=xs, y=highest, **edge)
                shade = "rgba({},{},{},0.2)".format(*bytes.fromhex(colour[1:]))
                figure.add_scatter(x=xs, y=lowest, fill="tonexty", fillcolor=shade, **edge)
            line = {"color": colour, "width": 1.5}
            mode = "lines" if len(xs) > 1 else "markers"  # a line of one point is invisible
            figure.add_scatter(x=xs, y=ys, mode=mode, name=escape(label), line=line)
        title, legend = {"text": escape(name), "x": 0}, {"traceorder": "normal"}
        figure.update_layout(title=title, showlegend=len(lines[name]) > 1, legend=legend)
        figure.update_xaxes(title_text="step" if by_step else "hours")
        yield figure


def _curves(by_label: dict[str, list[list[Curve]]]) -> Iterator[Curve]:
    return chain.from_iterable(chain.from_iterable(by_label.values()))


def _band(
    lines: Sequence[tuple[list[float], list[float]]],
) -> tuple[list[float], list[float], list[float], list[float]]:
    """Returns x positions, and the mean, minimum and maximum of the lines at each."""
    xs = sorted({x for line_xs, _ in lines for x in line_xs})
    xs = sorted({*xs[:: -(-len(xs) // _MAX_BAND_POINTS)], xs[-1]})
    ys_at = [[y for line in lines if (y := _interpolate(x, *line)) is not None] for x in xs]
    return (
        xs,
        [sum(ys) / len(ys) for ys in ys_at],  # `fmean` raises if both infinities occur
        [min(ys) for ys in ys_at],
        [max(ys) for ys in ys_at],
    )


def _interpolate(x: float, xs: list[float], ys: list[float]) -> float | None:
    """Returns the y value of a line at `x`; None beyond the ends of the line."""
    after = bisect_left(xs, x)
    if after == len(xs) or (not after and xs[0] != x):
        return None
    if xs[after] == x:
        return ys[after]
    share = (x - xs[after - 1]) / (xs[after] - xs[after - 1])
    return ys[after - 1] + share * (ys[after] - ys[after - 1])


def _join(curves: list[Curve], *, by_step: bool) -> tuple[list[float], list[float]]:
    """Joins the curves of a job's attempts, oldest first. Returns steps, or hours since the first value, and values."""
    joined: dict[float, float] = {}
    start = curves[0].times[0]
    for curve in curves:
        points = [
            (step if by_step and step is not None else (time - start) / 3600, value)
            for time, step, value in curve.points
        ]
        joined = {x: value for x, value in joined.items() if x < points[0][0]} | dict(points)
    xs = sorted(joined)
    return xs, [joined[x] for x in xs]


class Summary(NamedTuple):
    """The best and last values of a metric in a session."""

    name: str
    best: Point
    job: str
    """The name of the job with the best value."""
    last: tuple[float, ...]
    """The last values of that job and of the others whose settings differ at most in the seed."""

    @property
    def mean(self) -> float | None:
        """The mean of the last values; None if there are none."""
        return mean(self.last)

    @property
    def band(self) -> str | None:
        """The range of the last values; None unless there are several."""
        return f"{units.number(min(self.last))} to {units.number(max(self.last))}" if len(self.last) > 1 else None

    def as_json(self) -> dict[str, Any]:
        """Returns the summary as plain data."""
        low, high = (min(self.last), max(self.last)) if self.last else (None, None)
        best = {"best": self.best.value, "best_step": self.best.step, "job": self.job}
        return {"last": self.mean, "lowest_last": low, "highest_last": high, "runs": len(self.last), **best}


def settings(job: JobRecord) -> object:
    """Returns a job's settings without its seed, for comparison."""
    args = job.args if job.values else job.last.given  # values replace placeholders in a sweep's arguments
    return args, tuple(pair for pair in job.values.items() if pair[0] != "seed")


def summarise(jobs: Iterable[JobRecord], best: Mapping[int, Mapping[str, Point]]) -> list[Summary]:
    """Returns a summary of each metric, rewards first; `best` has the best points by job number and metric.

    The last values are those of finished jobs, once there are any.
    """
    measured = [job for job in jobs if job.number in best]
    summaries = []
    for name in sorted({name for job in measured for name in best[job.number]}, key=lambda name: (rank(name), name)):
        with_metric = [job for job in measured if name in best[job.number]]
        best_point = best_of(name, (best[job.number][name] for job in with_metric))
        best_job = next(job for job in with_metric if best[job.number][name] is best_point)
        seeds = [job for job in with_metric if settings(job) == settings(best_job)]
        comparable = [job for job in seeds if job.state is WorkerState.FINISHED] or seeds
        last = (value for job in comparable if (value := job.last.metric(name)) is not None and math.isfinite(value))
        if best_point is not None:
            summaries.append(Summary(name, best_point, best_job.name, tuple(last)))
    return summaries


def columns(summaries: Sequence[Summary], job_title: str) -> list[Column[Summary]]:
    """Returns the columns of a table of metrics; `job_title` is the title of the column with the names of jobs."""
    last_title = "mean of last" if any(len(metric.last) > 1 for metric in summaries) else "last"
    return [
        Column("metric", lambda metric: metric.name, align_left=True, priority=100),
        Column("last", lambda metric: metric.mean, last_title),
        Column("band", lambda metric: metric.band, "lowest to highest", priority=40),
        Column("best", lambda metric: metric.best.value, priority=80),
        Column("best_step", lambda metric: metric.best.step, "at step", priority=80),
        Column("job", lambda metric: metric.job, job_title, align_left=True, priority=60, max_width=28),
    ]
