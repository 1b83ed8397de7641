"""The agent of a node: an engine whose scheduler has its slots run what the session's engine wants, and reports that."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
from msgspec import structs

from gmg_tui import protocol
from gmg_tui.ddp.variables import LOOPBACK, Meeting, free_port
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.daemon_thread import in_daemon_thread
from gmg_tui.engine.nodes import states
from gmg_tui.engine.nodes.states import Report, Wanted, WorkerReport
from gmg_tui.engine.records.recorder import Recorder
from gmg_tui.engine.scheduling.scheduler import Scheduler
from gmg_tui.engine.workers.local_worker import LocalWorker
from gmg_tui.engine.workers.member import Member, Outcome
from gmg_tui.engine.workers.restart_policy import RestartPolicy
from gmg_tui.engine.workers.slot_state import SlotState, Workplace
from gmg_tui.errors import GmgError
from gmg_tui.genesis.output.failures import Failure
from gmg_tui.model import JobRecord, RestartMode, Snapshot, WorkerState
from gmg_tui.protocol import LogPart, Update
from gmg_tui.session import LOGS

_log = logging.getLogger(__name__)

_FIRST_S = 60.0
"""How long it waits for a first leader at least: the launcher may take its time."""
_SILENT_S = 60.0
"""How much longer it waits for a leader whose connection stands: the network may have stalled."""
_LOOK_S = 1.0
_PART_BYTES = 256 << 10
"""Of a log at once: on a slow line reports come between two parts, before the node counts as lost."""


class Assigned(Member):
    """A worker on a slot, what was last wanted of it, and its member of a group that the session's engine manages."""

    def __init__(self, wanted: Wanted, task: Task) -> None:
        super().__init__(RestartPolicy(task), wanted.rank)
        self.wanted = _undisturbed(wanted)
        self.worker: LocalWorker
        self.running: asyncio.Task[None] | None = None
        self.dismissed = False
        self._outcome: Outcome | None = None

    async def meet(self, report: Callable[[str | None], None]) -> Meeting | None:
        """All ranks are ready."""
        return self.wanted.meeting

    async def part(self, outcome: Outcome, report: Callable[[str | None], None]) -> Failure | None:
        """The session's engine waits for the others."""
        self._outcome = outcome
        return outcome.failure

    async def run(self, before: Assigned | None) -> None:
        """Run the worker once the one `before` it has ended, and has left the GPU's memory."""
        if before is not None and before.running is not None:
            before.running.cancel()
            try:
                await asyncio.wait([before.running])
            except asyncio.CancelledError:
                await asyncio.wait([before.running])  # the next task waits for this one
                raise
            if (last := before.worker.running) is not None:
                shared = before.worker.has_neighbours
                await last.memory.released(lambda awaited: setattr(self.worker, "reason", awaited), shared=shared)
                self.worker.memory_kept = last.memory.still_taken(shared=shared)
        if not self.dismissed:
            await self.worker.run()

    def want(self, wanted: Wanted) -> None:
        """Do what has been asked for since the last time."""
        before, self.wanted, worker = self.wanted, wanted, self.worker
        if wanted.turn > before.turn:
            before = _undisturbed(wanted)
            self.called_off, self._outcome = False, None
            if (wanted.task.args, wanted.task.env) == (worker.args, worker.env):
                worker.restart()
            else:
                worker.edit(wanted.task.args, dict(wanted.task.env))
        if wanted.stop is not None and wanted.stop != before.stop:
            worker.stop(kill=wanted.stop.kill, reason=wanted.stop.reason)
        for number in wanted.signals[len(before.signals) :]:
            worker.pass_on(signal.Signals(number))
        if wanted.carried and not before.carried:
            worker.run_with_group()
        if wanted.ends_with_group:
            self.called_off = True  # before it has a process, it gets none
            worker.end_with_group()

    def report(self) -> WorkerReport:
        """The worker at this moment."""
        worker, outcome, now = self.worker, self._outcome, time.monotonic()
        if worker.state is WorkerState.STOPPED and outcome is None:
            outcome = Outcome(by_user=True)
        return WorkerReport(
            self.wanted.key,
            self.wanted.turn,
            worker.view(worker.task.index, now),
            worker.result,
            worker.unready,
            worker.out_dir,
            worker.carried,
            worker.seen().later(-now) if self.rank is not None else None,
            outcome if worker.concluded.is_set() and not self.policy.pending else None,
        )


def _undisturbed(wanted: Wanted) -> Wanted:
    """The attempt as it begins."""
    return structs.replace(wanted, stop=None, carried=False, ends_with_group=False)


class Agent(Scheduler):
    """Runs what is wanted, and calls `changed` when something that is reported has changed.

    Attributes:
        orphaned: Called with the reason when nobody leads the agent any more; set before it runs.
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
        self._spec, self._about = workplace.spec, workplace.spec.agent
        self._assigned: dict[str, Assigned] = {}
        """By slot."""
        self._begun: asyncio.Queue[tuple[Assigned, Assigned | None]] = asyncio.Queue()
        self._ending = False
        self._leaders: set[object] = set()
        """The connections of the session's engine."""
        self._was_led = False
        self._received_at = time.monotonic()
        """When the session's engine last sent something, monotonic seconds."""
        self._address = ""
        """By which other machines reach this one."""
        self._sent: dict[str, int] = {}
        """How much of each log the session's engine has."""

    async def run(self) -> None:
        """Run what is wanted until cancelled; whatever runs then is killed."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch_leader())
            self._address = await in_daemon_thread(_own_address)
            while True:
                assigned, before = await self._begun.get()
                assigned.running = tasks.create_task(assigned.run(before), name=assigned.worker.slot.name)

    async def _watch_leader(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            wait_s = self._about.orphan_wait_s + (_SILENT_S if self._leaders else 0.0)
            if not self._was_led:
                wait_s = max(wait_s, _FIRST_S)
            if time.monotonic() - self._received_at >= wait_s:
                self.orphaned(f"the session's engine has been silent for {wait_s:.0f} s")
                return

    # From the session's engine

    def want(self, leader: object, request: protocol.SetSlot) -> None:
        """Have a slot run what is wanted; who asks for it on a connection is the session's engine. Raises `GmgError`."""
        self._was_led = True
        self._leaders.add(leader)
        self.received(leader)
        slot = request.slot
        if slot not in self._slot_states:
            raise GmgError(f"no slot {slot}", 1)
        try:
            wanted = states.wanted_of(request.wanted)
        except msgspec.MsgspecError as error:
            raise GmgError(f"no state of a slot: {error}", 1) from error
        before = self._assigned.get(slot)
        if wanted is None:
            if before is not None and not before.dismissed:
                before.dismissed = True
                if before.running is not None:
                    before.running.cancel()
        elif before is not None and not before.dismissed and before.wanted.key == wanted.key:
            before.want(wanted)
        elif not wanted.over:
            self._assign(slot, wanted, before)
        self._changed()

    def _assign(self, slot: str, wanted: Wanted, before: Assigned | None) -> None:
        slot_state = self._slot_states[slot]
        self._recorder.occupy(JobRecord(slot_state.index + 1, slot), {slot_state.slot: wanted.log})
        # The GPUs are this machine's; another machine of the session may use the same numbers and names.
        cards = [self._slot_states[card.name].slot for card in wanted.task.cards if card.name in self._slot_states]
        task = replace(wanted.task, cards=tuple(cards), restart=RestartMode.NEVER, max_restarts=0, retries=0)
        assigned = self._assigned[slot] = Assigned(wanted, task)
        worker = self._workplace.worker(slot_state, task, wanted.log, self._recorder, assigned)
        assert isinstance(worker, LocalWorker)
        slot_state.worker = assigned.worker = worker
        assigned.want(wanted)
        self._begun.put_nowait((assigned, before))
        if self._ending:
            worker.stop()

    def received(self, client: object) -> None:
        """Record that a client has sent something; a leader's messages keep the workers alive."""
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
        workers = tuple(assigned.report() for assigned in self._wanted)
        report = protocol.SlotReports(states.encode(Report(workers, (self._address, free_port()), self.ended)))
        return protocol.frame(Update(structs.replace(snapshot, workers=(), groups=()))) + protocol.frame(report)

    # As any scheduler

    @property
    def _wanted(self) -> list[Assigned]:
        return [assigned for assigned in self._assigned.values() if not assigned.dismissed]

    @property
    def ended(self) -> bool:
        """Whether the session's engine needs the agent no more, and nothing runs."""
        return self._ending and all(assigned.worker.state.ended for assigned in self._wanted)

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
        self._ending = True
        for assigned in self._assigned.values():
            if assigned.worker.state is not WorkerState.STOPPED:
                assigned.worker.stop(kill=kill, reason=reason)
        self._changed()

    # Logs

    async def read_log(self, path: str, offset: int) -> LogPart:
        """A part of a log, empty at its end; whoever asks for what follows `offset` has what precedes it.

        Raises `GmgError`.
        """
        if not path.startswith(f"{LOGS}/") or ".." in path:
            raise GmgError(f"{path} is no log", 1)
        file = f"{self._spec.folder}/{path}"
        self._sent[file] = offset
        return await in_daemon_thread(_part, Path(file), offset)

    async def logs_sent(self) -> bool:
        """Whether the session's engine has all logs, so that those here are not needed any more."""
        return bool(self._about.logs) or await in_daemon_thread(self._all_sent)

    def _all_sent(self) -> bool:
        files = [path for path in Path(self._spec.folder, LOGS).rglob("*") if path.is_file()]
        return all(self._sent.get(str(path), 0) >= path.stat().st_size for path in files)


def _own_address() -> str:
    """The address to which this machine's name resolves; resolving may take long."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return LOOPBACK


def _part(file: Path, offset: int) -> LogPart:
    try:
        with file.open("rb") as stream:
            stream.seek(offset)
            return LogPart(stream.read(_PART_BYTES), os.fstat(stream.fileno()).st_ino)
    except FileNotFoundError:
        return LogPart()
    except OSError as error:
        raise GmgError(f"{file.name} cannot be read: {error.strerror}", 1) from error
