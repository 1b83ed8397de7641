"""The agent of a node: an engine whose scheduler runs on each slot what the session's engine assigns, and reports it."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace

import msgspec
from msgspec import structs

from gmg_tui.engine.nodes.logs import KeptLogs
from gmg_tui.engine.nodes.states import Assignment, Report, WorkerReport
from gmg_tui.engine.records.recorder import Recorder
from gmg_tui.engine.scheduling.scheduler import Scheduler
from gmg_tui.engine.workers.local_worker import LocalWorker
from gmg_tui.engine.workers.member import Member, Outcome
from gmg_tui.engine.workers.restart_policy import RestartPolicy
from gmg_tui.engine.workers.slot_state import SlotState, Workplace
from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.model import JobRecord, RunSpec, Snapshot, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts.genesis.output.failures import Failure
from gmg_tui.scripts.torchrun import LOOPBACK, Meeting, free_port
from gmg_tui.session import protocol
from gmg_tui.session.protocol import Update

_FIRST_S = 60.0
"""How much longer it waits for its first leader: the launcher may take its time."""
_SILENT_S = 60.0
"""How much longer it waits for a leader that is connected: the network may have stalled."""
_CHECK_S = 1.0


class AssignedWorker(Member):
    """A worker on a slot, its newest assignment, and its part in a group that the session's engine manages."""

    worker: LocalWorker
    running: asyncio.Task[None]

    def __init__(self, assignment: Assignment, spec: RunSpec) -> None:
        super().__init__(RestartPolicy(spec), assignment.rank)
        self.assignment = _without_commands(assignment)
        self._outcome: Outcome | None = None

    async def meet(self, report: Callable[[str | None], None]) -> Meeting | None:
        """All ranks are ready."""
        return self.assignment.meeting

    async def part(self, outcome: Outcome, report: Callable[[str | None], None]) -> Failure | None:
        """The session's engine waits for the other ranks."""
        self._outcome = outcome
        return outcome.failure

    def update(self, assignment: Assignment) -> None:
        """Carry out what has changed since the last assignment."""
        before, self.assignment, worker, task = self.assignment, assignment, self.worker, assignment.task
        if assignment.serial > before.serial:
            before = _without_commands(assignment)
            self.called_off, self._outcome = False, None
            if (task.args, task.env) == (worker.args, worker.env):
                worker.restart()
            else:
                worker.edit(task.args, dict(task.env))
        if assignment.stop is not None and assignment.stop != before.stop:
            worker.stop(kill=assignment.stop.kill, reason=assignment.stop.reason)
        for number in assignment.signals[len(before.signals) :]:
            worker.pass_on(signal.Signals(number))
        if assignment.ends_with_group:
            self.called_off = True  # if it has no process yet, none is started
            worker.end_with_group()

    def report(self) -> WorkerReport:
        """The worker at this moment."""
        worker, outcome, now = self.worker, self._outcome, time.monotonic()
        if worker.state is WorkerState.STOPPED and outcome is None:
            outcome = Outcome(by_user=True)
        return WorkerReport(
            self.assignment.key,
            self.assignment.serial,
            worker.view(worker.task.index, now),
            worker.result,
            worker.unready,
            worker.seen().later(-now) if self.rank is not None else None,
            outcome if worker.concluded.is_set() and not self.policy.pending else None,
        )


def _without_commands(assignment: Assignment) -> Assignment:
    """The assignment as its attempt begins."""
    return structs.replace(assignment, stop=None, ends_with_group=False)


class Agent(Scheduler):
    """Runs what is assigned, and calls `changed` when something that is reported has changed.

    Attributes:
        orphaned: Called with the reason when no engine leads the agent any more; set before it runs.
        logs: The logs that it keeps for the session's engine.
    """

    def __init__(
        self,
        slot_states: Mapping[str, SlotState],
        workplace: Workplace,
        recorder: Recorder,
        changed: Callable[[], None],
    ) -> None:
        assert workplace.spec.agent is not None
        self.orphaned: Callable[[str], None] = lambda _: None
        self._slot_states, self._workplace, self._recorder, self._changed = slot_states, workplace, recorder, changed
        self._spec = workplace.spec.agent
        self.logs = KeptLogs(workplace.spec.folder, shared=bool(self._spec.logs))
        self._assigned: dict[str, AssignedWorker] = {}
        """The worker of each slot to which one is assigned."""
        self._tasks: set[asyncio.Task[None]] = set()
        """They run these workers, and earlier ones that have not ended yet."""
        self._slot_locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Held by the worker that runs on a slot."""
        self._started = asyncio.Event()
        self._ending = False
        self._leaders: set[object] = set()
        """The connections of the session's engine."""
        self._received_at = time.monotonic() + _FIRST_S
        """When the session's engine last sent something, monotonic seconds; before that, when it should."""
        self._address = ""
        """By which other machines reach this one."""

    async def run(self) -> None:
        """Run what is assigned until cancelled; whatever runs then is killed."""
        self._started.set()
        try:
            self._address = await in_daemon_thread(_own_address)
            await self._watch_leader()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _watch_leader(self) -> None:
        wait_s = self._spec.orphan_wait_s
        while time.monotonic() - self._received_at < wait_s:
            await asyncio.sleep(_CHECK_S)
            wait_s = self._spec.orphan_wait_s + (_SILENT_S if self._leaders else 0.0)
        self.orphaned(f"the session's engine has been silent for {wait_s:.0f} s")
        await asyncio.get_running_loop().create_future()  # its workers end first

    # From the session's engine

    def assign(self, leader: object, request: protocol.SetSlot) -> None:
        """Have a slot run what is assigned; a client that sends this is the session's engine. Raises `GmgError`."""
        self._leaders.add(leader)
        self.received(leader)
        slot = request.slot
        if slot not in self._slot_states:
            raise GmgError(f"no slot {slot}", 1)
        try:
            assignment = msgspec.msgpack.decode(request.assignment, type=Assignment | None)
        except msgspec.MsgspecError as error:
            raise GmgError(f"not an assignment: {error}", 1) from error
        current = self._assigned.get(slot)
        if current is not None and assignment is not None and current.assignment.key == assignment.key:
            current.update(assignment)
        elif assignment is None or not assignment.ended:
            if current is not None:
                del self._assigned[slot]
                current.running.cancel()
            if assignment is not None:
                self._start(slot, assignment)
        self._changed()

    def _start(self, slot: str, assignment: Assignment) -> None:
        slot_state = self._slot_states[slot]
        self._recorder.occupy(JobRecord(slot_state.index + 1, slot), {slot_state.slot: assignment.log})
        # The GPUs are this machine's; another machine of the session may use the same numbers and names.
        cards = [self._slot_states[card.name].slot for card in assignment.task.cards if card.name in self._slot_states]
        task = replace(assignment.task, cards=tuple(cards))
        assigned = self._assigned[slot] = AssignedWorker(assignment, self._workplace.spec)
        worker = self._workplace.worker(slot_state, task, assignment.log, self._recorder, assigned)
        assert isinstance(worker, LocalWorker)
        slot_state.worker = assigned.worker = worker
        assigned.update(assignment)
        if self._ending:
            worker.stop()
        assigned.running = asyncio.create_task(self._run_worker(worker, self._slot_locks[slot]), name=slot)
        self._tasks.add(assigned.running)
        assigned.running.add_done_callback(self._tasks.discard)

    async def _run_worker(self, worker: LocalWorker, slot: asyncio.Lock) -> None:
        """Run a worker once the one before it on the slot has ended."""
        await self._started.wait()
        async with slot:
            await worker.run()

    def received(self, client: object) -> None:
        """Record that a client has sent something; the leader's messages keep the workers alive."""
        if client in self._leaders:
            self._received_at = time.monotonic()

    def left(self, client: object) -> None:
        """A connection has ended."""
        self.received(client)
        self._leaders.discard(client)

    def frames(self, client: object, snapshot: Snapshot) -> bytes | None:
        """What the session's engine is sent instead of a snapshot; None for another client."""
        if client not in self._leaders:
            return None
        workers = tuple(assigned.report() for assigned in self._assigned.values())
        report = msgspec.msgpack.encode(Report(workers, (self._address, free_port()), self.ended))
        update = Update(structs.replace(snapshot, workers=(), groups=()))
        return protocol.frame(update) + protocol.frame(protocol.SlotReports(msgspec.Raw(report)))

    # As any scheduler

    @property
    def ended(self) -> bool:
        """Whether the agent was asked to end, and nothing runs."""
        return self._ending and all(assigned.worker.state.ended for assigned in self._assigned.values())

    def restart(self, slot: str) -> None:
        """Raises `GmgError`: the session's engine decides when a worker restarts."""
        raise GmgError("this is the agent of a node; restart the worker in its session", 1)

    def stop(self, slot: str, *, kill: bool) -> None:
        """Stop the slot's worker."""
        if slot in self._assigned:
            self._assigned[slot].worker.stop(kill=kill)

    def end(self, *, kill: bool, reason: str | None) -> None:
        """Stop all workers, and run no others."""
        self._ending = True
        for assigned in self._assigned.values():
            if assigned.worker.state is not WorkerState.STOPPED:
                assigned.worker.stop(kill=kill, reason=reason)
        self._changed()


def _own_address() -> str:
    """The address to which this machine's name resolves; resolving may take long."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return LOOPBACK
