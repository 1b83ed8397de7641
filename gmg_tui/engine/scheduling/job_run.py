"""A job that occupies slots, and the workers that run it: its only one, or a rank on each slot."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gmg_tui import session as sessions
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.groups.group import Group
from gmg_tui.engine.records.recorder import Recorder
from gmg_tui.engine.workers.slot_state import SlotState, Workplace
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.model import JobRecord, Slot


class JobRun:
    """A job on its slots.

    Attributes:
        number: The job's.
        slots: Where it runs, in the order of its ranks.
        workers: One on each of these slots.
        group: Its ranks; None where it is one process.
        stopped: Whether the user has stopped it, rather than the whole session.
        again: Whether it is to run again once it has left its slots.
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
        self.stopped = self.again = False
        self.slot_states = tuple(slot_states)
        self.slots = tuple(slot_state.slot.name for slot_state in slot_states)
        self.group = Group(record.group, self.slots, task, workplace) if record.group is not None else None
        members = self.group.members if self.group is not None else (None,)
        logs = logs_of(record, [slot_state.slot for slot_state in slot_states])
        workers: list[Worker] = []
        for slot_state, member in zip(slot_states, members, strict=True):
            worker = workplace.worker(slot_state, task, logs[slot_state.slot], recorder, member)
            slot_state.worker, slot_state.waits = worker, None
            if member is not None:
                member.worker = worker
            workers.append(worker)
        self.workers = tuple(workers)

    @property
    def lead(self) -> Worker:
        """The worker that speaks for the job: its only one, or rank 0."""
        return self.workers[0]

    @property
    def cause(self) -> str | None:
        """Which rank failed first, and of what, in one line; None without a group, or where none did."""
        return self.group.cause if self.group is not None else None

    async def run(self) -> None:
        """Run the workers until all have ended for good; whatever runs when this is cancelled is killed."""
        tasks = [asyncio.create_task(worker.run(), name=worker.slot.name) for worker in self.workers]
        if self.group is not None:
            tasks.append(asyncio.create_task(self.group.run(), name=self.group.id))
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

    def stop(self, *, kill: bool, reason: str | None = None) -> None:
        """Stop all its workers."""
        for worker in self.workers:
            worker.stop(kill=kill, reason=reason)


def logs_of(record: JobRecord, slots: Sequence[Slot]) -> dict[Slot, str]:
    """The logs of a job's workers, by slot: paths in the session's folder. Ranks beyond the first have their own."""
    path = sessions.job_log(record)
    return {slot: f"{path.removesuffix('.log')}.rank{rank}.log" if rank else path for rank, slot in enumerate(slots)}
