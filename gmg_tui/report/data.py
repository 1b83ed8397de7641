"""What a report is made of: a session's jobs and attempts, their order and their totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from gmg_tui.errors import GmgError
from gmg_tui.model import JobRecord, Session, WorkerState
from gmg_tui.model.jobs import speed_up
from gmg_tui.results.summary import Cell, cells, columns
from gmg_tui.store.reader import Stored
from gmg_tui.store.records import Event, JobAttempt
from gmg_tui.store.spans import covered_s
from gmg_tui.text import clean


class ReportData(Struct, frozen=True):
    """A session at one moment, as its store has it."""

    name: str
    session: Session | None
    """None where the engine died before it wrote it."""
    running: bool
    """Whether the engine is alive."""
    until: float
    """The latest moment known, Unix seconds."""
    jobs: list[JobRecord]
    attempts: dict[int, list[JobAttempt]]
    events: list[Event]

    @property
    def interrupted(self) -> list[JobRecord]:
        """The jobs that were running when the engine died."""
        return [] if self.running else [job for job in self.jobs if job.state.live]


class Totals(Struct, frozen=True):
    """All jobs together."""

    states: dict[str, int]
    """The number of jobs in each state."""
    total_s: float | None
    """From the first start to the last end, without long pauses in which nothing ran."""
    jobs_s: float | None
    """The sum of the times for which the jobs have occupied slots."""
    energy_j: float | None

    @property
    def speed_up(self) -> float | None:
        """How many times as long one slot would have taken; None where that is not known."""
        return speed_up(self.jobs_s, self.total_s)


class Order(Struct, frozen=True):
    """The order of a report's jobs."""

    column: str | None
    """The column by which they are ordered; None for the jobs' own order."""
    smallest_first: bool
    text: str
    """The order, in one line."""


def collect(stored: Stored, name: str, *, now: float | None = None) -> ReportData:
    """Collect what a report needs; `now` is Unix seconds while the session's engine is alive, None once it is not."""
    moments = [
        moment
        for attempts in stored.attempts.values()
        for one in attempts
        for moment in (one.attempt.started, one.attempt.ended)
        if moment
    ]
    moments += [moment for job in stored.jobs for moment in (job.started, job.ended) if moment]
    if stored.session is not None:
        moments.append(stored.session.started)
    until = now if now is not None else max(moments, default=0.0)
    return ReportData(name, stored.session, now is not None, until, stored.jobs, stored.attempts, stored.events)


def totals(data: ReportData) -> Totals:
    """The totals of a session's jobs."""
    times = [time * job.gpus for job in data.jobs if (time := job_s(data, job)) is not None]
    energies = [job.energy_j for job in data.jobs if job.energy_j is not None]
    spans = [
        span for attempts in data.attempts.values() for one in attempts if (span := attempt_span(data, one)) is not None
    ]
    return Totals(
        dict(Counter(job.state.value for job in data.jobs)),
        covered_s(spans) if spans else None,
        sum(times) if times else None,
        sum(energies) if energies else None,
    )


def job_s(data: ReportData, job: JobRecord) -> float | None:
    """How long a job has occupied slots, in seconds, up to now; None where it never has, or that is not known."""
    if data.running and job.updated is not None and job.elapsed_s is not None:
        return job.elapsed_s + max(0.0, data.until - job.updated)
    return job.elapsed_s


def attempt_span(data: ReportData, one: JobAttempt) -> tuple[float, float] | None:
    """When an attempt started and ended, Unix seconds; None where that is not known.

    An attempt that was running when the engine died counts up to the last moment known of the session; one that the
    job's next attempt followed counts as having ended at its start.
    """
    started, ended = one.attempt.started, one.attempt.ended
    if not started:
        return None
    if ended is None:
        later = [other.attempt.started for other in data.attempts[one.job] if other.attempt.number > one.attempt.number]
        ended = started if later else data.until
    return started, max(started, ended)


def choose_order(jobs: list[JobRecord], best: str | None) -> Order:
    """Choose the column by which the jobs are ordered.

    `best` is a column's name, with `-` before it for the smallest first; None for the first reported result, or the
    jobs' own order where there is none.

    Raises:
        GmgError: There is no such column; the text lists the columns.
    """
    wanted = columns(jobs)
    if best is None:
        first = next((column for column in wanted.results), None)
        if first is None:
            return Order(None, smallest_first=False, text="in job order")
        return Order(first, smallest_first=False, text=f"by {first}, the largest first")
    smallest = best.startswith("-") and best not in wanted.header
    column = best.removeprefix("-") if smallest else best
    if column == "fps" and column not in wanted.header:
        column = "fps_settled"
    if column not in wanted.header:
        names = clean(", ".join(wanted.header).encode(errors="replace"))
        raise GmgError(f"no column {column}; there are: {names}")
    return Order(column, smallest, f"by {column}, the {'smallest' if smallest else 'largest'} first")


def ordered(jobs: list[JobRecord], order: Order) -> list[JobRecord]:
    """The jobs in an order; failed ones after the others, those without a value in the column last."""
    if order.column is None:
        return jobs
    wanted = columns(jobs)
    place = wanted.header.index(order.column)
    keyed = [(cells(job, wanted)[place], job) for job in jobs]
    known = [(_rank(cell), job) for cell, job in keyed if cell is not None]
    known.sort(key=lambda pair: pair[0], reverse=not order.smallest_first)
    known.sort(key=lambda pair: pair[1].state is WorkerState.FAILED)
    return [job for _, job in known] + [job for cell, job in keyed if cell is None]


def _rank(cell: Cell) -> tuple[bool, float, str]:
    """Numbers by size; texts below all numbers, alphabetically."""
    return (False, 0, cell) if isinstance(cell, str) else (True, cell or 0, "")


def failed(jobs: Iterable[JobRecord]) -> list[JobRecord]:
    """Those that failed."""
    return [job for job in jobs if job.state is WorkerState.FAILED]
