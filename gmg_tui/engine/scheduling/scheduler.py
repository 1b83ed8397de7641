"""The interface of schedulers, and the scheduler of a plain run, which has a worker on each slot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.records.recorder import Recorder
from gmg_tui.engine.workers.group import Group
from gmg_tui.engine.workers.slot import EngineSlot, Workplace
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.model import JobRecord, RankGroup, WorkerState
from gmg_tui.scripts import torchrun


class Scheduler(Protocol):
    """Decides what runs on the slots: a plain run, a queue, or an agent, whose session's engine decides for it."""

    @property
    def ended(self) -> bool:
        """True if all work is done or cancelled."""

    async def run(self) -> None:
        """Runs until cancelled; whatever runs then is killed."""

    def restart(self, slot: str) -> None:
        """Restarts what runs, or ran last, on the slot. Raises `GmgError` if there is nothing."""

    def edit(self, slot: str, args: tuple[str, ...], env: dict[str, str]) -> None:
        """Restarts what runs on the slot with other arguments and environment. Raises `GmgError` if that is not possible."""

    def stop(self, slot: str, *, kill: bool) -> None:
        """Stops what runs on the slot."""

    def end(self, *, kill: bool, reason: str | None) -> None:
        """Stops everything for good; `reason` is None if the user asked for it."""

    def beat(self) -> None:
        """Checks groups and jobs, once a second, after the workers' output was read."""

    def groups(self) -> tuple[RankGroup, ...]:
        """Returns the groups whose ranks are on slots."""

    def group_slots(self, slot: str) -> tuple[str, ...]:
        """Returns the slots that a command to this one is for: all of its group's."""


class PlainScheduler:
    """Runs the session's one script on every slot."""

    def __init__(self, slots: Mapping[str, EngineSlot], workplace: Workplace, recorder: Recorder) -> None:
        self._slots, self._workplace, self._recorder = slots, workplace, recorder
        self._workers: dict[str, Worker] = {}
        self._groups: list[Group] = []
        spec, states = workplace.spec, list(slots.values())
        self._count = count = len(states)
        if torchrun.starts(spec.script, module=spec.module):
            self._add(states[0], states)
            for engine_slot in states[1:]:
                engine_slot.lead = states[0]
        elif spec.ddp is not None:
            size = spec.ddp.size or count
            for first in range(0, count, size):
                ranks = states[first : first + size]
                names = [engine_slot.slot.name for engine_slot in ranks]
                group = Group(f"g{len(self._groups)}", names, Task(spec.args, spec.env, first, count), workplace)
                self._groups.append(group)
                for engine_slot in ranks:
                    self._add(engine_slot, ranks, group)
        else:
            for engine_slot in states:
                self._add(engine_slot)

    def _add(self, engine_slot: EngineSlot, seen: Sequence[EngineSlot] = (), group: Group | None = None) -> None:
        """Adds a worker on a slot, which sees the GPUs of the slots `seen`, or its own."""
        name, spec = engine_slot.slot.name, self._workplace.spec
        log, record = f"{sessions.LOGS}/{name}.log", JobRecord(engine_slot.index + 1, name)
        cards = tuple(each.slot for each in seen) if len(seen) > 1 or group is not None else ()
        task = Task(spec.args, spec.env, engine_slot.index, self._count, log, cards, resume_args=spec.resume_args)
        if group is not None:
            task = replace(task, rank=group.task(len(group.workers)).rank)
        worker = Worker(engine_slot, task, self._workplace, self._recorder, group)
        engine_slot.worker = self._workers[name] = worker
        if (rank := task.rank) is not None:
            record = structs.replace(record, group=rank.id, rank=rank.rank, world_size=rank.world_size)
        self._recorder.occupy(record, {engine_slot.slot: log})

    @property
    def ended(self) -> bool:
        """True if all workers have ended."""
        return all(worker.state.ended for worker in self._workers.values())

    async def run(self) -> None:
        """Runs all workers until cancelled; whatever runs then is killed."""
        async with asyncio.TaskGroup() as tasks:
            for group in self._groups:
                tasks.create_task(group.run(), name=group.id)
            for name, worker in self._workers.items():
                tasks.create_task(worker.run(), name=name)

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
        for worker in self._workers.values():
            worker.stop(kill=kill, reason=reason)

    def beat(self) -> None:
        """Checks if a group is stuck; stops waiting for silent nodes once all other workers have ended."""
        now = time.monotonic()
        for group in self._groups:
            group.check(now)
        left = [worker for worker in self._workers.values() if not worker.state.ended]
        away = [self._slots[worker.slot.name].away for worker in left]
        if None not in away and all(worker.state is WorkerState.WAITING for worker in left):
            for worker, why in zip(left, away, strict=True):
                worker.stop(reason=why)

    def groups(self) -> tuple[RankGroup, ...]:
        """Returns the groups whose ranks are on slots."""
        return tuple(group.view() for group in self._groups)

    def group_slots(self, slot: str) -> tuple[str, ...]:
        """Returns the slots of the group whose rank is on this one."""
        if slot not in self._workers:  # the only worker has it too
            return tuple(self._workers)
        return next((group.slots for group in self._groups if slot in group.slots), (slot,))
