"""The scheduler of a plain run: one worker on each slot, for the whole session; with `--ddp` they are ranks of groups."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence

from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui.ddp import torchrun
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.groups.group import Group, RankMember
from gmg_tui.engine.records.recorder import Recorder
from gmg_tui.engine.scheduling.scheduler import Scheduler
from gmg_tui.engine.workers.slot_state import SlotState, Workplace
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.model import JobRecord, RankGroup, WorkerState


class ReplicatedScheduler(Scheduler):
    """Runs the session's one script on every slot."""

    def __init__(self, slot_states: Mapping[str, SlotState], workplace: Workplace, recorder: Recorder) -> None:
        self._slot_states, self._workplace, self._recorder = slot_states, workplace, recorder
        self._workers: dict[str, Worker] = {}
        self._groups: list[Group] = []
        spec, states = workplace.spec, list(slot_states.values())
        self._count = count = len(states)
        if torchrun.starts(spec.script, module=spec.module):
            self._add(states[0], states)
            for slot_state in states[1:]:
                slot_state.lead = states[0]
        elif spec.ddp is not None:
            size = spec.ddp.size or count
            for first in range(0, count, size):
                ranks = states[first : first + size]
                names = [slot_state.slot.name for slot_state in ranks]
                task = Task.replicated(spec, first, count)
                group = Group(f"g{len(self._groups)}", names, task, workplace)
                self._groups.append(group)
                for slot_state, member in zip(ranks, group.members, strict=True):
                    self._add(slot_state, ranks, member)
        else:
            for slot_state in states:
                self._add(slot_state)

    def _add(self, slot_state: SlotState, seen: Sequence[SlotState] = (), member: RankMember | None = None) -> None:
        """A worker on a slot, which sees the GPUs of the slots `seen`, or its own."""
        name, spec = slot_state.slot.name, self._workplace.spec
        log, record = f"{sessions.LOGS}/{name}.log", JobRecord(slot_state.index + 1, name)
        cards = tuple(each.slot for each in seen) if len(seen) > 1 or member is not None else ()
        task = Task.replicated(spec, slot_state.index, self._count, cards)
        worker = self._workplace.worker(slot_state, task, log, self._recorder, member)
        slot_state.worker = self._workers[name] = worker
        if member is not None:
            member.worker = worker
            rank = member.rank
            record = structs.replace(record, group=rank.id, rank=rank.rank, world_size=rank.world_size)
        self._recorder.occupy(record, {slot_state.slot: log})

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

    def stop(self, slot: str, *, kill: bool) -> None:
        """Stop the slot's worker."""
        self._workers[slot].stop(kill=kill)

    def end(self, *, kill: bool, reason: str | None) -> None:
        """Stop all workers."""
        for worker in self._workers.values():
            worker.stop(kill=kill, reason=reason)

    def beat(self) -> None:
        """Look whether a group is stuck, and stop waiting for nodes that have not answered when all other workers have ended."""
        now = time.monotonic()
        for group in self._groups:
            group.check(now)
        left = [worker for worker in self._workers.values() if not worker.state.ended]
        away = [self._slot_states[worker.slot.name].away for worker in left]
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
