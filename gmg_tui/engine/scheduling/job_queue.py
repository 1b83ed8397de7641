"""The order in which a sweep's jobs run: which waits, which occupies slots, which has ended."""

from __future__ import annotations

from bisect import insort
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import structs

from gmg_tui import units
from gmg_tui.engine.hardware import Hardware
from gmg_tui.errors import GmgError
from gmg_tui.model import Batch, JobRecord, QueueAction, SweepSpec, Value, WorkerState
from gmg_tui.model.jobs import SKIPPED
from gmg_tui.results.tried import TriedArguments
from gmg_tui.store.reader import open_store
from gmg_tui.store.records import covered_s
from gmg_tui.store.writer import StoreWriter

_KILLED = "interrupted: the engine was killed"


class JobQueue:
    """The jobs of a sweep. Batches run one after another; within a batch, the job with the smallest position is next.

    Attributes:
        records: The jobs' records, by number, without their results, which may be large: the store has them.
        version: Changes whenever the queue does.
        before_s: How long jobs had run before the sweep was resumed, seconds.
    """

    def __init__(self, records: Iterable[JobRecord], batches: Sequence[Batch], before_s: float = 0.0) -> None:
        self.records = {record.number: _bare(record) for record in records}
        self.version = 0
        self.batches = batches
        self.before_s = before_s
        self._waiting = [deque[int]() for _ in batches]
        self._kinds = [Counter[tuple[int, str | None]]() for _ in batches]
        """How many jobs wait in each batch, by the number of slots that they need, and the one that they must have."""
        self._running: dict[int, None] = {}
        """Numbers of the jobs that occupy slots, the longest first."""
        self._occupying = [0 for _ in batches]
        """How many of them each batch has."""
        self._ended: dict[int, None] = {}
        """Numbers of the jobs that have ended, the first to end first."""
        self._states: Counter[WorkerState] = Counter()
        """Of the jobs that have ended."""
        self._finished: Counter[int] = Counter()
        """How many jobs of each batch have finished."""
        self._finished_s: defaultdict[int, float] = defaultdict(float)
        """How long they took together, seconds."""
        ordered = sorted(self.records.values(), key=lambda record: (record.position, record.number))
        for record in ordered:
            if not record.state.ended:
                self._waiting[record.batch].append(record.number)
                self._kinds[record.batch][record.gpus, record.only] += 1
        for record in sorted(ordered, key=lambda record: record.ended or 0.0):
            if record.state.ended:
                self._end(record)

    # State

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        return sum(map(len, self._waiting))

    @property
    def occupying(self) -> int:
        """How many jobs occupy a slot."""
        return len(self._running)

    @property
    def batch(self) -> int:
        """Position of the batch whose jobs run, or the last one when all have ended."""
        for position, waiting in enumerate(self._waiting):
            if waiting or self._occupying[position]:
                return position
        return len(self.batches) - 1

    @property
    def kinds(self) -> Iterable[tuple[int, str | None]]:
        """What the waiting jobs of the current batch need: how many slots, and which one they must run on, if any."""
        return self._kinds[self.batch].keys()

    def ended(self, state: WorkerState) -> int:
        """How many jobs have ended in `state`."""
        return self._states[state]

    def order(self) -> list[int]:
        """All jobs' numbers: ended ones in the order of their ends, then those with a slot, then the waiting ones."""
        return [*self._ended, *self._running, *(number for waiting in self._waiting for number in waiting)]

    def next_jobs(self) -> Iterator[JobRecord]:
        """The waiting jobs in their order; none while jobs of the previous batch still run."""
        return (self.records[number] for number in self._waiting[self.batch])

    def eta_s(self, occupied_s: Mapping[int, float], lanes: int) -> float | None:
        """Estimated seconds to the end of all jobs, from the times of those that have finished; None if unknown.

        Args:
            occupied_s: How long each running job has occupied its slots, by number.
            lanes: How many slots there are for jobs.
        """
        if not self._finished or not lanes:
            return None
        running = [(self.records[number], spent_s) for number, spent_s in occupied_s.items()]
        left = [(max(0.0, self._usual_s(job.batch) - spent_s), job.gpus) for job, spent_s in running]
        if left and not self.waiting and not any(left_s for left_s, _ in left):
            return None  # what runs takes longer than usual, by an unknown time
        waiting_s = sum(
            count * gpus * self._usual_s(batch)
            for batch, kinds in enumerate(self._kinds)
            for (gpus, _), count in kinds.items()
        )
        total_s = waiting_s + sum(left_s * gpus for left_s, gpus in left)
        return max([total_s / lanes, *(left_s for left_s, _ in left)])

    def _usual_s(self, batch: int) -> float:
        """How long a job of the batch takes; as all do, where none of it has finished."""
        if self._finished[batch]:
            return self._finished_s[batch] / self._finished[batch]
        return sum(self._finished_s.values()) / self._finished.total()

    # A job's way through the queue

    def add(self, record: JobRecord) -> None:
        """Put another job into the queue."""
        self.records[record.number] = _bare(record)
        self._insert(record)

    def take(self, number: int) -> JobRecord:
        """Take a job out of the queue: it occupies slots from now on."""
        record = self.records[number]
        self._leave(record)
        self._running[number] = None
        self._occupying[record.batch] += 1
        return record

    def update(self, record: JobRecord) -> None:
        """Update a job that occupies slots."""
        self.records[record.number] = record
        self.version += 1

    def release(self, record: JobRecord) -> None:
        """The job leaves its slots: it has ended, or waits again at its old position."""
        record = self.records[record.number] = _bare(record)
        del self._running[record.number]
        self._occupying[record.batch] -= 1
        (self._end if record.state.ended else self._insert)(record)

    def _insert(self, record: JobRecord) -> None:
        insort(self._waiting[record.batch], record.number, key=lambda other: self.records[other].position)
        self._kinds[record.batch][record.gpus, record.only] += 1
        self.version += 1

    def _leave(self, record: JobRecord) -> None:
        """The job does not wait any more."""
        self._waiting[record.batch].remove(record.number)
        self._kinds[record.batch] -= Counter({(record.gpus, record.only): 1})
        self.version += 1

    def end_of(self, batch: int) -> float:
        """The position behind all waiting jobs of a batch."""
        waiting = self._waiting[batch]
        return self.records[waiting[-1]].position + 1.0 if waiting else 0.0

    def requeue(self, number: int, reason: str) -> JobRecord | None:
        """Have a failed job wait again, behind all others of its batch; None where it has not failed."""
        record = self.records[number]
        if record.state is not WorkerState.FAILED:
            return None
        return self._reopen(record, position=self.end_of(record.batch), reason=reason)

    def _reopen(self, record: JobRecord, *, position: float, reason: str | None) -> JobRecord:
        self._states[record.state] -= 1
        del self._ended[record.number]
        again = structs.replace(record, state=WorkerState.WAITING, position=position, reason=reason, ended=None)
        self.records[record.number] = again
        self._insert(again)
        return again

    def _end(self, record: JobRecord) -> None:
        self._ended[record.number] = None
        self._states[record.state] += 1
        if record.state is WorkerState.FINISHED and record.elapsed_s is not None:
            self._finished[record.batch] += 1
            self._finished_s[record.batch] += record.elapsed_s
        self.version += 1

    # Commands

    def act(self, action: QueueAction, number: int) -> JobRecord:
        """Act on a job that does not occupy a slot. Returns its new record.

        Raises `GmgError` if there is no such job, or the action does not apply to it.
        """
        record = self.records.get(number)
        if record is None:
            raise GmgError(f"no job {number}; there are 1 to {len(self.records)}", 1)
        waiting = self._waiting[record.batch]
        if action is QueueAction.STOP:
            raise GmgError(f"job {number} ({record.name}) does not run", 1)
        if action is QueueAction.RETRY:
            if not record.state.ended:
                raise GmgError(f"job {number} ({record.name}) has not ended; only then can it be run again", 1)
            position = self.records[waiting[0]].position - 1.0 if waiting else record.position
            return self._reopen(record, position=position, reason=None)
        if number not in waiting:
            what = "has ended" if record.state.ended else "runs"
            raise GmgError(f"job {number} ({record.name}) {what}; it does not wait", 1)
        self._leave(record)
        skipped = self.records[number] = structs.replace(record, state=WorkerState.STOPPED, reason=SKIPPED)
        self._end(skipped)
        return skipped


def _bare(record: JobRecord) -> JobRecord:
    """A record without its results."""
    return structs.replace(record, result=None)


def displayed(record: JobRecord) -> JobRecord:
    """A record as clients see it: without the script's results and its words, which may be long; the store has them."""
    values = {name: value if _fits(value) else str(value) for name, value in record.values.items()}
    last = structs.replace(record.last, args=(), given=(), env={}, metrics={})
    return structs.replace(record, result={}, values=values, last=last)


def _fits(value: Value) -> bool:
    """Whether a message can hold `value`; MessagePack's integers end at 64 bits."""
    return not isinstance(value, int) or -(1 << 63) <= value < 1 << 64


def queue_of(path: Path, sweep: SweepSpec, hardware: Hardware, store: StoreWriter, tried: TriedArguments) -> JobQueue:
    """The queue of a sweep, from its store. Raises `StoreError`.

    Jobs that a killed engine left running wait again, and failed ones where that is asked for; `tried` is given all
    attempts.
    """
    with open_store(path) as stored:
        before, attempts = stored.jobs, [ran for those in stored.attempts.values() for ran in those]
    for ran in attempts:
        attempt = ran.attempt
        if attempt.ended is None and not attempt.state.ended:
            attempt = structs.replace(attempt, state=WorkerState.STOPPED, reason=_KILLED)
            store.put(structs.replace(ran, attempt=attempt))
        tried.add(ran.slot, attempt)
    records = [_waiting_again(record, retry_failed=sweep.retry_failed) for record in before]
    for was, record in zip(before, records, strict=True):
        if record is not was:
            store.put(record)
    spans = [(ran.attempt.started, ran.attempt.ended or ran.attempt.started) for ran in attempts]
    return JobQueue([_without_slot(record, hardware, store) for record in records], sweep.batches, covered_s(spans))


def _waiting_again(record: JobRecord, *, retry_failed: bool) -> JobRecord:
    if retry_failed and record.state is WorkerState.FAILED:
        return structs.replace(record, state=WorkerState.WAITING, reason=None, ended=None)
    if record.state.ended or record.state is WorkerState.WAITING:
        return record
    return structs.replace(record, state=WorkerState.WAITING, reason=_KILLED)


def _without_slot(record: JobRecord, hardware: Hardware, store: StoreWriter) -> JobRecord:
    """The record of a job; a failed one where the job needs slots that its batch has not, and would wait for ever."""
    slots = hardware.allowed[record.batch]
    if record.state.ended or (record.only in (None, *slots) and record.gpus <= len(slots)):
        return record
    reason = f"needs {units.count(record.gpus, 'slot')} at once, and its batch has {len(slots)}"
    if record.only not in (None, *slots):
        reason = f"must run on {record.only}, which is not among its slots: {', '.join(sorted(slots))}"
    failed = structs.replace(record, state=WorkerState.FAILED, reason=reason)
    store.put(failed)
    return failed
