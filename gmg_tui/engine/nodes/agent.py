"""The agent of a node: an engine whose scheduler runs and reports what the session's engine assigns."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from gmg_tui.engine.attempts.attempt import Stop
from gmg_tui.engine.nodes.logs import KeptLogs
from gmg_tui.engine.nodes.states import MAX_CURVES_BYTES, MAX_PORTS, Assignment, AttemptReport, SlotReport
from gmg_tui.engine.nodes.states import Report as NodeReport
from gmg_tui.engine.records.recorder import Recorder
from gmg_tui.engine.scheduling.scheduler import JobRun
from gmg_tui.engine.workers.slot import EngineSlot
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.machine.address import address_for, is_numeric, started_from
from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.model import JobRecord, Snapshot, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.model.text import encoded
from gmg_tui.scripts.torchrun import LOOPBACK, free_port
from gmg_tui.session import protocol
from gmg_tui.session.protocol import Update

if TYPE_CHECKING:
    from gmg_tui.engine.attempts.attempt import Workplace

_log = logging.getLogger(__name__)

_FIRST_LEADER_GRACE_S = 60.0
"""Additional wait for its first leader: the launcher may be slow."""
_STALL_GRACE_S = 60.0
"""Additional wait for a connected leader: the network may stall."""
_CHECK_INTERVAL_S = 1.0
_CURVES_INTERVAL_S = 60.0
"""Seconds between two reports of an attempt's metrics over time, which are large."""
_RESOLVE_TIMEOUT_S = 5.0
"""Time limit for resolving the names of other nodes."""


class AssignedAttempt:
    """An attempt assigned to a slot, and its worker; no other attempt follows by itself."""

    running: asyncio.Task[None]

    def __init__(self, assignment: Assignment, worker: Worker) -> None:
        self.assignment, self.worker = structs.replace(assignment, stop=None, signals=()), worker
        self._curves_due = time.monotonic() + _CURVES_INTERVAL_S

    def update(self, assignment: Assignment) -> None:
        """Applies the changes since the last assignment."""
        before, self.assignment = self.assignment, assignment
        if assignment.stop is not None and assignment.stop != before.stop:
            self.worker.stop(assignment.stop)
        for number in assignment.signals[len(before.signals) :]:
            self.worker.forward_signal(signal.Signals(number))

    def report(self, *, ending: bool = False, has_room: bool = True) -> SlotReport:
        """Returns the attempt's report, without an outcome if the agent, `ending`, stopped it by itself.

        Its curves are included at intervals and at its end, if the message `has_room`.
        """
        worker, now = self.worker, time.monotonic()
        has_ended, outcome = worker.concluded.is_set(), worker.outcome
        if ending and outcome is not None and outcome.by_user and self.assignment.stop is None:
            outcome = None  # left to the session's engine
        curves = {}
        if has_room and worker.newest is not None and (has_ended or now >= self._curves_due):
            self._curves_due, curves = now + _CURVES_INTERVAL_S, worker.newest.known_curves()
        attempt = AttemptReport(
            self.assignment.key,
            worker.view(worker.task.index),
            worker.activity().on_clock(-now) if worker.rank is not None else None,
            outcome if has_ended else None,
        )
        return SlotReport.of(attempt, worker.result, curves)


class Agent:
    """Runs assigned attempts, and calls `changed` when a report changes.

    Attributes:
        orphaned: Called with the reason when the agent has no leader any more; set before it runs.
        logs: The logs kept for the session's engine.
    """

    job_runs: tuple[JobRun, ...] = ()  # the session's engine has them

    def __init__(
        self,
        slots: Mapping[str, EngineSlot],
        workplace: Workplace,
        recorder: Recorder,
        changed: Callable[[], None],
    ) -> None:
        assert workplace.spec.agent is not None
        self.orphaned: Callable[[str], None] = lambda _: None
        self._slots, self._workplace, self._recorder, self._changed = slots, workplace, recorder, changed
        self._spec = workplace.spec.agent
        self.logs = KeptLogs(workplace.spec.folder, shared=bool(self._spec.logs))
        self._assigned: dict[str, AssignedAttempt] = {}
        """The assigned attempt of each slot."""
        self._tasks: set[asyncio.Task[None]] = set()
        """Tasks of these attempts, and of earlier ones that have not ended."""
        self._slot_locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Held by the worker that runs on a slot."""
        self._started = asyncio.Event()
        self._ending = False
        self._leaders: set[object] = set()
        """The connections of the session's engine."""
        self._received_at = time.monotonic() + _FIRST_LEADER_GRACE_S
        """Time of the last message from the session's engine, later before the first; monotonic seconds."""
        self._address = ""
        """This machine's address for others; empty until known."""

    async def run(self) -> None:
        """Runs assigned attempts until cancelled, which kills them."""
        self._started.set()
        self._tasks.add(asyncio.create_task(self._find_address()))
        try:
            await self._watch_leader()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _find_address(self) -> None:
        numeric = started_from(os.environ)
        try:
            async with asyncio.timeout(_RESOLVE_TIMEOUT_S):
                address = await in_daemon_thread(address_for, (*self._spec.peers, *numeric))
        except TimeoutError:
            address = await in_daemon_thread(address_for, filter(is_numeric, numeric))
        if address is None:
            _log.warning("no address of this machine is reachable from the others: groups run on one machine only")
        self._address = address or LOOPBACK

    async def _watch_leader(self) -> None:
        wait_s = self._spec.orphan_wait_s
        while time.monotonic() - self._received_at < wait_s:
            await asyncio.sleep(_CHECK_INTERVAL_S)
            wait_s = self._spec.orphan_wait_s + (_STALL_GRACE_S if self._leaders else 0.0)
        self.orphaned(f"the session's engine has been silent for {wait_s:.0f} s")
        await asyncio.get_running_loop().create_future()  # its workers end first

    # From the session's engine

    def assign(self, leader: object, request: protocol.SetSlot) -> None:
        """Assigns an attempt to a slot, or clears the slot; the sender is the session's engine. Raises `GmgError`."""
        self._leaders.add(leader)
        self.received(leader)
        slot = request.slot
        if slot not in self._slots:
            raise GmgError(f"no slot {slot}", 1)
        try:
            assignment = msgspec.msgpack.decode(request.assignment, type=Assignment | None)
        except msgspec.MsgspecError as error:
            raise GmgError(f"not an assignment: {error}", 1) from error
        current = self._assigned.get(slot)
        if current is not None and assignment is not None and current.assignment.key == assignment.key:
            current.update(assignment)
        else:
            if current is not None:
                del self._assigned[slot]
                current.running.cancel()
            if assignment is not None:
                self._start(slot, assignment)
        self._changed()

    def _start(self, slot: str, assignment: Assignment) -> None:
        engine_slot = self._slots[slot]
        # The GPUs are this machine's; other nodes may use the same numbers and names.
        cards = [self._slots[card.name].slot for card in assignment.task.cards if card.name in self._slots]
        worker = Worker(engine_slot, replace(assignment.task, cards=tuple(cards)), self._workplace, self._recorder)
        self._recorder.occupy(JobRecord(engine_slot.index + 1, slot), (worker,))
        engine_slot.worker = worker
        assigned = self._assigned[slot] = AssignedAttempt(assignment, worker)
        assigned.running = asyncio.create_task(self._run_worker(worker, self._slot_locks[slot]), name=slot)
        self._tasks.add(assigned.running)
        assigned.running.add_done_callback(self._tasks.discard)
        assigned.update(assignment)
        if self._ending:
            worker.stop(Stop())

    async def _run_worker(self, worker: Worker, slot: asyncio.Lock) -> None:
        """Runs a worker once the slot's previous one has ended."""
        await self._started.wait()
        async with slot:
            await worker.run()

    def received(self, client: object) -> None:
        """Records a message from a client; the leader's keep the workers alive."""
        if client in self._leaders:
            self._received_at = time.monotonic()

    def disconnected(self, client: object) -> None:
        """Handles the end of a client's connection."""
        self.received(client)
        self._leaders.discard(client)

    def frames(self, client: object, snapshot: Snapshot) -> bytes | None:
        """Returns the frames for the session's engine, which have a snapshot without workers; None for other clients."""
        if client not in self._leaders:
            return None
        attempts, room = dict[str, SlotReport](), MAX_CURVES_BYTES
        for slot, assigned in self._assigned.items():
            attempts[slot] = assigned.report(ending=self._ending, has_room=room > 0)
            room -= len(attempts[slot].curves)
        ports = {free_port() for _ in islice(self._slots, MAX_PORTS)} if self._address else ()
        report = encoded(msgspec.msgpack.encode, NodeReport(attempts, self._address, tuple(ports), self.ended))
        update = Update(structs.replace(snapshot, workers=(), groups=()))
        return protocol.frame(update) + protocol.frame(protocol.SlotReports(msgspec.Raw(report)))

    # As any scheduler

    @property
    def ended(self) -> bool:
        """True if the agent was asked to end, and nothing runs."""
        return self._ending and all(assigned.worker.state.ended for assigned in self._assigned.values())

    def restart(self, slot: str) -> None:
        """Raises `GmgError`: the session's engine decides when a worker restarts."""
        raise GmgError("this is the agent of a node; restart the worker in its session", 1)

    def edit(self, slot: str, args: tuple[str, ...], env: dict[str, str]) -> None:
        """Raises `GmgError`, like `restart`."""
        self.restart(slot)

    def beat(self) -> None:
        """Does nothing: the session's engine checks jobs."""

    def stop(self, slot: str, *, kill: bool) -> None:
        """Stops the slot's worker."""
        if slot in self._assigned:
            self._assigned[slot].worker.stop(Stop(kill=kill))

    def end(self, *, kill: bool, reason: str | None) -> None:
        """Stops all workers, and starts no others."""
        self._ending = True
        for assigned in self._assigned.values():
            if assigned.worker.state is not WorkerState.STOPPED:
                assigned.worker.stop(Stop(kill=kill, reason=reason))
        self._changed()
