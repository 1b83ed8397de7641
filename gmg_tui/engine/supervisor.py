"""One session's work: its slots and workers, and commands for them."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Set
from functools import partial
from typing import TYPE_CHECKING

from gmg_tui.diagnosis.kinds import KINDS
from gmg_tui.engine import clock
from gmg_tui.engine.faults import Faults
from gmg_tui.engine.scheduling.queue_scheduler import QueueScheduler
from gmg_tui.engine.workers.group import Group
from gmg_tui.engine.workers.slot import EngineSlot
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.model import Alert, RankGroup, Session, Severity
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts import torchrun
from gmg_tui.session.protocol import Action, Seen
from gmg_tui.session.store.writer import MAX_FINAL_WAIT_S, StoreWriter

if TYPE_CHECKING:
    from gmg_tui.engine.nodes.agent import Agent
    from gmg_tui.engine.nodes.fleet import Fleet
    from gmg_tui.engine.scheduling.scheduler import PlainScheduler

    Scheduler = PlainScheduler | QueueScheduler | Agent
    """Decides what runs on the slots, in a plain run, with a queue, or as a node's agent."""

_log = logging.getLogger(__name__)

_MIN_SIGNAL_GAP_S = 2.0
"""A signal repeated sooner is not forwarded: signals to all processes of a Slurm job reach the engine both
directly and through the command that started it."""
_END_GRACE_S = 20.0
"""Grace period after a request to end, on top of the workers' grace periods."""
_MIN_END_GAP_S = 2.0
"""A request to end that is repeated sooner does not count: it may arrive both directly and through a client."""

_KIND_BY_PREFIX = {
    **dict.fromkeys(("store", "slow disk", "folder", "disk"), "disk"),
    **dict.fromkeys(("fault in", "processes"), "internal"),
    "node ": "node",
    "gpus": "gpu",
    "arguments": "collision",
}
"""Kinds of alerts about the session, by prefix of the subject."""


class Supervisor:
    """Runs the work of a session. The observer only watches: if it fails, the work continues.

    Attributes:
        queue: The scheduler, if it has a queue.
        all_ended: Set while no work is left.
        overdue: Set once the grace period after a request to end is over: a process still running then cannot be ended.
        saved: Set while no work is left and its results are in the store, or were given up.
        concluded: True once the engine is about to exit, and accepts no more commands.
        notes: Alerts about the session itself, by subject.
        on_kill: Called when all workers are killed, to end other waits too.
        on_saved: Called when `saved` is set.
    """

    def __init__(
        self,
        session: Session,
        slots: Mapping[str, EngineSlot],
        scheduler: Scheduler,
        store: StoreWriter,
        faults: Faults,
    ) -> None:
        self.session, self.slots, self.scheduler, self.faults = session, slots, scheduler, faults
        self.queue = scheduler if isinstance(scheduler, QueueScheduler) else None
        faults.note = self.note
        self.all_ended, self.saved, self.overdue = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.concluded = False
        self.notes: dict[str, Alert] = {}
        self.on_kill: Callable[[], None] = lambda: None
        self.on_saved: Callable[[], None] = lambda: None
        self._store = store
        self._saving: asyncio.Task[None] | None = None
        self.agent: Agent | None = None
        self.fleet: Fleet | None = None
        self._work_started: float | None = time.monotonic()
        """Start of the current work, monotonic seconds; None while there is none."""
        self._worked_s = 0.0
        """Seconds of work before the current work."""
        self._ending = False
        self._end_requested_at: float | None = None
        """Time of the first request to end, monotonic seconds."""
        self._forwarded_at: dict[signal.Signals, float] = {}
        """Time at which each signal was last forwarded, monotonic seconds."""

    @property
    def workers(self) -> list[Worker]:
        """The current or last worker of each slot that has had one."""
        return [engine_slot.worker for engine_slot in self.slots.values() if engine_slot.worker is not None]

    # Lifecycle

    async def run(self) -> None:
        """Runs the work until cancelled; cancelling kills all workers."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.scheduler.run(), name="scheduler")
            if self.fleet is not None:
                tasks.create_task(self.fleet.run(), name="nodes")

    def changed(self) -> None:
        """Updates `all_ended` after a change; once all work has ended, starts to wait for the store."""
        ended = self.scheduler.ended
        if ended and not self.all_ended.is_set():
            self._worked_s, self._work_started = self.elapsed_s(time.monotonic()), None
            self.all_ended.set()
            self._saving = asyncio.create_task(self._save(), name="save")
        elif not ended and self.all_ended.is_set():
            self._work_started = time.monotonic()
            self.all_ended.clear()
            self.saved.clear()
            if self._saving is not None:
                self._saving.cancel()

    async def _save(self) -> None:
        """Waits until the results are in the store; clients are served, and can give the results up with a kill."""
        store = self._store
        if store.trouble is not None:
            self.report_store(store.trouble)
        # The results of an agent are in the store of the session's engine.
        if self.agent is not None or not await store.wait_written(MAX_FINAL_WAIT_S):
            store.give_up()
            self.note("store", store.trouble and f"the last results are not in the store: {store.trouble}")
        self.saved.set()
        self.on_saved()

    def report_store(self, trouble: str | None) -> None:
        """Notes why the store cannot be written and, after the work, how long the engine waits for it."""
        if self._store.trouble is not None and self._store.has_unwritten and self.all_ended.is_set():
            wait = f"waiting up to {MAX_FINAL_WAIT_S / 60:.0f} min (killing the session loses them)"
            trouble = trouble if self.saved.is_set() else f"the results cannot be written: {trouble}; {wait}"
        self.note("store", trouble)

    @property
    def _groups(self) -> list[Group]:
        return [run.group for run in self.scheduler.job_runs if run.group is not None]

    def groups(self) -> tuple[RankGroup, ...]:
        """Returns the groups whose ranks occupy slots."""
        return tuple(group.view() for group in self._groups)

    def group_slots(self, slot: str) -> tuple[str, ...]:
        """Returns the slots of the job on `slot`, or just `slot`. Raises `GmgError` if there is no such slot."""
        engine_slot = self.engine_slot(slot)
        name = (engine_slot.lead or engine_slot).slot.name
        return next((run.slots for run in self.scheduler.job_runs if name in run.slots), (name,))

    def beat(self) -> None:
        """Checks groups and jobs; called once a second."""
        for group in self._groups:
            group.check(time.monotonic())
        if self.queue is not None:
            self.queue.beat()

    def elapsed_s(self, now: float) -> float:
        """Returns the total seconds of work; `now` is monotonic seconds."""
        return self._worked_s + (now - self._work_started if self._work_started is not None else 0.0)

    def update_leases(self, update: Callable[[Set[str | None]], Set[str]]) -> None:
        """Calls `update` with the UUIDs of the needed GPUs; it returns those that other sessions have taken."""
        queue, slots = self.queue, self.slots.values()
        needed = {slot.gpu_uuid for slot in slots} if queue is None else queue.board.needed()
        taken = update(frozenset() if self.all_ended.is_set() else needed)
        if queue is not None:
            queue.board.taken = taken

    # Commands

    def act(self, action: Action, slots: tuple[str, ...], seen: Mapping[str, Seen]) -> None:
        """Restarts, stops or kills the workers whose job is still the one `seen`.

        Raises `GmgError` for slots that could not be acted on, and for a restart while the session is ending.
        """
        command = self.scheduler.restart
        if action is Action.RESTART:
            self._check_not_ending()
        else:
            command = partial(self.scheduler.stop, kill=action is Action.KILL)
        self._apply(command, slots, seen)

    def edit(
        self, slots: tuple[str, ...], args: tuple[str, ...], env: dict[str, str], seen: Mapping[str, Seen]
    ) -> None:
        """Restarts workers with other arguments. Raises `GmgError` like `act`, and for trials and ended jobs."""
        self._check_not_ending()
        if self.session.spec.tune is not None:
            raise GmgError("the trials of a tuning run keep their arguments; start a plain run to change them", 1)
        is_sweep = self.session.spec.sweep is not None
        self._apply(lambda slot: self.scheduler.edit(slot, args, env), slots, seen, with_groups=not is_sweep)

    def _apply(
        self,
        command: Callable[[str], None],
        slots: Iterable[str],
        seen: Mapping[str, Seen],
        *,
        with_groups: bool = True,
    ) -> None:
        """Applies a command to the slots whose job is still the one `seen`, and to their groups. Raises `GmgError`."""
        errors = {slot: _mismatch(self.engine_slot(slot), seen.get(slot)) for slot in slots}
        matching = [slot for slot, error in errors.items() if error is None]
        groups = {self.group_slots(slot): slot for slot in matching}
        # A job on several slots is edited once.
        matching = [slot for group in groups for slot in group] if with_groups else list(groups.values())
        for slot in dict.fromkeys(matching):
            try:
                command(slot)
            except GmgError as error:
                errors[slot] = str(error)
        if refused := [error for error in errors.values() if error is not None]:
            raise GmgError("; ".join(refused), 1)

    def end(self, *, kill: bool = False, reason: str | None = None) -> None:
        """Stops all workers; kills them if `kill`, which clients ask for. `reason` is None if a client has asked.

        Another request once they have ended also ends the wait for `--notify`; only `kill` ends that for the store.
        """
        now = time.monotonic()
        if kill and self.all_ended.is_set():  # else the kill is for the workers
            self._store.give_up()
        if reason is None and self._end_requested_at is not None and self.all_ended.is_set():
            kill |= now >= self._end_requested_at + _MIN_END_GAP_S
        self._end_requested_at = self._end_requested_at or now
        self._ending = True
        if reason is not None:
            self.note("end", reason)
        self.scheduler.end(kill=kill, reason=reason)
        if kill:
            self.on_kill()
        waits_s = 0.0 if kill else torchrun.stop_timeout_s(self.session.spec)
        asyncio.get_running_loop().call_later(waits_s + _END_GRACE_S, self.overdue.set)

    def forward_signal(self, number: signal.Signals) -> None:
        """Forwards a signal to the workers' first processes: some scripts then save their state."""
        now = time.monotonic()
        if now < self._forwarded_at.get(number, 0.0) + _MIN_SIGNAL_GAP_S:
            return
        self._forwarded_at[number] = now
        receivers = [worker.slot.name for worker in self.workers if worker.forward_signal(number)]
        result = f"passed on to {', '.join(receivers)}" if receivers else "no worker handles it"
        self.note(number.name, f"{number.name} received at {time.strftime('%H:%M:%S')}: {result}")

    @property
    def jobs(self) -> QueueScheduler:
        """The scheduler with a queue. Raises `GmgError` in a plain run."""
        if self.queue is None:
            raise GmgError("this session has no queue: it runs one script on every slot", 1)
        return self.queue

    def _check_not_ending(self) -> None:
        if self._ending:
            raise GmgError("the session is being stopped; start another one", 1)

    def engine_slot(self, slot: str) -> EngineSlot:
        """Returns a slot. Raises `GmgError` if there is no such slot."""
        engine_slot = self.slots.get(slot)
        if engine_slot is None:
            raise GmgError(f"no slot {slot}; there are {', '.join(self.slots)}", 1)
        return engine_slot

    def note(self, subject: str, text: str | None) -> None:
        """Raises an alert about the session itself, or (None) clears it."""
        if text is None:
            self.notes.pop(subject, None)
        elif (previous := self.notes.get(subject)) is None or previous.text != text:
            kind = next((kind for prefix, kind in _KIND_BY_PREFIX.items() if subject.startswith(prefix)), "session")
            since = previous.since if previous is not None else clock.now()
            severity = Severity.INFO if subject == "arguments" else KINDS[kind].severity
            self.notes[subject] = Alert(kind, severity, text, since)
            _log.warning("%s", text)


def _mismatch(engine_slot: EngineSlot, expected: Seen | None) -> str | None:
    """Returns a message if the slot's job or attempt is not the `expected` one (None: any); None if it is."""
    if expected is None:
        return None
    slot, current = engine_slot.slot.name, engine_slot.view()
    last_job = engine_slot.worker.task.job if engine_slot.worker is not None else None
    if expected.job not in (current.job, last_job):
        actual = f"job {current.job} is running" if current.job is not None else "no job is running"
        ended = f"job {expected.job} has ended; " if expected.job is not None else ""
        return f"{ended}{actual} on {slot} now"
    if expected.attempt is not None and expected.attempt != current.attempt and expected.job == current.job:
        return f"attempt {expected.attempt} has ended; attempt {current.attempt} is running on {slot} now"
    return None
