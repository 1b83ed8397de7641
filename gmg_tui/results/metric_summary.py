"""The best and last values of the metrics of a session's jobs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from gmg_tui.model import JobRecord, Point, units
from gmg_tui.model.curves import best_of, rank
from gmg_tui.results.column import Column

MAX_ROWS = 12
"""Metrics to show on a terminal."""


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
        return fmean(self.last) if self.last else None

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
        Column("metric", lambda of: of.name, left=True, priority=100),
        Column("last", lambda of: of.mean, "mean of last" if any(len(of.last) > 1 for of in summaries) else "last"),
        Column("band", lambda of: of.band, "lowest to highest", priority=40),
        Column("best", lambda of: of.best.value, priority=80),
        Column("best_step", lambda of: of.best.step, "at step", priority=80),
        Column("job", lambda of: of.job, what, left=True, priority=60, limit=28),
    ]
