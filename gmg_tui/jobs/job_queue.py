"""The queue of a sweep's jobs."""

import logging
import time
from bisect import insort
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import structs

from gmg_tui.jobs.argument_placeholders import names_in
from gmg_tui.machine.blocking_calls import begin
from gmg_tui.model import (
    NO_ATTEMPT,
    Attempt,
    Checkpoint,
    JobRecord,
    QueueAction,
    RunSpec,
    SweepSpec,
    WorkerState,
    merge_checkpoints,
    units,
)
from gmg_tui.model.errors import GmgError
from gmg_tui.model.jobs import LEFT_BEHIND, SKIPPED
from gmg_tui.model.tried import TriedArguments
from gmg_tui.scripts.probe.folders import read_abandoned
from gmg_tui.session.store.reader import open_store
from gmg_tui.session.store.writer import StoreWriter

_log = logging.getLogger(__name__)

_KILLED = "interrupted: the engine was killed"
_MAX_SEARCH_S = 10.0
_Abandoned = Mapping[int, Iterable[Checkpoint]]
"""Checkpoints that processes reported to a killed engine, by PID; it may not have read them all."""


class JobQueue:
    """The jobs of a sweep; the one with the smallest position is next.

    Attributes:
        records: The jobs' records by number, without what may be large and is in the store.
        version: Changes whenever the queue does.
        before_s: Seconds of run time before the sweep was resumed.
        left: The slots of the jobs that a killed engine left running.
        left_at: Unix time when that engine last wrote its store.
    """

    def __init__(self, records: Iterable[JobRecord], before_s: float = 0.0) -> None:
        self.records = {record.number: _brief(record) for record in records}
        self.version = 0
        self.before_s = before_s
        self.left: dict[int, tuple[str, ...]] = {}
        self.left_at = 0.0
        self._waiting: deque[int] = deque()
        self._requirements: Counter[tuple[int, str | None]] = Counter()
        """Counts of waiting jobs, by number of slots and required slot."""
        self._running: dict[int, None] = {}
        """Numbers of the jobs on slots, in starting order."""
        self._ended: dict[int, None] = {}
        """Numbers of the ended jobs, in ending order."""
        self._states: Counter[WorkerState] = Counter()
        """The number of ended jobs by state."""
        self._finished_count, self._finished_s = 0, 0.0
        """The number of finished jobs, and the sum of their seconds."""
        ordered = sorted(self.records.values(), key=lambda record: (record.position, record.number))
        for record in ordered:
            if not record.state.ended:
                self._waiting.append(record.number)
                self._requirements[record.width, record.only] += 1
        for record in sorted(ordered, key=lambda record: record.ended or 0.0):
            if record.state.ended:
                self._end(record)

    # State

    @property
    def waiting(self) -> int:
        """The number of waiting jobs."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """The number of jobs on slots."""
        return len(self._running)

    @property
    def requirements(self) -> Iterable[tuple[int, str | None]]:
        """The different requirements of waiting jobs: the number of slots, and the required slot, if any."""
        return self._requirements.keys()

    def count_ended(self, state: WorkerState) -> int:
        """Returns the number of jobs that ended in `state`."""
        return self._states[state]

    def ordered_numbers(self) -> list[int]:
        """Returns all jobs' numbers: first ended jobs in ending order, then running ones, then waiting ones."""
        return [*self._ended, *self._running, *self._waiting]

    def next_jobs(self, last: Collection[int] = ()) -> Iterator[JobRecord]:
        """Returns an iterator over the waiting jobs, in order, those in `last` after all others."""
        passes = (False, True) if last else (False,)
        numbers = (number for is_last in passes for number in self._waiting if (number in last) is is_last)
        return (self.records[number] for number in numbers)

    def eta_s(self, occupied_s: Mapping[int, float], lanes: int) -> float | None:
        """Estimates the seconds until all jobs have ended on `lanes` slots, from finished jobs' times; None if unknown.

        `occupied_s` maps each running job's number to the seconds it has occupied its slots.
        """
        if not self._finished_count or not lanes:
            return None
        usual_s = self._finished_s / self._finished_count
        rest = [(max(0.0, usual_s - spent_s), self.records[number].width) for number, spent_s in occupied_s.items()]
        if rest and not self.waiting and not any(rest_s for rest_s, _ in rest):
            return None  # the running jobs take longer than usual
        waiting_s = usual_s * sum(count * width for (width, _), count in self._requirements.items())
        total_s = waiting_s + sum(rest_s * width for rest_s, width in rest)
        return max([total_s / lanes, *(rest_s for rest_s, _ in rest)])

    # Transitions

    def add(self, record: JobRecord) -> None:
        """Adds a job at its position."""
        self.records[record.number] = _brief(record)
        self._insert(record)

    def reserve_edited(self, number: int, args: tuple[str, ...], env: dict[str, str], spec: RunSpec) -> JobRecord:
        """Takes the next number for a copy of a job with other arguments and environment, which `add_next` adds later.

        Returns its record. The copy has no value that only the replaced arguments used: a report would compare it by a wrong
        value.
        """
        original = self.records[number]
        given = (spec.args, spec.env) if original.args is None else (original.args, original.env)
        unused = _names(*given) - _names(args, env) - _names(spec.resume_args, {})
        new_number = max(self.records) + 1
        edited = JobRecord(
            new_number,
            f"{original.name}-edit{new_number}",
            {name: value for name, value in original.values.items() if name not in unused},
            position=self.front_position,
            only=original.only,
            world_size=original.world_size,
            args=args,
            env=env,
            edited_from=number,
            last=structs.replace(NO_ATTEMPT, checkpoints=original.last.checkpoints),
        )
        self.records[new_number] = edited
        return edited

    def add_next(self, number: int, checkpoints: tuple[Checkpoint, ...]) -> JobRecord:
        """Adds a reserved job as the next one, which continues from one of these checkpoints. Returns its record."""
        last = structs.replace(NO_ATTEMPT, checkpoints=checkpoints)
        record = structs.replace(self.records[number], position=self.front_position, last=last)
        self.add(record)
        return record

    def reserve(self, jobs: Iterable[JobRecord], slots: int) -> list[JobRecord]:
        """Takes the next numbers and the names of jobs, in a session with this number of slots; returns their records.

        `add` appends them, and `withdraw` forgets them. Raises `GmgError`, and reserves none, if a job's name is taken or
        it needs too many slots.
        """
        start = max(self.records, default=0) + 1
        added = [structs.replace(job, number=number, position=float(number)) for number, job in enumerate(jobs, start)]
        taken = {record.name for record in self.records.values()}
        for record in added:
            if record.name in taken:
                raise GmgError(f"a job {record.name} already exists; try again", 1)
            if record.width > slots:
                raise GmgError(f"job {record.name} {_width_error(record, slots)}", 1)
            taken.add(record.name)
        self.records |= {record.number: _brief(record) for record in added}
        return added

    def withdraw(self, reserved: Iterable[JobRecord]) -> None:
        """Forgets jobs that were reserved."""
        for record in reserved:
            del self.records[record.number]

    def occupy(self, number: int) -> JobRecord:
        """Moves a waiting job onto slots. Returns its record."""
        record = self.records[number]
        self._remove(record)
        self._running[number] = None
        return record

    def update(self, record: JobRecord) -> None:
        """Replaces the record of a job on slots."""
        self.records[record.number] = record
        self.version += 1

    def release(self, record: JobRecord) -> None:
        """Moves a job off its slots: it has ended, or waits again at its position."""
        record = self.records[record.number] = _brief(record)
        del self._running[record.number]
        (self._end if record.state.ended else self._insert)(record)

    def _insert(self, record: JobRecord) -> None:
        insort(self._waiting, record.number, key=lambda other: self.records[other].position)
        self._requirements[record.width, record.only] += 1
        self.version += 1

    def _remove(self, record: JobRecord) -> None:
        self._waiting.remove(record.number)
        self._requirements -= Counter({(record.width, record.only): 1})
        self.version += 1

    @property
    def front_position(self) -> float:
        """The position before all waiting jobs."""
        return self.records[self._waiting[0]].position - 1.0 if self._waiting else 0.0

    def requeue(self, number: int, reason: str) -> JobRecord | None:
        """Queues a failed job again, before all others. Returns its record; None if it has not failed."""
        record = self.records[number]
        if record.state is not WorkerState.FAILED:
            return None
        return self._reopen(record, position=self.front_position, reason=reason)

    def _reopen(self, record: JobRecord, *, position: float, reason: str | None) -> JobRecord:
        self._states[record.state] -= 1
        del self._ended[record.number]
        reopened = structs.replace(
            record, state=WorkerState.WAITING, position=position, reason=reason, ended=None, halted=False
        )
        self.records[record.number] = reopened
        self._insert(reopened)
        return reopened

    def _end(self, record: JobRecord) -> None:
        self._ended[record.number] = None
        self._states[record.state] += 1
        if record.state is WorkerState.FINISHED and record.elapsed_s is not None:
            self._finished_count += 1
            self._finished_s += record.elapsed_s
        self.version += 1

    # Commands

    def act(self, action: QueueAction, number: int) -> JobRecord:
        """Skips or retries a job that is not on slots. Returns its new record.

        Raises `GmgError` if there is no such job, or the action does not apply to it.
        """
        record, waiting = self.records.get(number), self._waiting
        if record is None:
            raise GmgError(f"no job {number}; there are 1 to {len(self.records)}", 1)
        if action is QueueAction.STOP:
            raise GmgError(f"job {number} ({record.name}) is not running", 1)
        if action is QueueAction.RETRY:
            if not record.state.ended:
                raise GmgError(f"job {number} ({record.name}) has not ended; only ended jobs can be run again", 1)
            position = self.front_position if waiting else record.position
            return self._reopen(record, position=position, reason=None)
        if number not in waiting:
            is_running = number in self._running
            state = "has ended" if record.state.ended else "is running" if is_running else "is not queued yet"
            raise GmgError(f"job {number} ({record.name}) {state}; only waiting jobs can be skipped", 1)
        self._remove(record)
        skipped = self.records[number] = structs.replace(record, state=WorkerState.STOPPED, reason=SKIPPED)
        self._end(skipped)
        return skipped


def _names(args: Iterable[str], env: Mapping[str, str]) -> set[str]:
    return {name for text in (*args, *env.values()) for name in names_in(text)}


def _brief(record: JobRecord) -> JobRecord:
    """Returns a record without its result and an attempt's many details, which the store has."""
    last = structs.replace(record.last.brief(), checkpoints=record.last.checkpoints)
    return structs.replace(record, result=None, last=last)


def restore_queue(path: Path, sweep: SweepSpec, slots: int, store: StoreWriter, tried: TriedArguments) -> JobQueue:
    """Restores the queue of a sweep from its store, for this number of slots. Raises `StoreError`.

    Jobs that a killed engine left running wait again, with the checkpoints they had saved; so do failed jobs if
    requested. Adds all attempts to `tried`.
    """
    with open_store(path) as stored:
        jobs, rows = stored.jobs, [row for job_rows in stored.attempts.values() for row in job_rows]
        last_snapshot, metrics = stored.last_snapshot, stored.last_metrics()
    abandoned: _Abandoned = {}
    try:  # another user may have mounted a hung disk in `/tmp`
        abandoned = begin(read_abandoned, path.parent).result(_MAX_SEARCH_S)
    except TimeoutError:
        _log.warning("checkpoints that a killed engine missed are not looked for: a disk does not answer")
    for row in rows:
        attempt = row.attempt
        if attempt.ended is None and not attempt.state.ended:
            newest = metrics.get((row.slot, row.job))
            ended = max(attempt.started, newest.time if newest is not None else 0.0)
            attempt = _with_abandoned(attempt, abandoned)
            attempt = structs.replace(attempt, state=WorkerState.STOPPED, reason=_KILLED, ended=ended)
            store.put(structs.replace(row, attempt=attempt))
        tried.add(row.slot, attempt)
    records = [_restore(job, slots, abandoned, retry_failed=sweep.retry_failed) for job in jobs]
    store.put(*(record for job, record in zip(jobs, records, strict=True) if record is not job))
    queue = JobQueue(records, last_snapshot.total_s if last_snapshot is not None else 0.0)
    left = (
        job
        for job in jobs
        if not job.state.ended and (job.state is not WorkerState.WAITING or job.reason in {_KILLED, LEFT_BEHIND})
    )
    queue.left = {job.number: job.slots or (job.slot or "",) for job in left}
    written = [row.time for row in metrics.values()] + ([last_snapshot.time] if last_snapshot is not None else [])
    queue.left_at = max(written, default=time.time())  # without any, it was killed at its start
    return queue


def _restore(record: JobRecord, slots: int, abandoned: _Abandoned, *, retry_failed: bool) -> JobRecord:
    """Returns a job's record for a new engine; a job that needs more slots than there are has failed."""
    if record.halted and not record.state.ended:  # the engine was killed while stopping the job
        return structs.replace(record, state=WorkerState.STOPPED, reason=_KILLED)
    if retry_failed and record.state is WorkerState.FAILED:
        record = structs.replace(record, state=WorkerState.WAITING, reason=None, ended=None)
    elif not record.state.ended and record.state is not WorkerState.WAITING:
        last = _with_abandoned(record.last, abandoned)
        record = structs.replace(record, state=WorkerState.WAITING, reason=_KILLED, last=last)
    if record.state.ended or record.width <= slots:
        return record
    return structs.replace(record, state=WorkerState.FAILED, reason=_width_error(record, slots))


def _with_abandoned(attempt: Attempt, abandoned: _Abandoned) -> Attempt:
    """Returns the attempt with the checkpoints that a killed engine may not have read."""
    saved = (file for file in abandoned.get(attempt.pid or 0, ()) if file.saved >= attempt.started)
    return structs.replace(attempt, checkpoints=merge_checkpoints(attempt.checkpoints, saved))


def _width_error(record: JobRecord, slots: int) -> str:
    return f"needs {units.count(record.width, 'slot')} at once, but there {'is' if slots == 1 else 'are'} {slots}"
