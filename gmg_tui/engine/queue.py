"""The order in which a sweep's jobs run: which waits, which holds a slot, which has ended."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence

from msgspec import structs

from gmg_tui.engine.meter import Mean
from gmg_tui.errors import GmgError
from gmg_tui.model import Group, JobRecord, QueueAction, WorkerState

SKIPPED = "skipped"


class JobQueue:
    """The jobs of a sweep. Groups run one after another; within a group, the job with the smallest place is next.

    Args:
        records: The jobs, as the store has them.
        groups: The settings that they share.

    Attributes:
        records: The jobs, by number.
        groups: The settings that they share.
        version: Another number after each change.
    """

    def __init__(self, records: Iterable[JobRecord], groups: Sequence[Group]) -> None:
        self.records = {record.number: record for record in records}
        self.version = 0
        self.groups = groups
        ordered = sorted(self.records.values(), key=lambda record: (record.place, record.number))
        self._waiting = [deque[int]() for _ in groups]
        self._holding = [0 for _ in groups]
        self._held: dict[int, None] = {}
        """Numbers of the jobs that hold a slot, the longest first."""
        self._states: Counter[WorkerState] = Counter()
        """Of the jobs that have ended."""
        self._times = [Mean() for _ in groups]
        self._busy_s = 0.0
        ended: list[JobRecord] = []
        for record in ordered:
            if record.state.ended:
                ended.append(record)
                self._count(record)
            else:
                self._waiting[record.group].append(record.number)
        self._ended = {record.number: None for record in sorted(ended, key=lambda record: record.ended or 0.0)}

    # What there is

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        return sum(map(len, self._waiting))

    @property
    def holding(self) -> int:
        """How many jobs hold a slot."""
        return len(self._held)

    @property
    def group(self) -> int:
        """Place of the group whose jobs run, or the last one when all have ended."""
        for place, waiting in enumerate(self._waiting):
            if waiting or self._holding[place]:
                return place
        return len(self.groups) - 1

    def ended(self, state: WorkerState) -> int:
        """How many jobs have ended in `state`."""
        return self._states[state]

    @property
    def busy_s(self) -> float:
        """How long the jobs that have ended held slots, all together, seconds."""
        return self._busy_s

    def order(self) -> list[int]:
        """All jobs' numbers: ended ones in the order of their ends, then those with a slot, then the waiting ones."""
        return [*self._ended, *self._held, *(number for waiting in self._waiting for number in waiting)]

    def eta_s(self, held_s: dict[int, float], lanes: int) -> float | None:
        """Seconds to the end of all jobs, from the times of those that have ended; None where these say nothing.

        Args:
            held_s: How long each running job has held its slot, by number.
            lanes: How many slots there are for jobs.
        """
        known = [mean.value for mean in self._times if mean.value is not None]
        if not known or not lanes:
            return None
        fallback = sum(known) / len(known)
        usual = [fallback if mean.value is None else mean.value for mean in self._times]
        rests = [max(0.0, usual[self.records[number].group] - spent) for number, spent in held_s.items()]
        if held_s and not self.waiting and not any(rests):
            return None  # what runs takes longer than any before it, and nobody knows how much longer
        waiting_s = sum(len(waiting) * usual[place] for place, waiting in enumerate(self._waiting))
        return max([(waiting_s + sum(rests)) / lanes, *rests])

    # A job's way through it

    def head(self) -> JobRecord | None:
        """The next job; None when none waits, or when those of the group before still run."""
        waiting = self._waiting[self.group]
        return self.records[waiting[0]] if waiting else None

    def take(self, number: int) -> JobRecord:
        """The job, which holds a slot from now on."""
        record = self.records[number]
        self._waiting[record.group].remove(number)
        self._held[number] = None
        self._holding[record.group] += 1
        self.version += 1
        return record

    def update(self, record: JobRecord) -> None:
        """Take what has changed of a job that holds a slot."""
        self.records[record.number] = record
        self.version += 1

    def give_back(self, record: JobRecord) -> None:
        """The job holds its slot no more: it has ended, or waits again at its old place."""
        number = record.number
        self.records[number] = record
        del self._held[number]
        self._holding[record.group] -= 1
        self.version += 1
        if record.state.ended:
            self._end(record)
        else:
            self._insert(record)

    # What a person does

    def act(self, action: QueueAction, number: int) -> list[JobRecord]:
        """Do something to a job that does not hold a slot. Returns the records that have changed.

        Raises:
            GmgError: There is no such job, or it is not one to which this can be done.
        """
        record = self._record(number)
        if action is QueueAction.RETRY:
            return self._retry(record)
        waiting = self._waiting[record.group]
        if number not in waiting:
            what = "has ended" if record.state.ended else "runs"
            raise GmgError(f"job {number} ({record.name}) {what}; it does not wait", 1)
        if action is QueueAction.SKIP:
            waiting.remove(number)
            skipped = structs.replace(record, state=WorkerState.STOPPED, reason=SKIPPED)
            self.records[number] = skipped
            self._end(skipped)
            return [skipped]
        at = waiting.index(number)
        there = {QueueAction.UP: at - 1, QueueAction.DOWN: at + 1, QueueAction.TOP: 0}[action]
        if not 0 <= there < len(waiting) or there == at:
            return []
        return self._move(waiting, at, there)

    def _record(self, number: int) -> JobRecord:
        record = self.records.get(number)
        if record is None:
            raise GmgError(f"no job {number}; there are 1 to {len(self.records)}", 1)
        return record

    def _move(self, waiting: deque[int], at: int, there: int) -> list[JobRecord]:
        here = self.records[waiting[at]]
        place = self.records[waiting[there]].place
        changed = []
        if there == 0 and at > 1:
            changed.append(structs.replace(here, place=place - 1.0))
        else:
            other = self.records[waiting[there]]
            changed += [structs.replace(here, place=place), structs.replace(other, place=here.place)]
        for record in changed:
            self.records[record.number] = record
        del waiting[at]
        waiting.insert(there, here.number)
        self.version += 1
        return changed

    def _retry(self, record: JobRecord) -> list[JobRecord]:
        if not record.state.ended:
            raise GmgError(f"job {record.number} ({record.name}) has not ended; only then it can be run again", 1)
        self._states[record.state] -= 1
        self._busy_s -= record.elapsed_s or 0.0
        del self._ended[record.number]
        waiting = self._waiting[record.group]
        place = self.records[waiting[0]].place - 1.0 if waiting else record.place
        again = structs.replace(record, state=WorkerState.WAITING, place=place, reason=None, ended=None)
        self.records[record.number] = again
        waiting.appendleft(record.number)
        self.version += 1
        return [again]

    def _insert(self, record: JobRecord) -> None:
        """Put a job back where its place is."""
        waiting = self._waiting[record.group]
        at = next((at for at, number in enumerate(waiting) if self.records[number].place > record.place), len(waiting))
        waiting.insert(at, record.number)

    def _end(self, record: JobRecord) -> None:
        self._ended[record.number] = None
        self._count(record)
        self.version += 1

    def _count(self, record: JobRecord) -> None:
        self._states[record.state] += 1
        self._busy_s += record.elapsed_s or 0.0
        if record.state is WorkerState.FINISHED and record.elapsed_s is not None:
            self._times[record.group].add(record.elapsed_s)
