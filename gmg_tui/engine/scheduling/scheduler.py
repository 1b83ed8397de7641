"""The interface of schedulers, and the scheduler of a plain run: one worker per slot."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui.engine.attempts.attempt import Task
from gmg_tui.engine.records.recorder import Recorder
from gmg_tui.engine.scheduling.job_run import JobRun
from gmg_tui.engine.workers.slot import EngineSlot, Workplace
from gmg_tui.model import JobRecord, RankGroup, WorkerState
from gmg_tui.scripts import torchrun


class Scheduler(Protocol):
    """Decides what runs on the slots: for a plain run, a queue, or a node's agent."""

    @property
    def ended(self) -> bool:
        """True if all work is done or cancelled."""

    async def run(self) -> None:
        """Runs until cancelled; cancelling kills all workers."""

    def restart(self, slot: str) -> None:
        """Restarts the current or last job of the slot. Raises `GmgError` if there is none."""

    def edit(self, slot: str, args: tuple[str, ...], env: dict[str, str]) -> None:
        """Restarts the slot's job with other arguments and environment. Raises `GmgError` if not possible."""

    def stop(self, slot: str, *, kill: bool) -> None:
        """Stops the slot's job."""

    def end(self, *, kill: bool, reason: str | None) -> None:
        """Stops everything; `reason` is None if the user requested it."""

    def beat(self) -> None:
        """Checks groups and jobs, each second after the workers' output has been read."""

    def groups(self) -> tuple[RankGroup, ...]:
        """Returns the groups whose ranks are on slots."""

    def group_slots(self, slot: str) -> tuple[str, ...]:
        """Returns the slots that a command on this one applies to: its whole group."""


class PlainScheduler:
    """Runs the session's one script on every slot."""

    def __init__(self, slots: Mapping[str, EngineSlot], workplace: Workplace, recorder: Recorder) -> None:
        self._slots, self._workplace, self._recorder = slots, workplace, recorder
        spec, states = workplace.spec, list(slots.values())
        if torchrun.starts(spec.script, module=spec.module):
            self._runs = [self._run(states[:1], states)]
            for engine_slot in states[1:]:
                engine_slot.lead = states[0]
        else:
            size = 1 if spec.ddp is None else spec.ddp.size or len(states)
            parts = [states[first : first + size] for first in range(0, len(states), size)]
            names = [f"g{number}" if spec.ddp is not None else None for number in range(len(parts))]
            self._runs = [self._run(part, part, name) for part, name in zip(parts, names, strict=True)]
        self._workers = {worker.slot.name: worker for run in self._runs for worker in run.workers}

    def _run(self, ranks: Sequence[EngineSlot], seen: Sequence[EngineSlot], group: str | None = None) -> JobRun:
        """Returns a job on the slots of `ranks`, whose processes see the GPUs of the slots `seen`."""
        spec, count = self._workplace.spec, len(self._slots)
        cards = tuple(each.slot for each in seen) if len(seen) > 1 or group is not None else ()
        logs = [f"{sessions.LOGS}/{each.slot.name}.log" for each in ranks]
        tasks = [
            Task(spec.args, spec.env, each.index, count, log, cards, resume_args=spec.resume_args)
            for each, log in zip(ranks, logs, strict=True)
        ]
        run = JobRun(ranks[0].index + 1, ranks, tasks, self._workplace, self._recorder, group)
        for engine_slot, worker in zip(ranks, run.workers, strict=True):
            record = JobRecord(engine_slot.index + 1, engine_slot.slot.name)
            if (rank := worker.rank) is not None:
                record = structs.replace(record, group=rank.id, rank=rank.rank, world_size=rank.world_size)
            self._recorder.occupy(record, {engine_slot.slot: worker.task.log})
        return run

    @property
    def ended(self) -> bool:
        """True if all workers have ended."""
        return all(worker.state.ended for worker in self._workers.values())

    async def run(self) -> None:
        """Runs all workers until cancelled; cancelling kills them."""
        async with asyncio.TaskGroup() as tasks:
            for run in self._runs:
                tasks.create_task(run.run(stays=True), name=run.slots[0])

    def restart(self, slot: str) -> None:
        """Restarts the slot's worker."""
        self._workers[slot].restart()

    def edit(self, slot: str, args: tuple[str, ...], env: dict[str, str]) -> None:
        """Restarts the slot's worker with other arguments and environment."""
        self._workers[slot].edit(args, env)

    def stop(self, slot: str, *, kill: bool) -> None:
        """Stops the slot's worker."""
        self._workers[slot].stop(kill=kill)

    def end(self, *, kill: bool, reason: str | None) -> None:
        """Stops all workers."""
        for run in self._runs:
            run.stop(kill=kill, reason=reason)

    def beat(self) -> None:
        """Checks for stuck groups, and stops waiting for silent nodes once all other workers have ended."""
        for run in self._runs:
            run.check()
        if all(slot.away is None for slot in self._slots.values()):
            return
        left = [worker for worker in self._workers.values() if not worker.state.ended]
        away = [self._slots[worker.slot.name].away for worker in left]
        if None not in away and all(worker.state is WorkerState.WAITING for worker in left):
            for worker, why in zip(left, away, strict=True):
                worker.stop(reason=why)

    def groups(self) -> tuple[RankGroup, ...]:
        """Returns the groups whose ranks are on slots."""
        return tuple(run.group.view() for run in self._runs if run.group is not None)

    def group_slots(self, slot: str) -> tuple[str, ...]:
        """Returns the slots of the group that this one belongs to."""
        if slot not in self._workers:  # the only worker's other slots
            return tuple(self._workers)
        return next(run.slots for run in self._runs if slot in run.slots)
