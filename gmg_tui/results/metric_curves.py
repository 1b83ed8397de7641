"""Metrics over time: as CSV, and as charts of a page with a line for each job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from gmg_tui.model import Curve, JobRecord
from gmg_tui.model.curves import rank
from gmg_tui.results.column import Column, as_csv
from gmg_tui.results.job_columns import moment
from gmg_tui.session.store.reader import Stored

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MAX_CHARTS = 24
MAX_LINES = 60
"""Jobs in one chart; of more, the first ones."""


class _Point(NamedTuple):
    """A metric of one process of a job at one moment."""

    job: JobRecord
    slot: str
    attempt: int
    rank: int
    name: str
    time: float
    step: int | None
    value: float


_COLUMNS = (
    Column[_Point]("job", lambda point: point.job.number),
    Column[_Point]("name", lambda point: point.job.name),
    Column[_Point]("slot", lambda point: point.slot),
    Column[_Point]("attempt", lambda point: point.attempt),
    Column[_Point]("rank", lambda point: point.rank),
    Column[_Point]("metric", lambda point: point.name),
    Column[_Point]("time", lambda point: moment(point.time)),
    Column[_Point]("step", lambda point: point.step),
    Column[_Point]("value", lambda point: point.value),
)


def csv(jobs: Iterable[JobRecord], stored: Stored, *, raw: bool = False) -> Iterator[bytes]:
    """Yields the lines of a CSV file with a row for each point of each metric."""
    return as_csv(_COLUMNS, _points(jobs, stored), raw=raw)


def _points(jobs: Iterable[JobRecord], stored: Stored) -> Iterator[_Point]:
    for job in jobs:
        for ran in stored.curves_of(job.number):
            for name, curve in ran.curves.items():
                for time, step, value in curve.points:
                    yield _Point(job, ran.slot, ran.number, ran.rank, name, time, step, value)


def charts(jobs: Iterable[JobRecord], stored: Stored, colours: tuple[str, ...]) -> Iterator[Figure]:
    """Yields a chart of each metric over the script's steps, or over hours if it names none; rewards come first.

    The attempts of a job are one line; where one attempt repeats steps of the one before, those of the later count.
    """
    from plotly.graph_objects import Figure

    lines: dict[str, dict[str, list[Curve]]] = {}
    for job in list(jobs)[:MAX_LINES]:
        for ran in stored.curves_of(job.number):
            for name, curve in ran.curves.items() if ran.rank == 0 else ():
                lines.setdefault(name, {}).setdefault(job.name, []).append(curve)
    for name in sorted(lines, key=lambda name: (rank(name), name))[:MAX_CHARTS]:
        figure, all_curves = Figure(), [curve for curves in lines[name].values() for curve in curves]
        by_step = all(None not in curve.steps for curve in all_curves)
        for number, (job_name, curves) in enumerate(lines[name].items()):
            steps, values = _joined(curves, by_step=by_step)
            line = {"color": colours[number % len(colours)], "width": 1.5}
            figure.add_scatter(x=steps, y=values, mode="lines", name=escape(job_name), line=line)
        figure.update_layout(title={"text": escape(name), "x": 0}, showlegend=len(lines[name]) > 1)
        figure.update_xaxes(title_text="step" if by_step else "hours")
        yield figure


def _joined(curves: list[Curve], *, by_step: bool) -> tuple[list[float], list[float]]:
    """Returns steps, or hours since the first value, and values of one job's attempts, given the oldest first."""
    joined: dict[float, float] = {}
    begin = curves[0].times[0]
    for curve in curves:
        points = [
            (step if by_step and step is not None else (time - begin) / 3600, value)
            for time, step, value in curve.points
        ]
        joined = {at: value for at, value in joined.items() if at < points[0][0]} | dict(points)
    return list(joined), list(joined.values())
