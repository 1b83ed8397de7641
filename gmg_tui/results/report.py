"""The data of a report: a session's jobs and attempts as rows, their order and their totals."""

import math
import re
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, structs

from gmg_tui.model import Attempt, Fps, JobRecord, Session, Snapshot, Tuning, WorkerState, units
from gmg_tui.model.alert import Alert, urgent
from gmg_tui.model.errors import GmgError
from gmg_tui.model.tried import below_median
from gmg_tui.model.worker import combined, summed
from gmg_tui.results.column import Column, find, is_known, sort_rows
from gmg_tui.results.job_columns import columns, result_names
from gmg_tui.results.metric_curves import Summary, summaries
from gmg_tui.session import ENGINE_DIED, STORE, SessionEntry
from gmg_tui.session.store.database import JobAttempt
from gmg_tui.session.store.reader import Stored, open_store

_INTERRUPTED = f"interrupted: {ENGINE_DIED}"
_NOT_RECORDED = "its end was not recorded: the disk may have been full"
UNSORTED = "unsorted"
_MAX_SUGGESTED = 3
"""Columns to suggest for sorting."""
_MAX_NAMED = 3
"""Jobs of a failure to name."""
_AMOUNT = re.compile(r"[\d.,]+ ?(?:[KMGT]?i?B|s|%)")
"""Amounts, which differ between failures with the same reason."""


class Failure(NamedTuple):
    """Jobs that failed for the same reason."""

    names: list[str]
    reason: str
    """The first job's reason; amounts may differ."""
    advice: str | None

    @property
    def who(self) -> str:
        """The first jobs, and the number of others."""
        more = f" and {len(self.names) - _MAX_NAMED:,} more" if len(self.names) > _MAX_NAMED else ""
        return ", ".join(self.names[:_MAX_NAMED]) + more


class ReportData(Struct, frozen=True):
    """A session's state according to its store."""

    name: str
    folder: Path
    state: str
    """`running`, `ended` or `lost`."""
    session: Session
    until: float
    """The latest recorded time, Unix seconds."""
    jobs: list[JobRecord]
    attempts: dict[int, list[JobAttempt]]
    snapshot: Snapshot | None
    """The newest recorded snapshot."""
    metrics: tuple[Summary, ...] = ()

    @property
    def tuning(self) -> Tuning | None:
        """The tuning; None in other sessions."""
        return self.snapshot.tuning if self.snapshot is not None else None

    @property
    def plain(self) -> Snapshot | None:
        """The newest snapshot of a plain run; None in a sweep, or if none was recorded."""
        return self.snapshot if self.snapshot is not None and self.snapshot.queue is None else None

    @property
    def alerts(self) -> list[tuple[str, Alert]]:
        """Alerts by worker, or by job at the end of its last attempt."""
        if self.plain is not None:
            return [(worker.slot, alert) for worker in self.plain.workers for alert in urgent(worker.alerts)]
        return [(job.name, alert) for job in self.jobs for alert in urgent(job.last.alerts)]

    @property
    def rate(self) -> Fps | None:
        """The sum of a plain run's workers that have not failed; None in a sweep, or without any."""
        ranks: dict[object, list[Attempt]] = {}
        for job in () if self.queued else self.jobs:
            if job.state is not WorkerState.FAILED:
                ranks.setdefault(job.group or job.number, []).append(job.last)
        rates = [combined(each).fps for each in ranks.values()]
        return summed([fps for fps in rates if fps is not None and fps.mean is not None])

    @property
    def simulated(self) -> bool:
        """True if its GPUs were simulated."""
        return self.session.spec.simulate is not None

    @property
    def queued(self) -> bool:
        """True if its jobs came from a queue: a sweep or a tuning."""
        return self.session.spec.sweep is not None

    @property
    def heading(self) -> str:
        """The session's name, state, script and start."""
        began = [ran.attempt.started for each in self.attempts.values() for ran in each if ran.attempt.started]
        first = min([self.session.began, *began])
        started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(first))
        if first < self.session.started:  # by an earlier engine
            started += time.strftime("  resumed %Y-%m-%d %H:%M:%S", time.localtime(self.session.started))
        simulated = "simulated  " if self.simulated else ""
        # A full disk may have kept the session's end from its store.
        cut_off = self.state == "ended" and self.snapshot is not None and not self.snapshot.ended
        until = self.snapshot.time if cut_off and self.snapshot is not None else self.until
        recorded = time.strftime("  as recorded at %H:%M:%S", time.localtime(until))
        since = f"since {started}{recorded if cut_off or self.state == 'running' else ''}"
        return f"{self.name}  {self.state}  {simulated}{self.session.spec.script}  {since}"

    @property
    def interrupted(self) -> int:
        """The number of a sweep's jobs that ran when the engine died."""
        return sum(job.reason == _INTERRUPTED for job in self.jobs)

    def span(self, ran: JobAttempt) -> tuple[float, float] | None:
        """Returns the start and end of an attempt, Unix seconds; None if unknown.

        An attempt that was running when the engine died ends at the session's last recorded moment, or is unknown if the
        session was resumed.
        """
        started, ended = ran.attempt.started, ran.attempt.ended
        if not started or (ended is None and not ran.attempt.state.live):
            return None
        return started, max(started, self.until if ended is None else ended)

    def rows(self) -> list[JobRecord]:
        """Returns a row for each attempt, with the job as of its end, and for each job without attempts. Ranks share a row."""
        return [row for job in self.jobs for row in self._rows_of(job)]

    def _rows_of(self, job: JobRecord) -> list[JobRecord]:
        attempts: dict[int, list[JobAttempt]] = {}
        for ran in self.attempts.get(job.number, []):
            attempts.setdefault(ran.attempt.number, []).append(ran)
        if not attempts or (len(attempts) == 1 and self.queued):
            return [job]
        *earlier, (newest, *_) = attempts.values()
        last = structs.replace(job, started=newest.attempt.started, elapsed_s=self._attempt_s(newest))
        return [*(self._before(job, ranks) for ranks in earlier), last]

    def _before(self, job: JobRecord, ranks: list[JobAttempt]) -> JobRecord:
        """Returns the job at the end of an earlier attempt, without energy and results, which belong to the last."""
        ran, attempt = ranks[0], combined([rank.attempt for rank in ranks])
        return structs.replace(
            job,
            state=attempt.state,
            reason=attempt.reason,
            slot=ran.slot,
            gpu_uuid=ran.gpu_uuid,
            last=attempt,
            started=attempt.started,
            ended=attempt.ended,
            elapsed_s=self._attempt_s(ran),
            energy_j=None,
            result={},
        )

    def _attempt_s(self, ran: JobAttempt) -> float | None:
        span = self.span(ran)
        return None if span is None else span[1] - span[0]

    @property
    def states(self) -> dict[str, int]:
        """The number of jobs in each state."""
        return dict(Counter(job.state.value for job in self.jobs))

    @property
    def failed(self) -> list[str]:
        """The names of the jobs that failed, whose rates do not count."""
        return [job.name for job in self.jobs if job.state is WorkerState.FAILED]

    @property
    def failures(self) -> list[Failure]:
        """The failures by reason, the most frequent first; a plain run's group counts as one job."""
        groups = [group for group in self.plain.groups if group.state is WorkerState.FAILED] if self.plain else []
        grouped = {slot for group in groups for slot in group.slots}
        failed = [job for job in self.jobs if job.state is WorkerState.FAILED and job.slot not in grouped]
        advice = {worker.slot: worker.advice for worker in self.plain.workers} if self.plain else {}
        by_reason: dict[str, Failure] = {}
        for name, reason, helps in (
            *((group.id, group.reason, group.advice) for group in groups),
            *((job.name, job.reason, advice.get(job.name)) for job in failed),
        ):
            text = reason or "unknown reason"
            by_reason.setdefault(_AMOUNT.sub("", text), Failure([], text, helps)).names.append(name)
        return sorted(by_reason.values(), key=lambda failure: -len(failure.names))

    def arranged(self, best: str | None) -> tuple[list[JobRecord], Column[JobRecord] | None, str]:
        """Returns `ordered` by `best`, else by the sweep's own column if any job has it. Raises `GmgError`."""
        rows, trouble, sweep = self.rows(), "", self.session.spec.sweep
        try:
            listed, by, order = ordered(rows, sweep.best if best is None and sweep is not None else best)
        except GmgError as error:
            if best is not None:
                raise
            listed, by, order = ordered(rows, None)
            trouble = f" ({error})"
        names = ", ".join(result_names(rows)[:_MAX_SUGGESTED]) if by is None else ""
        hint = f"; sort with: gmg-tui report {self.name} --best COLUMN ({names})" if names else ""
        return listed, by, f"{order}{trouble}{hint}"

    @property
    def totals(self) -> list[tuple[str, str]]:
        """The total time and energy of all jobs, if known, formatted for people."""
        energies_j = [job.energy_j for job in self.jobs if job.energy_j is not None]
        time_text = units.clock(self.snapshot.total_s) if self.snapshot is not None else ""
        energy_text = units.energy(sum(energies_j)) if energies_j else ""
        return [(name, value) for name, value in (("time", time_text), ("energy", energy_text)) if value]

    @property
    def slow_slots(self) -> list[str]:
        """A line for each slot that is slower than others with the same GPU and arguments."""
        slots = {slot.name: slot for slot in self.session.slots}
        slow = below_median((slots[row.slot], row.last) for row in self.rows() if row.slot in slots)
        return [f"{name}: {pct:.0f} % below the median" for name, pct in slow.items()]


def collect(entry: SessionEntry, stored: Stored) -> ReportData:
    """Collects the data of a session from its open store. Raises `StoreError`."""
    session, jobs, attempts, snapshot = entry.record.session, stored.jobs, stored.attempts, stored.last_snapshot
    moments = [session.started, snapshot.time if snapshot else 0.0, entry.record.ended or 0.0]
    moments += [ran.attempt.ended or ran.attempt.started for each in attempts.values() for ran in each]
    until = max(moments)
    if entry.state != "running":
        jobs = [_concluded(job, entry, until) for job in jobs]
    if snapshot is not None and entry.state != "running":
        elapsed_s = snapshot.elapsed_s + until - snapshot.time
        snapshot = entry.record.last_state(snapshot)
        if entry.state == "lost":
            snapshot = structs.replace(snapshot, time=until, elapsed_s=elapsed_s)
    metrics = tuple(summaries(jobs, stored.best()))
    return ReportData(entry.name, entry.folder, entry.state, session, until, jobs, attempts, snapshot, metrics)


def _concluded(job: JobRecord, entry: SessionEntry, until: float) -> JobRecord:
    """Concludes a job of a session without an engine: without a recorded end it has failed, or waits in a sweep.

    A killed engine has recorded no end. A full disk may have kept an end from the store, but not from the session's record.
    """
    if not job.state.live and job.state is not WorkerState.RESTARTING:
        return job
    lost, queued = entry.state == "lost", entry.record.session.spec.sweep is not None
    state = WorkerState.STOPPED if job.halted else WorkerState.WAITING if queued else WorkerState.FAILED
    reason: str | None = (_INTERRUPTED if queued else ENGINE_DIED) if lost else _NOT_RECORDED
    elapsed_s = job.elapsed_s
    if lost and job.started is not None:
        elapsed_s = max(elapsed_s or 0.0, until - job.started)
    elif not lost and not queued:
        ends = (worker for worker in entry.record.workers if worker.slot == job.slot and worker.state.ended)
        state, reason = next(((end.state, end.reason) for end in ends), (state, reason))
    return structs.replace(job, state=state, reason=reason, elapsed_s=elapsed_s)


def at_end(session: Session, snapshot: Snapshot) -> ReportData:
    """Returns the data of a plain run from its last snapshot, which has the newest attempts only."""
    jobs = [
        JobRecord(
            number,
            worker.slot,
            state=worker.state,
            reason=worker.reason,
            group=worker.group.id if worker.group else None,
            rank=worker.group.rank if worker.group else None,
            slot=worker.slot,
            last=worker.newest,
            started=worker.newest.started or None,
            elapsed_s=worker.attempt_s(snapshot.time),
            energy_j=worker.newest.energy_j,
        )
        for number, worker in enumerate(snapshot.workers, 1)
    ]
    folder = Path(session.spec.folder)
    return ReportData(session.spec.name, folder, "ended", session, snapshot.time, jobs, {}, snapshot)


def load(entry: SessionEntry) -> ReportData:
    """Returns the data of a session from its store. Raises `StoreError`."""
    with open_store(entry.folder / STORE) as stored:
        return collect(entry, stored)


def ordered(rows: Sequence[JobRecord], best: str | None) -> tuple[list[JobRecord], Column[JobRecord] | None, str]:
    """Sorts rows by a column. Returns them with the column (None for the jobs' order) and a description of the order.

    `best` is a column's name or heading, in any case, prefixed with `-` for smallest first; None for the jobs'
    order. Failed jobs follow the others; jobs without a value, or with NaN, are last. Raises `GmgError` if there is no
    such column.
    """
    if best is None:
        return list(rows), None, UNSORTED
    column, smallest = find(columns(rows), best.removeprefix("-")), best.startswith("-")
    text = f"by {column.heading}, the {'smallest' if smallest else 'largest'} first"
    # Equal values keep the order of the jobs, and waiting jobs the order of the queue.
    listed = sorted(rows, key=lambda row: row.number if row.state.ended else math.inf)
    order = sort_rows(column, listed, descending=not smallest, demoted=lambda row: row.state is WorkerState.FAILED)
    return order, column, text


def best_of(order: Sequence[JobRecord], column: Column[JobRecord]) -> JobRecord | None:
    """Returns the first row of an order that has finished with a value in its column; None without one."""
    finished = (job for job in order if job.state is WorkerState.FINISHED and is_known(column.value(job)))
    return next(finished, None)
