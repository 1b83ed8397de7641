"""A job that occupies slots, and the workers that run it: one process for all of them, or a rank on each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from gmg_tui import session as sessions
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.groups.group_run import GroupRun
from gmg_tui.engine.groups.view import group_view
from gmg_tui.engine.groups.watch import GroupWatch
from gmg_tui.engine.records.recorder import Recorder
from gmg_tui.engine.workers.slot_state import SlotState
from gmg_tui.engine.workers.slot_worker import SlotWorker
from gmg_tui.engine.workers.workplace import Workplace
from gmg_tui.model import JobRecord, RankGroup, Slot


class JobRun:
    """A job on its slots.

    Attributes:
        number: The job's.
        slots: Where it runs, in the order of its ranks.
        workers: On the first of these slots, or a rank on each.
    """

    def __init__(
        self,
        record: JobRecord,
        slot_states: Sequence[SlotState],
        task: Task,
        workplace: Workplace,
        recorder: Recorder,
    ) -> None:
        self.number = record.number
        self.slot_states = tuple(slot_states)
        self.slots = tuple(slot_state.slot.name for slot_state in slot_states)
        self._group = None
        if record.world_size is not None:
            self._group = GroupRun(group_name(record), self.slots, task, workplace.session, workplace.meeting_place)
        workers = []
        for rank, slot_state in enumerate(slot_states if self._group is not None else slot_states[:1]):
            member = self._group.members[rank] if self._group is not None else None
            log = log_path(record, rank)
            worker = workplace.worker(slot_state.slot, slot_state.ring, task, log, recorder, member)
            slot_state.worker, slot_state.waits, slot_state.lead = worker, None, None
            if member is not None:
                member.companion = worker
            workers.append(worker)
        self.workers = tuple(workers)
        for slot_state in self.slot_states[len(workers) :]:
            slot_state.waits = f"job {self.number} has it, with {self.slots[0]}"
            slot_state.lead = self.slot_states[0]
        self._watch = GroupWatch(self._group, self.workers, workplace.spec) if self._group is not None else None

    @property
    def lead(self) -> SlotWorker:
        """The worker that speaks for the job: its only one, or rank 0."""
        return self.workers[0]

    @property
    def steered_by(self) -> tuple[str, ...]:
        """The slots whose workers a command to any of the job's slots is for."""
        return self.slots[: len(self.workers)]

    @property
    def cause(self) -> str | None:
        """Which rank failed first, and of what, in one line; None without a group, or where none did."""
        return self._group.cause if self._group is not None else None

    @property
    def unready(self) -> SlotWorker | None:
        """The worker whose attempt could not be prepared, for reasons outside the script."""
        return next((worker for worker in self.workers if worker.unready is not None), None)

    def placed(self) -> Iterator[tuple[SlotState, SlotWorker]]:
        """Each slot with the worker that runs on it; the one whose failure is the job's first."""
        pairs = list(zip(self.slot_states, self.workers, strict=False))
        first = self._group.first_failed if self._group is not None else None
        yield from sorted(pairs, key=lambda pair: pair[1].slot.name != first)

    async def run(self) -> None:
        """Run the workers until all have ended for good; whatever runs when this is cancelled is killed."""
        tasks = [asyncio.create_task(worker.run(), name=worker.slot.name) for worker in self.workers]
        if self._group is not None:
            tasks.append(asyncio.create_task(self._group.run(), name=self._group.id))
        tasks.append(asyncio.create_task(self._concluded()))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _concluded(self) -> None:
        """Wait until all workers have ended, and none is about to start again."""
        while not all(worker.concluded.is_set() for worker in self.workers):
            for worker in self.workers:
                await worker.concluded.wait()

    def leave(self) -> None:
        """Its slots are free."""
        for slot_state in self.slot_states:
            slot_state.lead = None

    def stop(self, *, kill: bool, reason: str | None = None) -> None:
        """Stop all its workers."""
        for worker in self.workers:
            worker.stop(kill=kill, reason=reason)

    def look(self, now: float) -> None:
        """Look whether its group is stuck; `now` is monotonic seconds."""
        if self._watch is not None:
            self._watch.look(now)

    def group(self, now: float) -> RankGroup | None:
        """What clients see of its group; None where it has none."""
        return group_view(self._group, self.workers, now) if self._group is not None else None


def group_name(record: JobRecord) -> str:
    """The name of a job's group, which no other has."""
    return f"g{record.number}"


def log_path(record: JobRecord, rank: int) -> str:
    """The log of a job's worker: a path in the session's folder."""
    path = record.log or f"{sessions.LOGS}/{record.number:04}-{record.name}.log"
    return path if rank == 0 else f"{path.removesuffix('.log')}.rank{rank}.log"


def logs_of(record: JobRecord, slots: Sequence[Slot]) -> Mapping[Slot, str]:
    """The logs of a job's workers, by slot; what has no worker of its own writes to that of the first."""
    ranks = record.world_size is not None
    return {slot: log_path(record, rank if ranks else 0) for rank, slot in enumerate(slots)}
