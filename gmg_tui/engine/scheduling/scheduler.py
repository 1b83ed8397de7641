"""A job on its slots, and the scheduler of a plain run, whose one script has a worker on each slot."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui.engine.attempts.attempt import Stop, Task
from gmg_tui.engine.records.recorder import Recorder
from gmg_tui.engine.workers.group import Group
from gmg_tui.engine.workers.slot import EngineSlot
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.model import JobRecord, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts import torchrun

if TYPE_CHECKING:
    from gmg_tui.engine.attempts.attempt import Workplace


class PlainScheduler:
    """Runs the session's one script on every slot; `job_runs` has a job for each worker or group."""

    def __init__(self, slots: Mapping[str, EngineSlot], workplace: Workplace, recorder: Recorder) -> None:
        self._slots, self._workplace, self._recorder = slots, workplace, recorder
        spec, engine_slots = workplace.spec, list(slots.values())
        if torchrun.is_torchrun(spec.script, module=spec.module):
            self.job_runs = [self._make_run(engine_slots[:1], engine_slots)]
            for engine_slot in engine_slots[1:]:
                engine_slot.lead = engine_slots[0]
        else:
            size = 1 if spec.ddp is None else spec.ddp.size or len(engine_slots)
            by_group = [engine_slots[first : first + size] for first in range(0, len(engine_slots), size)]
            names = [f"g{number}" if spec.ddp is not None else None for number in range(len(by_group))]
            self.job_runs = [
                self._make_run(group_slots, group_slots, name)
                for group_slots, name in zip(by_group, names, strict=True)
            ]
        self._workers = {worker.slot.name: worker for run in self.job_runs for worker in run.workers}

    def _make_run(
        self, engine_slots: Sequence[EngineSlot], visible: Sequence[EngineSlot], group: str | None = None
    ) -> JobRun:
        """Returns a job with a worker on each of `engine_slots`; each sees the GPUs of all `visible` slots."""
        spec, count = self._workplace.spec, len(self._slots)
        only_own = len(visible) == 1 and group is None
        visible_slots = () if only_own else tuple(engine_slot.slot for engine_slot in visible)
        logs = [f"{sessions.LOGS}/{engine_slot.slot.name}.log" for engine_slot in engine_slots]
        tasks = [
            Task(spec.args, spec.env, engine_slot.index, count, log, visible_slots, resume_args=spec.resume_args)
            for engine_slot, log in zip(engine_slots, logs, strict=True)
        ]
        run = JobRun(engine_slots[0].index + 1, engine_slots, tasks, self._workplace, self._recorder, group)
        for engine_slot, worker in zip(engine_slots, run.workers, strict=True):
            record = JobRecord(engine_slot.index + 1, engine_slot.slot.name)
            if (rank := worker.rank) is not None:
                record = structs.replace(record, group=rank.id, rank=rank.rank, world_size=rank.world_size)
            self._recorder.occupy(record, (worker,))
        return run

    @property
    def ended(self) -> bool:
        """True if all workers have ended."""
        return all(worker.state.ended for worker in self._workers.values())

    async def run(self) -> None:
        """Runs all workers until cancelled; cancelling kills them."""
        async with asyncio.TaskGroup() as tasks:
            for run in self.job_runs:
                tasks.create_task(run.run(until_cancelled=True), name=run.slots[0])

    def restart(self, slot: str) -> None:
        """Restarts the slot's worker."""
        self._workers[slot].restart()

    def edit(self, slot: str, args: tuple[str, ...], env: dict[str, str]) -> None:
        """Restarts the slot's worker with other arguments and environment."""
        self._workers[slot].edit(args, env)

    def stop(self, slot: str, *, kill: bool) -> None:
        """Stops the slot's worker."""
        self._workers[slot].stop(Stop(kill=kill))

    def end(self, *, kill: bool, reason: str | None) -> None:
        """Stops all workers."""
        for run in self.job_runs:
            run.stop(Stop(kill=kill, reason=reason))


class JobRun:
    """A job on its slots, with one worker, or one per rank, in order.

    Attributes:
        stopped: True if the user stopped this job, not the whole session.
        interrupted: True if the end of the session stopped it.
        rerun_requested: True if the job is to run again once it has left its slots.
        edited_as: Number of the job that continues it with other arguments; None if it was not edited.
        group: The group of its ranks; None for a single process.
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
        """`tasks` has one task for each slot; `group` is the group's name, None for a single process."""
        self.number, self._faults = number, recorder.faults
        self.stopped = self.interrupted = self.rerun_requested = False
        self.edited_as: int | None = None
        self.engine_slots = tuple(engine_slots)
        self.slots = tuple(engine_slot.slot.name for engine_slot in engine_slots)
        self.group = Group(group, self.slots, tasks[0], workplace) if group is not None else None
        for rank, (engine_slot, task) in enumerate(zip(engine_slots, tasks, strict=True)):
            rank_task = replace(task, rank=self.group.rank(rank)) if self.group is not None else task
            engine_slot.worker = Worker(engine_slot, rank_task, workplace, recorder, self.group)
            engine_slot.idle_reason = None
        self.workers = tuple(slot.worker for slot in engine_slots if slot.worker is not None)

    @property
    def lead(self) -> Worker:
        """The worker that represents the job: its only one, or rank 0."""
        return self.workers[0]

    async def run(self, *, until_cancelled: bool = False) -> None:
        """Runs the workers until all have ended for good or, with `until_cancelled`, until cancelled. Cancelling kills them."""
        tasks = [asyncio.create_task(worker.run(), name=worker.slot.name) for worker in self.workers]
        if self.group is not None:
            tasks.append(asyncio.create_task(self.group.run(), name=self.group.id))
        if not until_cancelled:
            tasks.append(asyncio.create_task(self._wait_concluded()))
        try:
            (done, *_), _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        done.result()

    async def _wait_concluded(self) -> None:
        """Waits until all workers have ended and none will restart."""
        while not all(worker.concluded.is_set() for worker in self.workers):
            for worker in self.workers:
                await worker.concluded.wait()

    def check_not_edited(self) -> None:
        """Raises `GmgError` if another job continues it."""
        if self.edited_as is not None:
            raise GmgError(f"job {self.number} is being stopped: it continues as job {self.edited_as}", 1)

    def stop(self, stop: Stop) -> None:
        """Stops all workers, even if that fails for one."""
        for worker in self.workers:
            self._faults.guard(f"the stop of {worker.slot.name}", worker.stop, stop)

    def interrupt(self, stop: Stop) -> None:
        """Stops all workers because the session ends."""
        unfinished = any(not worker.state.ended and worker.state is not WorkerState.STOPPING for worker in self.workers)
        self.interrupted |= unfinished or self.lead.policy.pending
        self.stop(stop)

    @property
    def stopped_worker(self) -> Worker | None:
        """The first worker that was stopped; None if all ended on their own."""
        return next((worker for worker in self.workers if worker.state is WorkerState.STOPPED), None)
