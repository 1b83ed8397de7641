"""The order in which a sweep's jobs run: which waits, which occupies a slot, which has ended."""

from __future__ import annotations

from bisect import insort
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import structs

from gmg_tui.errors import GmgError
from gmg_tui.model import Batch, JobRecord, QueueAction, Value, WorkerState

SKIPPED = "skipped"
_TELLING = 3
"""So many jobs must have ended before the longest of them tells how long another one may take."""


class _Times:
    """How long jobs of one kind have occupied their slots."""

    def __init__(self) -> None:
        self.count = 0
        self.longest_s = 0.0
        self._total_s = 0.0

    @property
    def mean_s(self) -> float:
        """Their mean, seconds."""
        return self._total_s / self.count

    def add(self, elapsed_s: float) -> None:
        """One has taken so long."""
        self.count += 1
        self._total_s += elapsed_s
        self.longest_s = max(self.longest_s, elapsed_s)


class JobQueue:
    """The jobs of a sweep. Batches run one after another; within a batch, the job with the smallest position is next."""

    def __init__(self, records: Iterable[JobRecord], batches: Sequence[Batch]) -> None:
        self.records = {record.number: _bare(record) for record in records}
        """By number."""
        self.version = 0
        """Changes whenever the queue does."""
        self.batches = batches
        self._waiting = [deque[int]() for _ in batches]
        self._kinds = [Counter[tuple[int, str | None]]() for _ in batches]
        """How many jobs wait in each batch, by the number of slots that they need, and the one that they must have."""
        self._occupying = [0 for _ in batches]
        self._running: dict[int, None] = {}
        """Numbers of the jobs that occupy slots, the longest first."""
        self._states: Counter[WorkerState] = Counter()
        """Of the jobs that have ended."""
        self._times: dict[tuple[int, int], _Times] = {}
        """How long jobs have taken, by batch and number of slots."""
        self.busy_s = 0.0
        """How long the jobs that have ended occupied slots, in total over these, seconds."""
        self._ended: dict[int, None] = {}
        """Their numbers, the first to end first."""
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
    def between(self) -> bool:
        """Whether the last jobs of a batch still run, and those of the next wait for them."""
        return self.waiting > 0 and not self._waiting[self.batch]

    def ended(self, state: WorkerState) -> int:
        """How many jobs have ended in `state`."""
        return self._states[state]

    def order(self) -> list[int]:
        """All jobs' numbers: ended ones in the order of their ends, then those with a slot, then the waiting ones."""
        return [*self._ended, *self._running, *(number for waiting in self._waiting for number in waiting)]

    def eta_s(self, occupied_s: Mapping[int, float], lanes: int) -> float | None:
        """Estimated seconds to the end of all jobs, from the times of those that have ended; None if unknown.

        Args:
            occupied_s: How long each running job has occupied its slot, by number.
            lanes: How many slots there are for jobs.
        """
        if not self._times or not lanes:
            return None
        left_s = self.left_s(occupied_s)
        rests = [left_s[number] * self.records[number].gpus for number in occupied_s]
        if occupied_s and not self.waiting and not any(rests):
            return None  # what runs takes longer than usual, and nobody knows how much longer
        waiting_s = sum(
            count * gpus * self._usual_s(batch, gpus)
            for batch, kinds in enumerate(self._kinds)
            for (gpus, _), count in kinds.items()
        )
        return max([(waiting_s + sum(rests)) / lanes, *left_s.values()])

    def left_s(self, occupied_s: Mapping[int, float]) -> dict[int, float]:
        """How long running jobs take yet, by number, as earlier ones took; empty where none has ended.

        `occupied_s` is as `eta_s` has it.
        """
        if not self._times:
            return {}
        jobs = ((self.records[number], spent_s) for number, spent_s in occupied_s.items())
        return {job.number: max(0.0, self._usual_s(job.batch, job.gpus) - spent_s) for job, spent_s in jobs}

    def longest_s(self, job: JobRecord) -> float | None:
        """The longest that jobs of its batch with as many slots have taken, seconds; None where too few have ended."""
        times = self._times.get((job.batch, job.gpus))
        return times.longest_s if times is not None and times.count >= _TELLING else None

    def _usual_s(self, batch: int, gpus: int) -> float:
        times = self._times.get((batch, gpus))
        means = [times.mean_s] if times is not None else [each.mean_s for each in self._times.values()]
        return sum(means) / len(means)

    # A job's way through the queue

    def add(self, record: JobRecord) -> None:
        """Put another job into the queue."""
        self.records[record.number] = _bare(record)
        self._insert(record)
        self.version += 1

    def next_jobs(self) -> Iterator[JobRecord]:
        """The waiting jobs in their order; none while jobs of the previous batch still run."""
        return (self.records[number] for number in self._waiting[self.batch])

    @property
    def kinds(self) -> Iterable[tuple[int, str | None]]:
        """What the waiting jobs of the current batch need: how many slots, and which one they must run on, if any."""
        return self._kinds[self.batch].keys()

    def take(self, number: int) -> JobRecord:
        """Take a job out of the queue: it occupies a slot from now on."""
        record = self.records[number]
        self._leave(record)
        self._running[number] = None
        self._occupying[record.batch] += 1
        self.version += 1
        return record

    def update(self, record: JobRecord) -> None:
        """Update a job that occupies a slot."""
        self.records[record.number] = record
        self.version += 1

    def release(self, record: JobRecord) -> None:
        """The job leaves its slot: it has ended, or waits again at its old position."""
        number, record = record.number, _bare(record)
        self.records[number] = record
        del self._running[number]
        self._occupying[record.batch] -= 1
        self.version += 1
        if record.state.ended:
            self._end(record)
        else:
            self._insert(record)

    def _insert(self, record: JobRecord) -> None:
        insort(self._waiting[record.batch], record.number, key=lambda other: self.records[other].position)
        self._kinds[record.batch][record.gpus, record.only] += 1

    def _leave(self, record: JobRecord) -> None:
        """A job does not wait any more."""
        self._waiting[record.batch].remove(record.number)
        kinds = self._kinds[record.batch]
        kinds[record.gpus, record.only] -= 1
        if not kinds[record.gpus, record.only]:
            del kinds[record.gpus, record.only]

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

    # Commands

    def act(self, action: QueueAction, number: int) -> list[JobRecord]:
        """Act on a job that does not occupy a slot. Returns the records that have changed.

        Raises `GmgError` if there is no such job, or the action does not apply to it.
        """
        record = self.records.get(number)
        if record is None:
            raise GmgError(f"no job {number}; there are 1 to {len(self.records)}", 1)
        if action is QueueAction.RETRY:
            return self._retry(record)
        waiting = self._waiting[record.batch]
        if number not in waiting:
            what = "has ended" if record.state.ended else "runs"
            raise GmgError(f"job {number} ({record.name}) {what}; it does not wait", 1)
        if action is QueueAction.SKIP:
            self._leave(record)
            skipped = structs.replace(record, state=WorkerState.STOPPED, reason=SKIPPED)
            self.records[number] = skipped
            self._end(skipped)
            return [skipped]
        at = waiting.index(number)
        there = {QueueAction.UP: at - 1, QueueAction.DOWN: at + 1, QueueAction.TOP: 0}[action]
        if not 0 <= there < len(waiting) or there == at:
            return []
        return self._move(waiting, at, there)

    def _move(self, waiting: deque[int], at: int, there: int) -> list[JobRecord]:
        here, other = self.records[waiting[at]], self.records[waiting[there]]
        if there == 0 and at > 1:
            changed = [structs.replace(here, position=other.position - 1.0)]
        else:
            changed = [structs.replace(here, position=other.position), structs.replace(other, position=here.position)]
        self.records.update((record.number, record) for record in changed)
        del waiting[at]
        waiting.insert(there, here.number)
        self.version += 1
        return changed

    def _retry(self, record: JobRecord) -> list[JobRecord]:
        if not record.state.ended:
            raise GmgError(f"job {record.number} ({record.name}) has not ended; only then can it be run again", 1)
        waiting = self._waiting[record.batch]
        position = self.records[waiting[0]].position - 1.0 if waiting else record.position
        return [self._reopen(record, position=position, reason=None)]

    def _reopen(self, record: JobRecord, *, position: float, reason: str | None) -> JobRecord:
        self._states[record.state] -= 1
        self.busy_s -= (record.elapsed_s or 0.0) * record.gpus
        del self._ended[record.number]
        again = structs.replace(record, state=WorkerState.WAITING, position=position, reason=reason, ended=None)
        self.records[record.number] = again
        self._insert(again)
        self.version += 1
        return again

    def _end(self, record: JobRecord) -> None:
        self._ended[record.number] = None
        self.version += 1
        self._states[record.state] += 1
        self.busy_s += (record.elapsed_s or 0.0) * record.gpus
        if record.state is WorkerState.FINISHED and record.elapsed_s is not None:
            self._times.setdefault((record.batch, record.gpus), _Times()).add(record.elapsed_s)


def _bare(record: JobRecord) -> JobRecord:
    """A record without its results, which may be large: the store has them, and keeps them."""
    return structs.replace(record, result=None)


def shown(record: JobRecord) -> JobRecord:
    """A record as clients see it: without the script's results, which may be large; the store has them."""
    values = {name: value if _fits(value) else str(value) for name, value in record.values.items()}
    return structs.replace(record, result={}, values=values)


def _fits(value: Value) -> bool:
    """Whether a message can hold `value`; MessagePack's integers end at 64 bits."""
    return not isinstance(value, int) or -(1 << 63) <= value < 1 << 64
