"""A job on its slots: its workers, and the group if they are ranks."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from gmg_tui.engine.attempts.attempt import Task
from gmg_tui.engine.records.recorder import Recorder
from gmg_tui.engine.workers.group import Group
from gmg_tui.engine.workers.slot import EngineSlot, Workplace
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.model import WorkerState


class JobRun:
    """A job on its slots, with a worker on each: its only one, or its ranks in order.

    Attributes:
        number: The job's number.
        stopped: True if the user stopped it, rather than the whole session.
        interrupted: True if only the end of the session stopped it.
        again: True if it runs again once it has left its slots.
        edited: Number of the job that continues it with other arguments; None if it was not edited.
        slots: The slots it runs on.
        group: Its ranks; None if it is one process.
        workers: The workers on its slots.
    """

    def __init__(
        self,
        number: int,
        engine_slots: Sequence[EngineSlot],
        tasks: Sequence[Task],
        workplace: Workplace,
        recorder: Recorder,
        group: str | None = None,
    ) -> None:
        """`tasks` has one for each slot; `group` is the name of their group, None for a single process."""
        self.number = number
        self.stopped = self.interrupted = self.again = False
        self.edited: int | None = None
        self.engine_slots = tuple(engine_slots)
        self.slots = tuple(engine_slot.slot.name for engine_slot in engine_slots)
        self.group = Group(group, self.slots, tasks[0], workplace) if group is not None else None
        for number, (engine_slot, task) in enumerate(zip(engine_slots, tasks, strict=True)):
            own = replace(task, rank=self.group.rank(number)) if self.group is not None else task
            engine_slot.worker = Worker(engine_slot, own, workplace, recorder, self.group)
            engine_slot.idle_reason = None
        self.workers = tuple(each.worker for each in engine_slots if each.worker is not None)

    @property
    def lead(self) -> Worker:
        """The worker that represents the job: its only one, or rank 0."""
        return self.workers[0]

    async def run(self, *, stays: bool = False) -> None:
        """Runs the workers until all have ended for good; with `stays` until cancelled. Cancelling kills them."""
        tasks = [asyncio.create_task(worker.run(), name=worker.slot.name) for worker in self.workers]
        if self.group is not None:
            tasks.append(asyncio.create_task(self.group.run(), name=self.group.id))
        if not stays:
            tasks.append(asyncio.create_task(self._concluded()))
        try:
            (done, *_), _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        done.result()

    async def _concluded(self) -> None:
        """Waits until all workers have ended and none is about to restart."""
        while not all(worker.concluded.is_set() for worker in self.workers):
            for worker in self.workers:
                await worker.concluded.wait()

    def stop(self, *, kill: bool, reason: str | None = None) -> None:
        """Stops all its workers."""
        for worker in self.workers:
            worker.stop(kill=kill, reason=reason)

    def interrupt(self, *, kill: bool, reason: str | None) -> None:
        """Stops all its workers because the session ends."""
        goes_on = any(not worker.state.ended and worker.state is not WorkerState.STOPPING for worker in self.workers)
        self.interrupted |= goes_on or self.lead.policy.pending
        self.stop(kill=kill, reason=reason)

    @property
    def stopped_rank(self) -> Worker | None:
        """The first worker that was stopped; None if all ended by themselves."""
        return next((worker for worker in self.workers if worker.state is WorkerState.STOPPED), None)

    def check(self) -> None:
        """Checks if its group is stuck."""
        if self.group is not None:
            self.group.check(time.monotonic())
