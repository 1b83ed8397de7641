"""The scheduler of a plain run: one worker on each slot, for the whole session; with `--ddp` they are ranks of groups."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence

from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui.ddp import torchrun
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.groups.group_run import GroupRun, RankMember
from gmg_tui.engine.groups.view import group_view
from gmg_tui.engine.groups.watch import GroupWatch
from gmg_tui.engine.records.recorder import Recorder
from gmg_tui.engine.scheduling.scheduler import Scheduler
from gmg_tui.engine.workers.slot_state import SlotState
from gmg_tui.engine.workers.slot_worker import SlotWorker
from gmg_tui.engine.workers.workplace import Workplace
from gmg_tui.model import JobRecord, RankGroup


class ReplicatedScheduler(Scheduler):
    """Runs the session's one script on every slot."""

    def __init__(self, slot_states: Mapping[str, SlotState], workplace: Workplace, recorder: Recorder) -> None:
        self._workplace, self._recorder = workplace, recorder
        self._workers: dict[str, SlotWorker] = {}
        self._groups: list[GroupRun] = []
        states, count = list(slot_states.values()), len(slot_states)
        ddp = workplace.spec.ddp
        size = (ddp.size or count) if ddp is not None else 1
        if torchrun.starts(workplace.spec.script, module=workplace.spec.module):
            self._add(states[0], count, states, None)
            for slot_state in states[1:]:
                slot_state.lead = states[0]
            states = []
        for first in range(0, len(states), size):
            members = states[first : first + size]
            task = Task.replicated(workplace.spec, first, count)
            group = self._group(members, task) if ddp is not None else None
            for rank, slot_state in enumerate(members):
                self._add(slot_state, count, members, group.members[rank] if group is not None else None)
        self._watches = [
            GroupWatch(group, [self._workers[slot] for slot in group.slots], workplace.spec) for group in self._groups
        ]

    def _group(self, members: Sequence[SlotState], task: Task) -> GroupRun:
        names, place = [member.slot.name for member in members], self._workplace
        group = GroupRun(f"g{len(self._groups)}", names, task, place.session, place.meeting_place)
        self._groups.append(group)
        return group

    def _add(self, slot_state: SlotState, count: int, members: Sequence[SlotState], member: RankMember | None) -> None:
        name = slot_state.slot.name
        log = f"{sessions.LOGS}/{name}.log"
        cards = tuple(each.slot for each in members) if len(members) > 1 or member is not None else ()
        task = Task.replicated(self._workplace.spec, slot_state.index, count, cards)
        worker = self._workplace.worker(slot_state.slot, slot_state.ring, task, log, self._recorder, member)
        slot_state.worker = self._workers[name] = worker
        if member is not None:
            member.companion = worker
        record = JobRecord(slot_state.index + 1, name)
        if member is not None:
            place = member.rank
            record = structs.replace(record, group=place.id, rank=place.rank, world_size=place.world_size)
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
        """Look whether a group is stuck."""
        now = time.monotonic()
        for watch in self._watches:
            watch.look(now)

    def groups(self) -> tuple[RankGroup, ...]:
        """The groups whose ranks are on slots."""
        now = time.monotonic()
        return tuple(
            group_view(group, [self._workers[member.slot] for member in group.members], now) for group in self._groups
        )

    def together(self, slot: str) -> tuple[str, ...]:
        """The slots of the group whose rank is on this one."""
        if slot not in self._workers:  # the only worker has it too
            return tuple(self._workers)
        return next((group.slots for group in self._groups if slot in group.slots), (slot,))
