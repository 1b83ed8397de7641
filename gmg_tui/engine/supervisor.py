"""One session's state: its workers and GPUs, and the commands that they take."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import structs

from gmg_tui.engine import meant, process_scan, strangers
from gmg_tui.engine.allocation import AllocationWatch
from gmg_tui.engine.daemon_thread import in_daemon_thread
from gmg_tui.engine.gpus.samples import GpuSamples
from gmg_tui.engine.output.history import STEP_S
from gmg_tui.engine.process_scan import ProcessScan
from gmg_tui.engine.records.ran import ran
from gmg_tui.engine.records.recorder import Recorder
from gmg_tui.engine.records.session_files import SessionFiles
from gmg_tui.engine.scheduling.scheduler import Scheduler
from gmg_tui.engine.views import slot_view
from gmg_tui.engine.workers.slot_state import SlotState
from gmg_tui.engine.workers.slot_worker import SlotWorker
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.errors import GmgError
from gmg_tui.model import (
    Details,
    GpuProcess,
    GpuSample,
    QueueAction,
    QueueView,
    Series,
    Session,
    Snapshot,
    Stacks,
    TriedView,
    WorkerState,
)
from gmg_tui.protocol import Action, Seen
from gmg_tui.results.tried import TriedArguments

if TYPE_CHECKING:
    from gmg_tui.engine.nodes.agent import Agent
    from gmg_tui.engine.nodes.fleet import Fleet

_log = logging.getLogger(__name__)

_PASS_ON_S = 2.0
"""A signal repeated within this time is passed on once: signals to all processes of a Slurm job reach the engine both
directly and from the command that started it."""


class Supervisor:
    """The engine's state; `save_phase_times` is called when the session's files are written.

    Attributes:
        all_ended: Set while no work is left.
        clients: How many clients there are that may steer.
        watched: Whether there is any client.
        rings: The newest lines of each slot.
        fleet: The nodes, where the session has several.
        agent: How the session's engine meets this one, where it is a node's agent.
    """

    def __init__(
        self,
        session: Session,
        slot_states: Mapping[str, SlotState],
        scheduler: Scheduler,
        recorder: Recorder,
        process_scan: ProcessScan,
        save_phase_times: Callable[[], None],
        tried: TriedArguments,
        allocation: AllocationWatch,
    ) -> None:
        self.session = session
        self.all_ended = asyncio.Event()
        self.clients = 0
        self.watched = False
        self.rings = {name: slot_state.ring for name, slot_state in slot_states.items()}
        self._slot_states = slot_states
        self._scheduler = scheduler
        self._recorder = recorder
        self._tried = tried
        self._allocation = allocation
        self.agent: Agent | None = None
        self.fleet: Fleet | None = None
        self._models = {slot.name: slot.gpu.name if slot.gpu is not None else None for slot in session.slots}
        self._since: float | None = time.monotonic()
        """Since when there is work, monotonic seconds; None while there is none."""
        self._worked_s = 0.0
        """How long there was work before that."""
        self.session_files = SessionFiles(self.session, save_phase_times, self.snapshot, self._states, self.note)
        uuids = (slot.gpu.uuid for slot in session.slots if slot.gpu is not None)
        self._samples = GpuSamples(uuids, session.spec.interval_s, time.monotonic())
        self._nvml_error: str | None = None
        self._notes: dict[str, str] = {}
        self._ending = False
        self._passed_on: dict[signal.Signals, float] = {}
        """When each signal was last passed on, monotonic seconds."""
        self._process_scan = process_scan

    @property
    def _workers(self) -> list[SlotWorker]:
        """The current or last worker of each slot that has had one."""
        return [slot_state.worker for slot_state in self._slot_states.values() if slot_state.worker is not None]

    # Life

    async def run(self, read: Callable[[], None], tell: Callable[[], None]) -> None:
        """Run until cancelled; whatever runs then is killed.

        Each second begins with `read`, which reads the workers' output, and ends with `tell`, which tells the clients.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._scheduler.run(), name="scheduler")
                tasks.create_task(self._beat(read, tell), name="beat")
                tasks.create_task(self.session_files.run(), name="session files")
                tasks.create_task(self._allocation.run(), name="allocation")
                if self.agent is not None:
                    tasks.create_task(self.agent.run(), name="agent")
                if self.fleet is not None:
                    tasks.create_task(self.fleet.run(self._slot_states), name="nodes")
        finally:
            self._recorder.conclude(self.snapshot())

    async def _beat(self, read: Callable[[], None], tell: Callable[[], None]) -> None:
        """What is done each second, all at once, since waking up costs more than most of it."""
        loop = asyncio.get_running_loop()
        due = scan_due = loop.time()
        while True:
            now = loop.time()
            read()
            if self.fleet is not None:
                self.fleet.tell(self.take_samples, self.note)
            if self._samples.expire(time.monotonic()):
                self._spread_samples()
            moment = time.time()
            for worker in self._workers:
                worker.settle()
            for slot_state in self._slot_states.values():
                slot_state.remember(moment)
            self._scheduler.beat()
            self._recorder.beat(moment, self._slot_states.values(), self.snapshot)
            self._recorder.health(self._samples.newest, self._slot_states.values())
            self.session_files.beat()
            tell()
            if now >= scan_due and self.fleet is None:
                scan_due = now + (process_scan.INTERVAL_S if self.watched else process_scan.UNWATCHED_S)
                here = [worker for worker in self._workers if isinstance(worker, Worker)]
                await self._process_scan.scan(here, self._samples.newest.values(), self.note)
            due = max(due + STEP_S, now)
            await asyncio.sleep(due - loop.time())

    def changed(self) -> None:
        """Something has changed: see whether work is left."""
        ended = self._scheduler.ended
        if ended and not self.all_ended.is_set():
            self._worked_s, self._since = self._elapsed_s(time.monotonic()), None
            self.all_ended.set()
        elif not ended and self.all_ended.is_set():
            self._since = time.monotonic()
            self.all_ended.clear()

    def _elapsed_s(self, now: float) -> float:
        return self._worked_s + (now - self._since if self._since is not None else 0.0)

    def _states(self) -> list[object]:
        """What of the workers is worth writing the session's record for."""
        return [
            (worker.task.job, worker.state, worker.stuck is None, worker.reason, worker.attempt_started)
            for worker in self._workers
        ]

    def take_samples(self, samples: tuple[GpuSample, ...], error: str | None) -> None:
        """Take what the sampler has read."""
        self._samples.take(samples, time.monotonic())
        self._nvml_error = error
        self._spread_samples()

    def _spread_samples(self) -> None:
        """Give the newest samples to the workers and the scheduler."""
        now = time.monotonic()
        live = Counter(worker.slot.gpu.uuid for worker in self._workers if worker.slot.gpu and worker.state.live)
        for worker in self._workers:
            gpu = worker.slot.gpu
            worker.measure(self._sample_of(worker), now, live[gpu.uuid] if gpu is not None else 1)
        self._scheduler.take_samples(self._samples.newest, self._nvml_error)

    def _sample_of(self, worker: SlotWorker) -> GpuSample | None:
        return self._samples.newest.get(worker.slot.gpu.uuid) if worker.slot.gpu is not None else None

    # What it shows

    def snapshot(self) -> Snapshot:
        """Everything at this moment."""
        now = time.monotonic()
        owners = self._owners()
        slow = self._slow()
        return Snapshot(
            time=time.time(),
            elapsed_s=self._elapsed_s(now),
            workers=tuple(
                slot_view(slot_state, now, slow.get(slot_state.slot.name))
                for slot_state in self._slot_states.values()
                if slot_state.shown
            ),
            samples=tuple(
                structs.replace(sample, processes=strangers.owned(sample.processes, owners))
                if sample.processes
                else sample
                for sample in self._samples.shown(now)
            ),
            nvml_error=self._nvml_error,
            notes=tuple(self._notes.values()),
            clients=self.clients,
            queue=self._scheduler.queue(),
            tuning=self._scheduler.tuning(),
            groups=self._scheduler.groups(),
            nodes=self.fleet.views(now) if self.fleet is not None else (),
            allocation=self._allocation.newest,
            occurred=self._recorder.occurrences.newest,
        )

    def _slow(self) -> dict[str, float]:
        """The slots that run, or finished, below the median of those with the same arguments, and how far, per cent."""
        telling = (
            worker
            for worker in self._workers
            if not worker.carried  # its own lines say less than rank 0's, which are of the whole group
            and (
                worker.state is WorkerState.FINISHED or (worker.state is WorkerState.RUNNING and worker.fps is not None)
            )
        )
        return self._tried.slow((one for worker in telling if (one := ran(worker)) is not None), self._models)

    def tried(self) -> TriedView:
        """All that was tried in this session."""
        attempts = [one for worker in self._workers if (one := ran(worker)) is not None]
        return self._tried.view((one for one in attempts if not one.attempt.state.ended), time.time())

    def _owners(self) -> dict[int, str]:
        """The slots of the workers' processes, by PID."""
        return {pid: worker.slot.name for worker in self._workers for pid in worker.pids}

    def recent(self) -> tuple[Series, ...]:
        """The last minutes of each worker."""
        return tuple(slot_state.history.recent(name) for name, slot_state in self._slot_states.items())

    def series(self, slot: str, start: float | None = None) -> Series:
        """A worker's metrics since `start` (Unix time), else over its whole life.

        Raises `GmgError` if there is no such slot.
        """
        history = self._slot_state(slot).history
        return history.whole(slot) if start is None else history.since(slot, start)

    async def details(self, slot: str) -> Details:
        """What a details screen shows. Raises `GmgError` if there is no such slot, or no job has run there."""
        slot_state = self._slot_state(slot)
        worker = (slot_state.lead or slot_state).worker
        if worker is None:
            raise GmgError(f"no job has run on {slot} yet", 1)
        found = await worker.details()
        sample = self._sample_of(worker)
        if sample is None or sample.processes is None or self.fleet is not None:
            return found
        described = await in_daemon_thread(strangers.described, sample.processes)
        return structs.replace(found, processes=strangers.owned(described, self._owners()))

    async def stacks(self, slot: str) -> tuple[Stacks, ...]:
        """The Python stacks of the worker on a slot, or of all ranks of its group, which are asked at once.

        Raises `GmgError` if there is no such slot, or no job has run there.
        """
        self._slot_state(slot)
        found = (self._slot_state(each).worker for each in self._scheduler.together(slot))
        workers = [worker for worker in found if worker is not None]
        if not workers:
            raise GmgError(f"no job has run on {slot} yet", 1)
        return tuple(await asyncio.gather(*(worker.stacks() for worker in workers)))

    # Commands

    def act(self, action: Action, slots: tuple[str, ...], seen: Mapping[str, Seen]) -> None:
        """Act on workers.

        Raises:
            GmgError: There is no such slot, the session is ending, or a slot has something else than was `seen`, and is
                left alone.
        """
        others = self._others(slots, seen)
        if action is Action.RESTART:
            self._check_open()
        for slot in self._together(slot for slot in slots if slot not in others):
            if action is Action.RESTART:
                self._scheduler.restart(slot)
            else:
                self._scheduler.stop(slot, kill=action is Action.KILL)
        meant.tell(others)

    def edit(
        self, slots: tuple[str, ...], args: tuple[str, ...], env: dict[str, str], seen: Mapping[str, Seen]
    ) -> None:
        """Restart workers with other arguments. Raises `GmgError` as `act` does, and for a job that has ended."""
        self._check_open()
        if self.session.spec.tune is not None:
            raise GmgError("the trials of a tuning keep their arguments; start a plain run to change them", 1)
        others = self._others(slots, seen)
        left = self._together(slot for slot in slots if slot not in others)
        workers = [(slot, self._slot_state(slot).worker) for slot in left]
        for slot, worker in workers:
            if worker is None or (worker.task.job is not None and worker.state.ended):
                raise GmgError(f"no job runs on {slot}", 1)
        for _, worker in workers:
            if worker is not None:
                worker.edit(args, env)
        meant.tell(others)

    def _together(self, slots: Iterable[str]) -> tuple[str, ...]:
        """These slots, and all others of the groups whose ranks are on them, each once."""
        return tuple(dict.fromkeys(each for slot in slots for each in self._scheduler.together(slot)))

    def _others(self, slots: Iterable[str], seen: Mapping[str, Seen]) -> dict[str, str]:
        """What runs on slots instead of what the user saw there, in one line each."""
        found = {slot: meant.other(self._slot_state(slot), seen.get(slot)) for slot in slots}
        return {slot: other for slot, other in found.items() if other is not None}

    async def end_process(self, slot: str, seen: GpuProcess, *, kill: bool = False) -> None:
        """End a process on the slot's GPU that does not belong to this session, if it is still the one that was `seen`.

        Raises:
            GmgError: It is not there, is another one by now, is another user's, or belongs to a worker.
        """
        processes = (await self.details(slot)).processes or ()
        found = next((process for process in processes if process.pid == seen.pid), None)
        if found is None:
            raise GmgError(f"process {seen.pid} is no longer on {slot}'s GPU", 1)
        if found.slot is not None:
            raise GmgError(f"process {seen.pid} is {found.slot}'s worker, which is stopped as a worker", 1)
        if self.fleet is not None:
            await self.fleet.node(self._slot_state(slot).slot).end_process(slot, seen, kill=kill)
            return
        await in_daemon_thread(strangers.end, seen, signal.SIGKILL if kill else signal.SIGTERM)

    def end(self, *, kill: bool = False, reason: str | None = None) -> None:
        """Stop all workers, for good; `reason` says why if it was not the user."""
        self._ending = True
        if reason is not None:
            self.note("end", reason)
        self._scheduler.end(kill=kill, reason=reason)

    def pass_on(self, number: signal.Signals) -> None:
        """Send a signal to the workers' first processes, on which some scripts save their state."""
        now = time.monotonic()
        if now < self._passed_on.get(number, 0.0) + _PASS_ON_S:
            return
        self._passed_on[number] = now
        told = [worker.slot.name for worker in self._workers if worker.pass_on(number)]
        said = f"passed on to {', '.join(told)}" if told else "no worker handles it"
        self.note(number.name, f"{number.name} received at {time.strftime('%H:%M:%S')}: {said}")

    def queue_view(self, first: int, count: int) -> QueueView:
        """A part of the queue. Raises `GmgError` in a plain run."""
        return self._scheduler.view(first, count)

    def act_on_jobs(self, action: QueueAction, numbers: tuple[int, ...]) -> None:
        """Act on jobs of the queue. Raises `GmgError` if there is no queue, or no such job."""
        self._scheduler.act(action, numbers)

    def use_slot(self, slot: str, *, used: bool) -> None:
        """Enable a slot for jobs, or disable it. Raises `GmgError` in a plain run."""
        self._scheduler.use(slot, used=used)

    def _check_open(self) -> None:
        if self._ending:
            raise GmgError("the session is being stopped; start another one", 1)

    def _slot_state(self, slot: str) -> SlotState:
        slot_state = self._slot_states.get(slot)
        if slot_state is None:
            raise GmgError(f"no slot {slot}; there are {', '.join(self._slot_states)}", 1)
        return slot_state

    def note(self, subject: str, text: str | None) -> None:
        """Show a note about the session itself on all screens, or (None) remove it."""
        if text is None:
            self._notes.pop(subject, None)
        elif self._notes.get(subject) != text:
            self._notes[subject] = text
            _log.warning("%s", text)
