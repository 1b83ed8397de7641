"""Decides what runs on the slots: the interface of schedulers, and that of a plain run, with a worker on each slot."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.groups.group import Group, GroupRank
from gmg_tui.engine.records.recorder import Recorder
from gmg_tui.engine.workers.slot import EngineSlot, Workplace
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.model import GpuSample, JobRecord, Queue, QueueAction, RankGroup, Tuning, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts import torchrun


class Scheduler(ABC):
    """The scheduler of a session. What concerns a queue is refused here: a plain run has none."""

    @property
    @abstractmethod
    def ended(self) -> bool:
        """Whether all work is done or called off."""

    @abstractmethod
    async def run(self) -> None:
        """Run until cancelled; whatever runs then is killed."""

    @abstractmethod
    def restart(self, slot: str) -> None:
        """Restart what runs, or ran last, on the slot. Raises `GmgError` if there is nothing."""

    @abstractmethod
    def edit(self, slot: str, args: tuple[str, ...], env: dict[str, str]) -> None:
        """Restart what runs on the slot with other arguments and environment. Raises `GmgError` if that is not possible."""

    @abstractmethod
    def stop(self, slot: str, *, kill: bool) -> None:
        """Stop what runs on the slot."""

    @abstractmethod
    def end(self, *, kill: bool, reason: str | None) -> None:
        """Stop everything, for good; `reason` is None where the user asked for it."""

    def take_samples(self, samples: Mapping[str, GpuSample], error: str | None) -> None:  # noqa: B027 - a plain run needs none
        """Take the latest samples, by UUID, or why there are none."""

    def beat(self) -> None:  # noqa: B027 - only some schedulers have something to check
        """Called each second, after the workers' output was read."""

    def groups(self) -> tuple[RankGroup, ...]:
        """The groups whose ranks are on slots."""
        return ()

    def together(self, slot: str) -> tuple[str, ...]:
        """The slots that a command to this one is for: all of its group's."""
        return (slot,)

    def tuning(self) -> Tuning | None:
        """How far a tuning is; None where nothing is tuned."""
        return None

    def queue(self) -> Queue | None:
        """How far the jobs are; None in a plain run."""
        return None

    def view(self, first: int, count: int) -> tuple[JobRecord, ...]:
        """A part of the queue. Raises `GmgError` in a plain run."""
        raise _no_queue()

    def act(self, action: QueueAction, numbers: tuple[int, ...]) -> None:
        """Act on jobs. Raises `GmgError` if that is not possible."""
        raise _no_queue()

    def use(self, slot: str, *, used: bool) -> None:
        """Enable a slot, and its GPU's others, for jobs, or disable them. Raises `GmgError` in a plain run."""
        raise _no_queue()


def _no_queue() -> GmgError:
    return GmgError("this session has no queue: it runs one script on every slot", 1)


class PlainScheduler(Scheduler):
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
                task = Task(spec.args, spec.env, first, count)
                group = Group(f"g{len(self._groups)}", names, task, workplace)
                self._groups.append(group)
                for engine_slot, member in zip(ranks, group.members, strict=True):
                    self._add(engine_slot, ranks, member)
        else:
            for engine_slot in states:
                self._add(engine_slot)

    def _add(self, engine_slot: EngineSlot, seen: Sequence[EngineSlot] = (), member: GroupRank | None = None) -> None:
        """A worker on a slot, which sees the GPUs of the slots `seen`, or its own."""
        name, spec = engine_slot.slot.name, self._workplace.spec
        log, record = f"{sessions.LOGS}/{name}.log", JobRecord(engine_slot.index + 1, name)
        cards = tuple(each.slot for each in seen) if len(seen) > 1 or member is not None else ()
        task = Task(spec.args, spec.env, engine_slot.index, self._count, cards, resume_args=spec.resume_args)
        worker = Worker(engine_slot, task, log, self._workplace, self._recorder, member)
        engine_slot.worker = self._workers[name] = worker
        if member is not None:
            member.worker = worker
            rank = member.rank
            record = structs.replace(record, group=rank.id, rank=rank.rank, world_size=rank.world_size)
        self._recorder.occupy(record, {engine_slot.slot: log})

    @property
    def ended(self) -> bool:
        """Whether all workers have ended."""
        return all(worker.state.ended for worker in self._workers.values())

    async def run(self) -> None:
        """Run all workers until cancelled; whatever runs then is killed."""
        async with asyncio.TaskGroup() as tasks:
            for group in self._groups:
                tasks.create_task(group.run(), name=group.id)
            for name, worker in self._workers.items():
                tasks.create_task(worker.run(), name=name)

    def restart(self, slot: str) -> None:
        """Restart the slot's worker."""
        self._workers[slot].restart()

    def edit(self, slot: str, args: tuple[str, ...], env: dict[str, str]) -> None:
        """Restart the slot's worker with other arguments and environment."""
        self._workers[slot].edit(args, env)

    def stop(self, slot: str, *, kill: bool) -> None:
        """Stop the slot's worker."""
        self._workers[slot].stop(kill=kill)

    def end(self, *, kill: bool, reason: str | None) -> None:
        """Stop all workers."""
        for worker in self._workers.values():
            worker.stop(kill=kill, reason=reason)

    def beat(self) -> None:
        """Check whether a group is stuck, and stop waiting for nodes that have not answered when all other workers have ended."""
        now = time.monotonic()
        for group in self._groups:
            group.check(now)
        left = [worker for worker in self._workers.values() if not worker.state.ended]
        away = [self._slots[worker.slot.name].away for worker in left]
        if None not in away and all(worker.state is WorkerState.WAITING for worker in left):
            for worker, why in zip(left, away, strict=True):
                worker.stop(reason=why)

    def groups(self) -> tuple[RankGroup, ...]:
        """The groups whose ranks are on slots."""
        return tuple(group.view() for group in self._groups)

    def together(self, slot: str) -> tuple[str, ...]:
        """The slots of the group whose rank is on this one."""
        if slot not in self._workers:  # the only worker has it too
            return tuple(self._workers)
        return next((group.slots for group in self._groups if slot in group.slots), (slot,))
