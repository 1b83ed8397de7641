"""Metrics over time, as CSV and as charts of a page, and their best and last values."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from gmg_tui.model import Curve, JobRecord, Point, units
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
"""The curves of attempts of runs, by metric and label."""
_MAX_PLACES = 400
MAX_CHARTS = 24
MAX_LINES = 60
"""Maximum jobs in one chart; the first are drawn."""
MAX_ROWS = 12


class _Point(NamedTuple):
    """A row of the CSV file: a metric of one process of a job at one point in time. The fields are the columns."""

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


def csv(jobs: Iterable[JobRecord], stored: Stored) -> Iterator[bytes]:
    """Yields the lines of a CSV file with all points of all metrics."""
    return as_csv(_COLUMNS, _points(jobs, stored))


def _points(jobs: Iterable[JobRecord], stored: Stored) -> Iterator[_Point]:
    for job in jobs:
        for ran in stored.curves_of(job.number):
            for name, curve in ran.curves.items():
                for time, step, value in curve.points:
                    at = iso_ms(time)
                    yield _Point(job.number, job.name, ran.slot, ran.number, ran.rank, name, at, step, value)


def charts(jobs: Iterable[JobRecord], stored: Stored, colours: tuple[str, ...]) -> Iterator[Figure]:
    """Yields a chart of each metric over the script's steps, or over hours without any; rewards come first.

    Each job is one line; a later attempt's values replace those of repeated steps.
    """
    lines: _Lines = {}
    _add(lines, stored, ((job, job.name) for job in jobs))
    yield from _figures(lines, colours)


def compared(sessions: Iterable[ReportData], colours: tuple[str, ...]) -> Iterator[Figure]:
    """Yields the charts of several sessions, with mean and band of jobs with equal settings. Raises `StoreError`."""
    lines: _Lines = {}
    for data in sessions:
        first: dict[object, str] = {}
        for job in data.jobs:
            first.setdefault(settings(job), job.name)
        several = len(first) > 1
        with open_store(data.folder / STORE) as stored:
            named = ((job, f"{data.name} {first[settings(job)]}" if several else data.name) for job in data.jobs)
            _add(lines, stored, named)
    yield from _figures(lines, colours)


def _add(lines: _Lines, stored: Stored, jobs: Iterable[tuple[JobRecord, str]]) -> None:
    """Adds the curves of labelled jobs."""
    for job, label in islice(jobs, MAX_LINES):
        by_name: dict[str, list[Curve]] = {}
        for ran in stored.curves_of(job.number):
            for name, curve in ran.curves.items() if ran.rank == 0 else ():
                by_name.setdefault(name, []).append(curve)
        for name, curves in by_name.items():
            lines.setdefault(name, {}).setdefault(label, []).append(curves)


def _figures(lines: _Lines, colours: tuple[str, ...]) -> Iterator[Figure]:
    from plotly.graph_objects import Figure

    # Metrics with a single value per run are in the tables, and in the charts by job.
    drawn = [name for name, by_label in lines.items() if any(len(curve.times) > 1 for curve in _curves(by_label))]
    for name in sorted(drawn, key=lambda name: (rank(name), name))[:MAX_CHARTS]:
        figure, every = Figure(), list(_curves(lines[name]))
        by_step = all(None not in curve.steps for curve in every)
        for number, (label, runs) in enumerate(lines[name].items()):
            joined, colour = [_joined(curves, by_step=by_step) for curves in runs], colours[number % len(colours)]
            places, values = joined[0]
            if len(joined) > 1:
                places, values, lowest, highest = _band(joined)
                edge = {"mode": "lines", "line": {"width": 0}, "showlegend": False, "hoverinfo": "skip"}
                figure.add_scatter(x=places, y=highest, **edge)
                shade = "rgba({},{},{},0.2)".format(*bytes.fromhex(colour[1:]))
                figure.add_scatter(x=places, y=lowest, fill="tonexty", fillcolor=shade, **edge)
            line = {"color": colour, "width": 1.5}
            mode = "lines" if len(places) > 1 else "markers"  # a line of one point is invisible
            figure.add_scatter(x=places, y=values, mode=mode, name=escape(label), line=line)
        title, order = {"text": escape(name), "x": 0}, {"traceorder": "normal"}
        figure.update_layout(title=title, showlegend=len(lines[name]) > 1, legend=order)
        figure.update_xaxes(title_text="step" if by_step else "hours")
        yield figure


def _curves(by_label: dict[str, list[list[Curve]]]) -> Iterator[Curve]:
    """Yields the curves of all runs."""
    return chain.from_iterable(chain.from_iterable(by_label.values()))


def _band(
    lines: Sequence[tuple[list[float], list[float]]],
) -> tuple[list[float], list[float], list[float], list[float]]:
    """Returns x positions, with the mean, minimum and maximum of the lines at each."""
    every = sorted({place for places, _ in lines for place in places})
    every = sorted({*every[:: -(-len(every) // _MAX_PLACES)], every[-1]})
    known = [[value for line in lines if (value := _at(place, *line)) is not None] for place in every]
    return (
        every,
        [sum(values) / len(values) for values in known],  # `fmean` raises for both infinities
        [min(values) for values in known],
        [max(values) for values in known],
    )


def _at(place: float, places: list[float], values: list[float]) -> float | None:
    """Returns the value of a line at a place, interpolated; None beyond its ends."""
    after = bisect_left(places, place)
    if after == len(places) or (not after and places[0] != place):
        return None
    if places[after] == place:
        return values[after]
    share = (place - places[after - 1]) / (places[after] - places[after - 1])
    return values[after - 1] + share * (values[after] - values[after - 1])


def _joined(curves: list[Curve], *, by_step: bool) -> tuple[list[float], list[float]]:
    """Joins the curves of a job's attempts, oldest first. Returns steps, or hours since the first value, and values."""
    joined: dict[float, float] = {}
    begin = curves[0].times[0]
    for curve in curves:
        points = [
            (step if by_step and step is not None else (time - begin) / 3600, value)
            for time, step, value in curve.points
        ]
        joined = {at: value for at, value in joined.items() if at < points[0][0]} | dict(points)
    places = sorted(joined)
    return places, [joined[place] for place in places]


class Summary(NamedTuple):
    """A metric of a session."""

    name: str
    best: Point
    job: str
    """The job with the best value."""
    last: tuple[float, ...]
    """The last values of that job and of others with equal settings except the seed."""

    @property
    def mean(self) -> float | None:
        """The mean of the last values; None without any."""
        return mean(self.last)

    @property
    def band(self) -> str | None:
        """The range of the last values; None if there is only one."""
        return f"{units.number(min(self.last))} to {units.number(max(self.last))}" if len(self.last) > 1 else None

    def as_json(self) -> dict[str, Any]:
        """Returns the summary as plain data."""
        low, high = (min(self.last), max(self.last)) if self.last else (None, None)
        best = {"best": self.best.value, "best_step": self.best.step, "job": self.job}
        return {"last": self.mean, "lowest_last": low, "highest_last": high, "runs": len(self.last), **best}


def settings(job: JobRecord) -> object:
    """Returns a job's settings without its seed."""
    given = job.args if job.values else job.last.given  # a sweep's jobs have one command, with their values filled in
    return given, tuple(pair for pair in job.values.items() if pair[0] != "seed")


def summaries(jobs: Iterable[JobRecord], best: Mapping[int, Mapping[str, Point]]) -> list[Summary]:
    """Returns the metrics of jobs, rewards first; `best` has the best values by job number."""
    known = [job for job in jobs if job.number in best]
    made = []
    for name in sorted({name for job in known for name in best[job.number]}, key=lambda name: (rank(name), name)):
        having = [job for job in known if name in best[job.number]]
        leader = best_of(name, (best[job.number][name] for job in having))
        winner = next(job for job in having if best[job.number][name] is leader)
        alike = (job for job in having if settings(job) == settings(winner))
        last = (value for job in alike if (value := job.last.numbers.get(name)) is not None and math.isfinite(value))
        if leader is not None:
            made.append(Summary(name, leader, winner.name, tuple(last)))
    return made


def columns(summaries: Sequence[Summary], what: str) -> list[Column[Summary]]:
    """Returns the columns of a table of metrics; `what` is the title of the jobs' names."""
    return [
        Column("metric", lambda of: of.name, align_left=True, priority=100),
        Column("last", lambda of: of.mean, "mean of last" if any(len(of.last) > 1 for of in summaries) else "last"),
        Column("band", lambda of: of.band, "lowest to highest", priority=40),
        Column("best", lambda of: of.best.value, priority=80),
        Column("best_step", lambda of: of.best.step, "at step", priority=80),
        Column("job", lambda of: of.job, what, align_left=True, priority=60, max_width=28),
    ]
