"""The scheduler of a node's agent: runs the attempts that the session's engine assigns, and reports on them."""

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
from gmg_tui.engine.nodes.logs import AgentLogs
from gmg_tui.engine.nodes.states import (
    CURVES_CUTOFF_BYTES,
    MAX_PORTS,
    STALL_GRACE_S,
    Assignment,
    AttemptReport,
    SlotReport,
)
from gmg_tui.engine.nodes.states import Report as NodeReport
from gmg_tui.engine.records.recorder import Recorder
from gmg_tui.engine.scheduling.scheduler import JobRun
from gmg_tui.engine.workers.slot import EngineSlot
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.machine.address import address_for, is_numeric, launch_hosts
from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.model import JobRecord, Snapshot, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.model.text import encode_lossy
from gmg_tui.scripts.torchrun import LOOPBACK, free_port
from gmg_tui.session import protocol
from gmg_tui.session.protocol import Update

if TYPE_CHECKING:
    from gmg_tui.engine.attempts.attempt import Workplace

_log = logging.getLogger(__name__)

_FIRST_MESSAGE_GRACE_S = 60.0
"""Additional time to wait for the first message from the session's engine: the launcher may be slow."""
_CHECK_INTERVAL_S = 1.0
_CURVES_INTERVAL_S = 60.0
"""Interval between reports of an attempt's metrics over time, which are large."""
_RESOLVE_TIMEOUT_S = 5.0
"""Time limit for resolving the names of other nodes."""


class AssignedAttempt:
    """An attempt assigned to a slot, and the worker that runs it without restarts."""

    task: asyncio.Task[None]

    def __init__(self, assignment: Assignment, worker: Worker) -> None:
        self.assignment, self.worker = structs.replace(assignment, stop=None, signals=()), worker
        self._curves_due = time.monotonic() + _CURVES_INTERVAL_S

    def update(self, assignment: Assignment) -> None:
        """Applies the changes since the last assignment."""
        previous, self.assignment = self.assignment, assignment
        if assignment.stop is not None and assignment.stop != previous.stop:
            self.worker.stop(assignment.stop)
        for number in assignment.signals[len(previous.signals) :]:
            self.worker.forward_signal(signal.Signals(number))

    def report(self, *, ending: bool = False, has_room: bool = True) -> SlotReport:
        """Returns a report on the attempt, with curves at intervals and at the end if the message `has_room` for them.

        An `ending` agent omits the outcome of an attempt that it stopped on its own.
        """
        worker, now = self.worker, time.monotonic()
        has_ended, outcome = worker.concluded.is_set(), worker.outcome
        if ending and outcome is not None and outcome.by_user and self.assignment.stop is None:
            outcome = None  # the session's engine decides the outcome
        load_curves = None
        if has_room and worker.newest is not None and (has_ended or now >= self._curves_due):
            self._curves_due, load_curves = now + _CURVES_INTERVAL_S, worker.newest.curves_loader()
        view, known = worker.view(worker.task.index), worker.task.checkpoints
        saved = tuple(checkpoint for checkpoint in view.newest.checkpoints if checkpoint not in known)
        attempt = AttemptReport(
            self.assignment.key,
            # The session's engine knows the given arguments.
            structs.replace(view, newest=structs.replace(view.newest, checkpoints=saved, given=(), env={})),
            worker.activity().on_clock(-now) if worker.rank is not None else None,
            outcome if has_ended else None,
        )
        return SlotReport.from_attempt(attempt, worker.result, load_curves() if load_curves is not None else {})


class Agent:
    """Runs assigned attempts; calls `changed` after an assignment, and when asked to end.

    Attributes:
        on_orphaned: Called with the reason once the session's engine is gone; set it before running the agent.
        logs: The agent's logs, served to the session's engine.
    """

    job_runs: tuple[JobRun, ...] = ()  # only the session's engine has jobs

    def __init__(
        self,
        slots: Mapping[str, EngineSlot],
        workplace: Workplace,
        recorder: Recorder,
        changed: Callable[[], None],
    ) -> None:
        assert workplace.spec.agent is not None
        self.on_orphaned: Callable[[str], None] = lambda _: None
        self._slots, self._workplace, self._recorder, self._changed = slots, workplace, recorder, changed
        self._spec = workplace.spec.agent
        self.logs = AgentLogs(workplace.spec.folder, shared=bool(self._spec.logs))
        self._assigned: dict[str, AssignedAttempt] = {}
        """Assigned attempts, by slot."""
        self._tasks: set[asyncio.Task[None]] = set()
        """Tasks of these attempts, of earlier ones that have not ended, and of the address lookup."""
        self._slot_locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Locks of the slots, each held by the worker that is running there."""
        self._started = asyncio.Event()
        self._ending = False
        self._engine_clients: set[object] = set()
        """Connections of the session's engine."""
        self._is_silent = True
        """True if the session's engine has not sent a message since the last check."""
        self._address = ""
        """This machine's address for other nodes; empty until known."""

    async def run(self) -> None:
        """Runs assigned attempts until cancelled; cancelling kills them."""
        self._started.set()
        self._tasks.add(asyncio.create_task(self._find_address()))
        try:
            await self._watch_engine()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _find_address(self) -> None:
        numeric = launch_hosts(os.environ)
        try:
            async with asyncio.timeout(_RESOLVE_TIMEOUT_S):
                address = await in_daemon_thread(address_for, (*self._spec.peers, *numeric))
        except TimeoutError:
            address = await in_daemon_thread(address_for, filter(is_numeric, numeric))
        if address is None:
            _log.warning("no address of this machine is reachable from the others: a group cannot span machines")
        self._address = address or LOOPBACK

    async def _watch_engine(self) -> None:
        wait_s, silent_s = self._spec.orphan_wait_s, -_FIRST_MESSAGE_GRACE_S
        while silent_s < wait_s:
            await asyncio.sleep(_CHECK_INTERVAL_S)  # counted, as a scheduler may suspend all processes of its job
            silent_s = silent_s + _CHECK_INTERVAL_S if self._is_silent else 0.0
            self._is_silent = True
            wait_s = self._spec.orphan_wait_s + (STALL_GRACE_S if self._engine_clients else 0.0)
        self.on_orphaned(f"the session's engine has been silent for {wait_s:.0f} s")
        await asyncio.get_running_loop().create_future()  # the workers end before this is cancelled

    # From the session's engine

    def assign(self, client: object, request: protocol.SetSlot) -> None:
        """Assigns an attempt to a slot, or clears the slot, for the session's engine. Raises `GmgError` if invalid."""
        self._engine_clients.add(client)
        self.on_message(client)
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
                current.task.cancel()
            if assignment is not None:
                self._start(slot, assignment)
        self._changed()

    def _start(self, slot: str, assignment: Assignment) -> None:
        engine_slot = self._slots[slot]
        # Use this machine's GPUs: those of other nodes may have the same numbers and names.
        task = assignment.task
        visible_slots = tuple(self._slots[each.name].slot for each in task.visible_slots if each.name in self._slots)
        worker = Worker(engine_slot, replace(task, visible_slots=visible_slots), self._workplace, self._recorder)
        self._recorder.occupy(JobRecord(engine_slot.index + 1, slot), (worker,))
        engine_slot.worker = worker
        assigned = self._assigned[slot] = AssignedAttempt(assignment, worker)
        assigned.task = asyncio.create_task(self._run_worker(worker, self._slot_locks[slot]), name=slot)
        self._tasks.add(assigned.task)
        assigned.task.add_done_callback(self._tasks.discard)
        assigned.update(assignment)
        if self._ending:
            worker.stop(Stop())

    async def _run_worker(self, worker: Worker, slot_lock: asyncio.Lock) -> None:
        """Runs a worker once the slot's previous worker has ended."""
        await self._started.wait()
        async with slot_lock:
            await worker.run()

    def on_message(self, client: object) -> None:
        """Records the time of the session's engine's messages: if it falls silent, the workers are ended."""
        if client in self._engine_clients:
            self._is_silent = False

    def on_disconnect(self, client: object) -> None:
        """Handles the end of a client's connection."""
        self.on_message(client)
        self._engine_clients.discard(client)

    def encode_state(self, client: object, snapshot: Snapshot) -> bytes | None:
        """Returns frames with the snapshot, its workers replaced by reports; None unless `client` is the session's engine."""
        if client not in self._engine_clients:
            return None
        attempts, room_bytes = dict[str, SlotReport](), CURVES_CUTOFF_BYTES
        for slot, assigned in self._assigned.items():
            attempts[slot] = assigned.report(ending=self._ending, has_room=room_bytes > 0)
            room_bytes -= len(attempts[slot].curves)
        ports = {free_port() for _ in islice(self._slots, MAX_PORTS)} if self._address else set()
        report = NodeReport(attempts, self._address, tuple(filter(None, ports)), self.ended)
        update = Update(structs.replace(snapshot, workers=(), groups=()))
        encoded = msgspec.Raw(encode_lossy(msgspec.msgpack.encode, report))
        return protocol.frame(update) + protocol.frame(protocol.SlotReports(encoded))

    # The interface of a scheduler

    @property
    def ended(self) -> bool:
        """True if the agent was asked to end and no attempt is running any more."""
        return self._ending and all(assigned.worker.state.ended for assigned in self._assigned.values())

    def restart(self, slot: str) -> None:
        """Raises `GmgError`: the session's engine decides when a worker restarts."""
        raise GmgError("this is the agent of a node; restart the worker in its session", 1)

    def edit(self, slot: str, args: tuple[str, ...], env: dict[str, str]) -> None:
        """Raises `GmgError`, like `restart`."""
        self.restart(slot)

    def stop(self, slot: str, *, kill: bool) -> None:
        """Stops the slot's worker."""
        if slot in self._assigned:
            self._assigned[slot].worker.stop(Stop(kill=kill))

    def end(self, *, kill: bool, reason: str | None) -> None:
        """Stops all workers, including any assigned later."""
        self._ending = True
        for assigned in self._assigned.values():
            if assigned.worker.state is not WorkerState.STOPPED:
                assigned.worker.stop(Stop(kill=kill, reason=reason))
        self._changed()
