"""The data of a report: rows for a session's jobs and attempts, the order of the rows, and totals."""

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
from gmg_tui.model.worker import combine_ranks, sum_rates
from gmg_tui.results.column import Column, find, is_known, sort_rows
from gmg_tui.results.job_columns import columns, result_names
from gmg_tui.results.metric_curves import Summary, summarise
from gmg_tui.session import ENGINE_DIED, STORE, SessionEntry
from gmg_tui.session.store.database import JobAttempt
from gmg_tui.session.store.reader import Stored, open_store

_INTERRUPTED = f"interrupted: {ENGINE_DIED}"
_END_NOT_RECORDED = "its end was not recorded: the disk may have been full"
UNSORTED = "unsorted"
_MAX_SUGGESTED_COLUMNS = 3
_MAX_FAILED_NAMES = 3
"""Maximum names to list for a failure."""
_AMOUNT = re.compile(r"(?<![\d.,])[\d.,]++ ?(?:[KMGT]?i?B|s|%)")
"""An amount, which may differ between failures with the same reason."""


class Failure(NamedTuple):
    """Jobs that failed for the same reason."""

    names: list[str]
    reason: str
    """The first job's reason; the others may differ from it in amounts."""
    advice: str | None

    @property
    def subject(self) -> str:
        """The names of the first jobs, and the number of others."""
        more = f" and {len(self.names) - _MAX_FAILED_NAMES:,} more" if len(self.names) > _MAX_FAILED_NAMES else ""
        return ", ".join(self.names[:_MAX_FAILED_NAMES]) + more


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
    def plain_snapshot(self) -> Snapshot | None:
        """The newest snapshot of a plain run; None for jobs from a queue, or if none was recorded."""
        return self.snapshot if self.snapshot is not None and self.snapshot.queue is None else None

    @property
    def alerts(self) -> list[tuple[str, Alert]]:
        """The warnings and errors, each with the name of its worker's slot, or of its job if jobs came from a queue."""
        if self.plain_snapshot is not None:
            return [(worker.slot, alert) for worker in self.plain_snapshot.workers for alert in urgent(worker.alerts)]
        return [(job.name, alert) for job in self.jobs for alert in urgent(job.last.alerts)]

    @property
    def rate(self) -> Fps | None:
        """The sum of the rates of a plain run's workers that have not failed; None if unknown, or for a queue."""
        ranks: dict[object, list[Attempt]] = {}
        for job in () if self.queued else self.jobs:
            if job.state is not WorkerState.FAILED:
                ranks.setdefault(job.group or job.number, []).append(job.last)
        rates = [combine_ranks(attempts).fps for attempts in ranks.values()]
        return sum_rates([fps for fps in rates if fps is not None and fps.mean is not None])

    @property
    def simulated(self) -> bool:
        """True if the GPUs are simulated."""
        return self.session.spec.simulate is not None

    @property
    def queued(self) -> bool:
        """True if the jobs came from a queue, as in a sweep or a tuning run."""
        return self.session.spec.sweep is not None

    @property
    def heading(self) -> str:
        """The session's name, state, script and start."""
        starts = [run.attempt.started for runs in self.attempts.values() for run in runs if run.attempt.started]
        first = min([self.session.began, *starts])
        started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(first))
        if first < self.session.started:  # an earlier engine started the session
            started += time.strftime("  resumed %Y-%m-%d %H:%M:%S", time.localtime(self.session.started))
        simulated = "simulated  " if self.simulated else ""
        # After a full disk, the session's end may be missing from the store.
        cut_off = self.state == "ended" and self.snapshot is not None and not self.snapshot.ended
        until = self.snapshot.time if cut_off and self.snapshot is not None else self.until
        recorded = time.strftime("  as recorded at %H:%M:%S", time.localtime(until))
        since = f"since {started}{recorded if cut_off or self.state == 'running' else ''}"
        return f"{self.name}  {self.state}  {simulated}{self.session.spec.script}  {since}"

    @property
    def interrupted(self) -> int:
        """The number of a sweep's jobs that were running when the engine died."""
        return sum(job.reason == _INTERRUPTED for job in self.jobs)

    def span(self, run: JobAttempt) -> tuple[float, float] | None:
        """Returns the start and end of an attempt, Unix seconds; None if unknown.

        An attempt without a recorded end lasts until the session's latest recorded time, or is unknown if a later engine
        resumed the session.
        """
        started, ended = run.attempt.started, run.attempt.ended
        if not started or (ended is None and not run.attempt.state.live):
            return None
        return started, max(started, self.until if ended is None else ended)

    def rows(self) -> list[JobRecord]:
        """Returns a row for each attempt (of all ranks), with the job as of its end, and one for each job without attempts."""
        return [row for job in self.jobs for row in self._rows_of(job)]

    def _rows_of(self, job: JobRecord) -> list[JobRecord]:
        attempts: dict[int, list[JobAttempt]] = {}
        for run in self.attempts.get(job.number, []):
            attempts.setdefault(run.attempt.number, []).append(run)
        if not attempts or (len(attempts) == 1 and self.queued):
            return [job]
        *earlier, (newest, *_) = attempts.values()
        last = structs.replace(job, started=newest.attempt.started, elapsed_s=self._attempt_s(newest))
        return [*(self._row_of_attempt(job, ranks) for ranks in earlier), last]

    def _row_of_attempt(self, job: JobRecord, ranks: list[JobAttempt]) -> JobRecord:
        """Returns the job as of an earlier attempt, without energy and results: those belong to the last attempt."""
        run, attempt = ranks[0], combine_ranks([rank.attempt for rank in ranks])
        return structs.replace(
            job,
            state=attempt.state,
            reason=attempt.reason,
            slot=run.slot,
            gpu_uuid=run.gpu_uuid,
            last=attempt,
            started=attempt.started,
            ended=attempt.ended,
            elapsed_s=self._attempt_s(run),
            energy_j=None,
            result={},
        )

    def _attempt_s(self, run: JobAttempt) -> float | None:
        span = self.span(run)
        return None if span is None else span[1] - span[0]

    @property
    def states(self) -> dict[str, int]:
        """The number of jobs in each state."""
        return dict(Counter(job.state.value for job in self.jobs))

    @property
    def failed(self) -> list[str]:
        """The names of the jobs that failed; their rates do not count."""
        return [job.name for job in self.jobs if job.state is WorkerState.FAILED]

    @property
    def failures(self) -> list[Failure]:
        """The failures, one for each reason, the most frequent first; a plain run's group counts as one job."""
        snapshot = self.plain_snapshot
        groups = [group for group in snapshot.groups if group.state is WorkerState.FAILED] if snapshot else []
        grouped = {slot for group in groups for slot in group.slots}
        failed = [job for job in self.jobs if job.state is WorkerState.FAILED and job.slot not in grouped]
        advice = {worker.slot: worker.advice for worker in snapshot.workers} if snapshot else {}
        by_reason: dict[str, Failure] = {}
        for name, reason, tip in (
            *((group.id, group.reason, group.advice) for group in groups),
            *((job.name, job.reason, advice.get(job.name)) for job in failed),
        ):
            text = reason or "unknown reason"
            by_reason.setdefault(_AMOUNT.sub("", text), Failure([], text, tip)).names.append(name)
        return sorted(by_reason.values(), key=lambda failure: -len(failure.names))

    def sorted_rows(self, best: str | None) -> tuple[list[JobRecord], Column[JobRecord] | None, str]:
        """Sorts the rows by `best`, else by the sweep's column, if any. Returns what `sort_jobs` does, with hints.

        Raises `GmgError` if there is no column `best`.
        """
        rows, problem, sweep = self.rows(), "", self.session.spec.sweep
        try:
            jobs, column, order = sort_jobs(rows, sweep.best if best is None and sweep is not None else best)
        except GmgError as error:
            if best is not None:
                raise
            jobs, column, order = sort_jobs(rows, None)
            problem = f" ({error})"
        names = ", ".join(result_names(rows)[:_MAX_SUGGESTED_COLUMNS]) if column is None else ""
        hint = f"; sort with: gmg-tui report {self.name} --best COLUMN ({names})" if names else ""
        return jobs, column, f"{order}{problem}{hint}"

    @property
    def totals(self) -> list[tuple[str, str]]:
        """The total time and energy of all jobs, if known, formatted for people."""
        energies_j = [job.energy_j for job in self.jobs if job.energy_j is not None]
        time_text = units.clock(self.snapshot.total_s) if self.snapshot is not None else ""
        energy_text = units.energy(sum(energies_j)) if energies_j else ""
        return [(name, value) for name, value in (("time", time_text), ("energy", energy_text)) if value]

    @property
    def slow_slots(self) -> list[str]:
        """A line for each slot that is slower than other slots with the same GPU and arguments."""
        slots = {slot.name: slot for slot in self.session.slots}
        slow = below_median((slots[row.slot], row.last) for row in self.rows() if row.slot in slots)
        return [f"{name}: {pct:.0f} % below the median" for name, pct in slow.items()]


def collect(entry: SessionEntry, stored: Stored) -> ReportData:
    """Collects a session's data from its open store. Raises `StoreError`."""
    session, jobs, attempts, snapshot = entry.record.session, stored.jobs, stored.attempts, stored.last_snapshot
    times = [session.started, snapshot.time if snapshot else 0.0, entry.record.ended or 0.0]
    times += [run.attempt.ended or run.attempt.started for runs in attempts.values() for run in runs]
    until = max(times)
    if entry.state != "running":
        jobs = [_conclude(job, entry, until) for job in jobs]
    if snapshot is not None and entry.state != "running":
        elapsed_s = snapshot.elapsed_s + until - snapshot.time
        snapshot = entry.record.last_state(snapshot)
        if entry.state == "lost":
            snapshot = structs.replace(snapshot, time=until, elapsed_s=elapsed_s)
    metrics = tuple(summarise(jobs, stored.best()))
    return ReportData(entry.name, entry.folder, entry.state, session, until, jobs, attempts, snapshot, metrics)


def _conclude(job: JobRecord, entry: SessionEntry, until: float) -> JobRecord:
    """Returns a job as it is without its engine: one without a recorded end failed, was stopped, or waits in the queue.

    A killed engine records no ends. After a full disk, an end may be in the session's record but not in the store.
    """
    if not job.state.live and job.state is not WorkerState.RESTARTING:
        return job
    lost, queued = entry.state == "lost", entry.record.session.spec.sweep is not None
    state = WorkerState.STOPPED if job.halted else WorkerState.WAITING if queued else WorkerState.FAILED
    reason: str | None = (_INTERRUPTED if queued else ENGINE_DIED) if lost else _END_NOT_RECORDED
    elapsed_s = job.elapsed_s
    if lost and job.started is not None:
        elapsed_s = max(elapsed_s or 0.0, until - job.started)
    elif not lost and not queued:
        recorded = (worker for worker in entry.record.workers if worker.slot == job.slot and worker.state.ended)
        state, reason = next(((worker.state, worker.reason) for worker in recorded), (state, reason))
    return structs.replace(job, state=state, reason=reason, elapsed_s=elapsed_s)


def from_snapshot(session: Session, snapshot: Snapshot) -> ReportData:
    """Returns the data of a plain run from its last snapshot, which has only the newest attempts."""
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
    """Returns a session's data from its store. Raises `StoreError`."""
    with open_store(entry.folder / STORE, copied=True) as stored:
        return collect(entry, stored)


def sort_jobs(jobs: Sequence[JobRecord], best: str | None) -> tuple[list[JobRecord], Column[JobRecord] | None, str]:
    """Returns the sorted jobs, the column (None if unsorted), and a description of the order.

    `best` is the name or heading of a column in any case, with a prefix `-` for smallest first; None keeps the order.
    Failed jobs follow the others; jobs without a value, or with NaN, come last. Raises `GmgError` if there is no such
    column.
    """
    if best is None:
        return list(jobs), None, UNSORTED
    column, smallest = find(columns(jobs), best.removeprefix("-")), best.startswith("-")
    order = f"by {column.heading}, the {'smallest' if smallest else 'largest'} first"
    # Equal values keep the order of the jobs, and waiting jobs the order of the queue.
    stable = sorted(jobs, key=lambda job: job.number if job.state.ended else math.inf)
    in_order = sort_rows(column, stable, descending=not smallest, demoted=lambda job: job.state is WorkerState.FAILED)
    return in_order, column, order


def best_job(jobs: Sequence[JobRecord], column: Column[JobRecord]) -> JobRecord | None:
    """Returns the first of the sorted jobs that has finished with a known value in the column; None if none has."""
    finished = (job for job in jobs if job.state is WorkerState.FINISHED and is_known(column.value(job)))
    return next(finished, None)
