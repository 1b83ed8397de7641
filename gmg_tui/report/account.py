"""A session's account: its jobs, their order, and what they came to together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from gmg_tui.errors import GmgError
from gmg_tui.model import JobRecord, Session, WorkerState
from gmg_tui.results.summary import Cell, cells, columns
from gmg_tui.store.reader import Stored
from gmg_tui.store.records import Event, JobAttempt
from gmg_tui.store.spans import covered_s
from gmg_tui.text import clean


class Account(Struct, frozen=True):
    """All that a report tells, of one moment."""

    name: str
    session: Session | None
    """None where the engine did not come to write it."""
    running: bool
    """Whether the engine lives."""
    until: float
    """Up to when something is known, Unix seconds."""
    jobs: list[JobRecord]
    attempts: dict[int, list[JobAttempt]]
    events: list[Event]

    @property
    def place(self) -> str:
        """What a job holds while it runs: a card, or a slot where there are none."""
        return "card" if any(job.gpu_uuid is not None for job in self.jobs) else "slot"

    @property
    def interrupted(self) -> list[JobRecord]:
        """The jobs whose engine died while they ran."""
        return [] if self.running else [job for job in self.jobs if job.state.live]


class Totals(Struct, frozen=True):
    """What all jobs came to together."""

    states: dict[str, int]
    """How many jobs are in each state."""
    total_s: float | None
    """From the first start to the last end, without long pauses in which nothing ran."""
    jobs_s: float | None
    """The sum of the jobs' own times."""
    energy_j: float | None

    @property
    def speed_up(self) -> float | None:
        """How many times as long one card would have taken."""
        return self.jobs_s / self.total_s if self.jobs_s and self.total_s else None


class Order(Struct, frozen=True):
    """The order of a report's jobs."""

    column: str | None
    """The column by which they are ordered; None for the jobs' own order."""
    smallest_first: bool
    text: str
    """What the order is, in one line."""


def account(stored: Stored, name: str, *, now: float | None = None) -> Account:
    """The account of a session.

    Args:
        stored: Its store.
        name: Its name.
        now: Unix seconds while its engine lives; None when it does not.
    """
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
    return Account(name, stored.session, now is not None, until, stored.jobs, stored.attempts, stored.events)


def totals(told: Account) -> Totals:
    """What the jobs of a session came to together."""
    times = [time for job in told.jobs if (time := job_s(told, job)) is not None]
    energies = [job.energy_j for job in told.jobs if job.energy_j is not None]
    spans = [
        span for attempts in told.attempts.values() for one in attempts if (span := attempt_span(told, one)) is not None
    ]
    return Totals(
        dict(Counter(job.state.value for job in told.jobs)),
        covered_s(spans) if spans else None,
        sum(times) if times else None,
        sum(energies) if energies else None,
    )


def job_s(told: Account, job: JobRecord) -> float | None:
    """How long a job has held slots, in seconds; None where it never has, or nobody knows."""
    if told.running and job.state.live:
        # Its record was written when its state changed last.
        spans = [attempt_span(told, one) for one in told.attempts.get(job.number, ())]
        return sum(span[1] - span[0] for span in spans if span is not None)
    return job.elapsed_s


def attempt_span(told: Account, one: JobAttempt) -> tuple[float, float] | None:
    """When an attempt started and ended, Unix seconds; None where that is not known.

    One that had not ended when the engine died is taken to have ended with the last that is known of the session
    before the job's next attempt.
    """
    started, ended = one.attempt.started, one.attempt.ended
    if not started:
        return None
    if ended is None:
        later = [other.attempt.started for other in told.attempts[one.job] if other.attempt.number > one.attempt.number]
        ended = started if later else told.until
    return started, max(started, ended)


def choose_order(jobs: list[JobRecord], best: str | None) -> Order:
    """By which column the jobs are ordered.

    Args:
        jobs: The jobs.
        best: A column's name, with `-` before it for the smallest first; None for the first reported result, or the
            jobs' own order where there is none.

    Raises:
        GmgError: There is no such column; the text names those that there are.
    """
    wanted = columns(jobs)
    if best is None:
        first = next((column for column in wanted.results), None)
        if first is None:
            return Order(None, smallest_first=False, text="in the jobs' order")
        return Order(first, smallest_first=False, text=f"by {first}, the largest first")
    smallest = best.startswith("-") and best not in wanted.header
    column = best.removeprefix("-") if smallest else best
    if column == "fps" and column not in wanted.header:
        column = "fps_last"
    if column not in wanted.header:
        names = clean(", ".join(wanted.header).encode(errors="replace"))
        raise GmgError(f"no column {column}; there are: {names}")
    return Order(column, smallest, f"by {column}, the {'smallest' if smallest else 'largest'} first")


def ordered(jobs: list[JobRecord], order: Order) -> list[JobRecord]:
    """The jobs in an order; those that failed come after the others, and those that lack the column's figure last."""
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
    """Numbers by their size; texts below all of them, by the alphabet."""
    return (False, 0, cell) if isinstance(cell, str) else (True, cell or 0, "")


def failed(jobs: Iterable[JobRecord]) -> list[JobRecord]:
    """Those that failed."""
    return [job for job in jobs if job.state is WorkerState.FAILED]
