"""What waits to be written, in bounded memory, and what the store must hold should it have to be made anew."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable

from gmg_tui import units
from gmg_tui.model import JobRecord, Session
from gmg_tui.store.records import Event, FiguresRow, JobAttempt

MAX_EVENTS = 5_000
MAX_FIGURES = 20_000
"""Rows: some minutes of 64 slots, some megabytes."""
MAX_ATTEMPTS = 20_000
"""Attempts that are remembered for a store that has to be made anew; the oldest are forgotten first."""


class Backlog:
    """What waits to be written: of a job, an attempt and the session only the latest form.

    Jobs and attempts are never dropped; events and figures are when there are too many, and are counted.
    """

    def __init__(self) -> None:
        self.session: Session | None = None
        self.jobs: dict[int, JobRecord] = {}
        self.attempts: dict[tuple[int, int], JobAttempt] = {}
        self.events: deque[Event] = deque(maxlen=MAX_EVENTS)
        self.figures: deque[FiguresRow] = deque(maxlen=MAX_FIGURES)
        self._dropped_events = 0
        self._dropped_figures = 0

    @property
    def urgent(self) -> bool:
        """Whether there is more than figures, which can wait."""
        return bool(self.session or self.jobs or self.attempts or self.events)

    def __bool__(self) -> bool:
        return self.urgent or bool(self.figures)

    def add_event(self, event: Event) -> None:
        """Take an event."""
        self._dropped_events += len(self.events) == MAX_EVENTS
        self.events.append(event)

    def add_figures(self, rows: Iterable[FiguresRow]) -> None:
        """Take rows of figures."""
        for row in rows:
            self._dropped_figures += len(self.figures) == MAX_FIGURES
            self.figures.append(row)

    def merge(self, later: Backlog) -> None:
        """Take all of `later`."""
        self.session = later.session or self.session
        self.jobs.update(later.jobs)
        self.attempts.update(later.attempts)
        for event in later.events:
            self.add_event(event)
        self.add_figures(later.figures)
        self._dropped_events += later._dropped_events
        self._dropped_figures += later._dropped_figures

    def complete(self, known: Known) -> None:
        """Add what is known of the session, its jobs and its attempts and does not wait by itself."""
        self.session = self.session or known.session
        self.jobs = {**known.jobs, **self.jobs}
        self.attempts = {**known.attempts, **self.attempts}

    def all_events(self) -> list[Event]:
        """The events, and one more about what had to be dropped."""
        parts = []
        if self._dropped_events:
            parts.append(units.count(self._dropped_events, "event"))
        if self._dropped_figures:
            parts.append(f"{units.count(self._dropped_figures, 'row')} of figures")
        if not parts:
            return list(self.events)
        text = f"{' and '.join(parts)} dropped: too many waited while the store could not be written"
        return [*self.events, Event(time.time(), "dropped", text)]


class Known:
    """The latest form of all jobs and attempts of the session."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self.jobs: dict[int, JobRecord] = {}
        self.attempts: dict[tuple[int, int], JobAttempt] = {}

    def learn(self, backlog: Backlog) -> None:
        """Take what is about to be written."""
        self.session = backlog.session or self.session
        self.jobs.update(backlog.jobs)
        self.attempts.update(backlog.attempts)
        while len(self.attempts) > MAX_ATTEMPTS:
            del self.attempts[next(iter(self.attempts))]

    def recall(self, jobs: Iterable[JobRecord], attempts: Iterable[JobAttempt]) -> Backlog:
        """Take what the store holds from before, where nothing later is known.

        Returns:
            What was not known.
        """
        found = Backlog()
        found.jobs = {job.number: job for job in jobs if job.number not in self.jobs}
        found.attempts = {one.key: one for one in attempts if one.key not in self.attempts}
        self.jobs = {**found.jobs, **self.jobs}
        self.attempts = {**found.attempts, **self.attempts}
        return found
