"""What waits to be written, in bounded memory, and what a store that has to be rebuilt must contain."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable

from msgspec import structs

from gmg_tui import units
from gmg_tui.model import JobRecord, Session
from gmg_tui.store.moments import Moment
from gmg_tui.store.records import Event, JobAttempt, MetricsRow

MAX_EVENTS = 5_000
MAX_METRICS = 20_000
"""Rows: some minutes of 64 slots, some megabytes."""
MAX_MOMENTS = 64
"""Snapshots, of which one of 512 slots has a quarter of a megabyte."""
MAX_ATTEMPTS = 20_000
"""Attempts that are remembered for a store that has to be rebuilt; the oldest are forgotten first."""


class LatestRecords:
    """The latest record of the session, of each job and of each attempt."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self.jobs: dict[int, JobRecord] = {}
        self.attempts: dict[tuple[int, int, int], JobAttempt] = {}

    def add_job(self, record: JobRecord) -> None:
        """Take a job's record; where it has no results, those of the earlier one stay."""
        before = self.jobs.get(record.number)
        if record.result is None and before is not None:
            record = structs.replace(record, result=before.result)
        self.jobs[record.number] = record

    def forget_results(self, jobs: Iterable[int]) -> None:
        """Forget what these jobs have reported, which is kept elsewhere."""
        self.jobs.update((number, structs.replace(self.jobs[number], result=None)) for number in jobs)

    def update(self, later: LatestRecords) -> None:
        """Take all of `later`."""
        self.session = later.session or self.session
        for record in later.jobs.values():
            self.add_job(record)
        self.attempts.update(later.attempts)

    def complete(self, earlier: LatestRecords) -> None:
        """Take what `earlier` has and this has not."""
        self.session = self.session or earlier.session
        later, self.jobs = self.jobs, dict(earlier.jobs)
        for record in later.values():
            self.add_job(record)
        self.attempts = {**earlier.attempts, **self.attempts}

    def forget_oldest(self) -> None:
        """Keep no more than `MAX_ATTEMPTS`."""
        while len(self.attempts) > MAX_ATTEMPTS:
            del self.attempts[next(iter(self.attempts))]


class Backlog(LatestRecords):
    """What waits to be written.

    Jobs and attempts are never dropped; events and metrics are, and are counted, when there are too many. Of moments the
    oldest are.
    """

    def __init__(self) -> None:
        super().__init__()
        self.events: deque[Event] = deque(maxlen=MAX_EVENTS)
        self.metrics: deque[MetricsRow] = deque(maxlen=MAX_METRICS)
        self.moments: deque[Moment] = deque(maxlen=MAX_MOMENTS)
        self._dropped_events = 0
        self._dropped_metrics = 0

    @property
    def urgent(self) -> bool:
        """Whether there is more than metrics and moments, which can wait."""
        return bool(self.session or self.jobs or self.attempts or self.events)

    def __bool__(self) -> bool:
        return self.urgent or bool(self.metrics or self.moments)

    def add_event(self, event: Event) -> None:
        """Add an event."""
        self._dropped_events += len(self.events) == MAX_EVENTS
        self.events.append(event)

    def add_metrics(self, rows: Iterable[MetricsRow]) -> None:
        """Add rows of metrics."""
        for row in rows:
            self._dropped_metrics += len(self.metrics) == MAX_METRICS
            self.metrics.append(row)

    def merge(self, later: Backlog) -> None:
        """Take all of `later`, with its events, metrics and moments."""
        self.update(later)
        for event in later.events:
            self.add_event(event)
        self.add_metrics(later.metrics)
        self.moments.extend(later.moments)
        self._dropped_events += later._dropped_events
        self._dropped_metrics += later._dropped_metrics

    def all_events(self) -> list[Event]:
        """The events, and one more about what was dropped."""
        parts = []
        if self._dropped_events:
            parts.append(units.count(self._dropped_events, "event"))
        if self._dropped_metrics:
            parts.append(f"{units.count(self._dropped_metrics, 'row')} of metrics")
        if not parts:
            return list(self.events)
        text = f"{' and '.join(parts)} dropped: too many were waiting while the store could not be written"
        return [*self.events, Event(time.time(), "dropped", text)]
