"""The scheduler of a node's agent: runs what the session's engine assigns to its slots."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from gmg_tui.engine.nodes import messages
from gmg_tui.engine.nodes.led_member import LedMember
from gmg_tui.engine.nodes.messages import Order
from gmg_tui.engine.records.recorder import Recorder
from gmg_tui.engine.scheduling.scheduler import Scheduler
from gmg_tui.engine.workers.slot_state import SlotState
from gmg_tui.engine.workers.slot_worker import SlotWorker
from gmg_tui.engine.workers.workplace import Workplace
from gmg_tui.model import JobRecord, WorkerState

_log = logging.getLogger(__name__)


class Assigned:
    """A worker that was assigned to a slot, and what runs it."""

    def __init__(self, key: int, worker: SlotWorker, member: LedMember | None) -> None:
        self.key, self.worker, self.member = key, worker, member
        self.running: asyncio.Task[None] | None = None


class AgentScheduler(Scheduler):
    """Takes orders; `changed` is called when something that is reported has changed."""

    def __init__(
        self,
        slot_states: Mapping[str, SlotState],
        workplace: Workplace,
        recorder: Recorder,
        changed: Callable[[], None],
    ) -> None:
        self._slot_states, self._workplace, self._recorder, self._changed = slot_states, workplace, recorder, changed
        self._assigned: dict[str, Assigned] = {}
        """By slot."""
        self._assignments: asyncio.Queue[tuple[Assigned, Assigned | None]] = asyncio.Queue()
        self._over = False

    @property
    def assigned(self) -> Iterator[Assigned]:
        """All that was assigned and not dismissed."""
        return iter(self._assigned.values())

    @property
    def ended(self) -> bool:
        """Whether the session's engine needs the agent no more, and nothing runs."""
        return self._over and all(one.worker.state.ended for one in self._assigned.values())

    async def run(self) -> None:
        """Run what is assigned until cancelled; whatever runs then is killed."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                one, before = await self._assignments.get()
                one.running = tasks.create_task(self._run(one, before), name=one.worker.slot.name)

    @staticmethod
    async def _run(one: Assigned, before: Assigned | None) -> None:
        if before is not None and before.running is not None:
            before.running.cancel()
            await asyncio.wait([before.running])
        await one.worker.run()

    # Orders

    def take(self, order: Order) -> None:
        """Do what the session's engine says; what concerns a worker that is not there any more is done already."""
        match order:
            case messages.Assign():
                self._assign(order)
            case messages.FreePort():
                raise AssertionError("answered by the agent")
            case _:
                found = next((one for one in self._assigned.values() if one.key == order.key), None)
                if found is not None:
                    self._act(order, found)
        self._changed()

    def _assign(self, order: messages.Assign) -> None:
        slot_state = self._slot_states[order.slot]
        member = LedMember(order.rank, self._changed) if order.rank is not None else None
        slot = slot_state.slot
        self._recorder.occupy(JobRecord(slot_state.index + 1, slot.name), {slot: order.log})
        # The GPUs are this machine's own, which another of the session may number and name alike.
        own = [self._slot_states[card.name].slot for card in order.task.cards if card.name in self._slot_states]
        task = replace(order.task, cards=tuple(own))
        worker = self._workplace.worker(slot, slot_state.ring, task, order.log, self._recorder, member)
        slot_state.worker = worker
        if order.memory_kept is not None:
            worker.memory_kept = order.memory_kept
        one = Assigned(order.key, worker, member)
        before, self._assigned[order.slot] = self._assigned.get(order.slot), one
        self._assignments.put_nowait((one, before))
        if self._over:  # the agent is ending
            worker.stop()

    def _act(self, order: Order, found: Assigned) -> None:
        worker, member = found.worker, found.member
        match order:
            case messages.Dismiss():
                del self._assigned[worker.slot.name]
                if found.running is not None:
                    found.running.cancel()
            case messages.Restart():
                worker.restart()
            case messages.Edit():
                worker.edit(order.args, order.env)
            case messages.Stop():
                worker.stop(kill=order.kill, reason=order.reason)
            case messages.PassOn():
                worker.pass_on(signal.Signals(order.number))
            case messages.EndWithGroup():
                worker.end_with_group()
            case messages.RunWithGroup():
                worker.run_with_group()
        if member is not None:
            _tell(member, order)

    # As any scheduler

    def restart(self, slot: str) -> None:
        """Restart the slot's worker."""
        if slot in self._assigned:
            self._assigned[slot].worker.restart()

    def stop(self, slot: str, *, kill: bool) -> None:
        """Stop the slot's worker."""
        if slot in self._assigned:
            self._assigned[slot].worker.stop(kill=kill)

    def end(self, *, kill: bool, reason: str | None) -> None:
        """Stop all workers, and run no others."""
        self._over = True
        for one in self._assigned.values():
            if one.worker.state is not WorkerState.STOPPED:
                one.worker.stop(kill=kill, reason=reason)
        self._changed()


def _tell(member: LedMember, order: Order) -> None:
    match order:
        case messages.Due():
            member.policy.due()
        case messages.Met():
            member.met(order.number, order.meeting)
        case messages.Parted():
            member.has_parted(order.number, order.failure, pending=order.pending)
        case messages.CalledOff():
            member.is_called_off()
