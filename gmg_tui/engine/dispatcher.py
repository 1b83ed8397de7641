"""The crew of a sweep: gives the jobs of the queue to the slots, one at a time to each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from gmg_tui import session as sessions
from gmg_tui.engine import reported, vacancy
from gmg_tui.engine.aside import aside
from gmg_tui.engine.card_memory import CardMemory
from gmg_tui.engine.launch import Launcher
from gmg_tui.engine.place import Place
from gmg_tui.engine.queue import JobQueue
from gmg_tui.engine.recorder import Recorder
from gmg_tui.engine.task import Task
from gmg_tui.engine.worker import Worker
from gmg_tui.errors import GmgError
from gmg_tui.genesis.phase_times import PhaseTimes
from gmg_tui.model import GpuReading, Group, JobRecord, Lane, Queue, QueueAction, QueueView, WorkerState

_log = logging.getLogger(__name__)

_MOST_RECORDS = 500
"""In one answer."""
_UNREADY_S = 5.0
"""How long a slot is left alone whose card is silent, or whose job finds the disk full."""
_INTERRUPTED = "interrupted: the session was stopped"


class Dispatcher:
    """Runs the jobs of a queue.

    Args:
        places: The slots, by name.
        allowed: For each group, the names of the slots that its jobs may use.
        queue: The jobs.
        launcher: Makes the attempts.
        phase_times: How long the phases of a group's script take.
        recorder: Hears of everything.
        changed: Called when something that is shown has changed.
        before_s: How long the sweep was at work before it was resumed, seconds.
    """

    def __init__(
        self,
        places: Mapping[str, Place],
        allowed: tuple[frozenset[str], ...],
        queue: JobQueue,
        launcher: Launcher,
        phase_times: Callable[[Group], PhaseTimes],
        recorder: Recorder,
        changed: Callable[[], None],
        before_s: float,
    ) -> None:
        self._places = places
        self._allowed = allowed
        self._queue = queue
        self._groups = queue.groups
        self._launcher = launcher
        self._phase_times = phase_times
        self._recorder = recorder
        self._changed = changed
        self._before_s = before_s
        self._wake = asyncio.Event()
        self._jobs: dict[str, int] = {}
        """Numbers of the jobs that hold slots, by slot."""
        self._said: dict[str, bool] = {}
        """Whether a person wants jobs on a slot, where one has said so."""
        self._to_stop: set[str] = set()
        """Slots whose job a person has stopped, rather than the whole session."""
        self._readings: Mapping[str, GpuReading] = {}
        self._nvml_error: str | None = None
        self._unready: dict[str, str] = {}
        """Slots where nothing can be started for a while, and why."""
        self._ending = False
        self._look()

    # Its life

    @property
    def ended(self) -> bool:
        """Whether no job holds a slot and none will."""
        return not self._jobs and (self._ending or self._queue.waiting == 0)

    async def run(self) -> None:
        """Give jobs to slots until cancelled; whatever runs then is killed."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._wake.clear()
                for place in self._places.values():
                    record = self._next_for(place)
                    if record is not None:
                        self._jobs[place.slot.name] = record.number
                        taken = self._queue.take(record.number)
                        tasks.create_task(self._occupy(place, taken), name=place.slot.name)
                self._look()
                self._changed()
                await self._wake.wait()

    def _look(self) -> None:
        """Say of each slot whether it is shown and, where no job holds it, what it waits for."""
        for name, place in self._places.items():
            place.shown = name in self._jobs or self._used(name)
            place.over = self._ending or not self._queue.waiting
            if name not in self._jobs:
                place.waits = self._why_idle(place)

    def _used(self, slot: str) -> bool:
        """Whether jobs of the present group may start on a slot."""
        return self._said.get(slot, slot in self._allowed[self._queue.group])

    def _next_for(self, place: Place) -> JobRecord | None:
        """The job that can start on a slot at this moment."""
        if place.slot.name in self._jobs or not self._used(place.slot.name) or self._why_idle(place) is not None:
            return None
        return self._queue.head()

    def _why_idle(self, place: Place) -> str | None:
        """Why the next job does not start on a slot that none holds; None when it can."""
        if self._ending:
            return "the session is being stopped"
        head = self._queue.head()
        if head is None:
            return "for the jobs of the preset before" if self._queue.waiting else "no job is left"
        if place.slot.name in self._unready:
            return f"for a while: {self._unready[place.slot.name]}"
        gpu = place.slot.gpu
        if gpu is None:
            return None
        return vacancy.why_not(
            self._groups[head.group],
            self._readings.get(gpu.uuid),
            self._nvml_error,
            [self._worker_of(other) for other in self._neighbours(place)],
            _memory(place),
        )

    def _neighbours(self, place: Place) -> list[Place]:
        """The slots of the same card that jobs hold, but for `place` itself."""
        gpu = place.slot.gpu
        return [
            other
            for name, other in self._places.items()
            if other is not place and name in self._jobs and gpu is not None and _card(other) == gpu.uuid
        ]

    def _worker_of(self, place: Place) -> Worker | None:
        """The worker of the job that holds a slot; None while it has none yet."""
        worker = place.worker
        return worker if worker is not None and worker.task.job == self._jobs.get(place.slot.name) else None

    async def _occupy(self, place: Place, record: JobRecord) -> None:
        """Run a job on a slot, and give the slot back however that ends."""
        name = place.slot.name
        try:
            worker = self._worker(place, record)
            await self._work(place, worker)
            record = await self._outcome(place, worker)
        except Exception as error:  # a fault of ours must not take the other jobs along
            _log.exception("job %d on %s broke off", record.number, name)
            record = self._recorder.drop(name, record, f"gmg-tui: {type(error).__name__}: {error}")
        finally:
            self._to_stop.discard(name)
            del self._jobs[name]
            self._queue.give_back(record)
            self._wake.set()

    def _worker(self, place: Place, record: JobRecord) -> Worker:
        spec, group = self._launcher.spec, self._groups[record.group]
        log = record.log or f"{sessions.LOGS}/{record.number:04}-{record.name}.log"
        results = spec.sweep.results if spec.sweep is not None else None
        # A brace in a folder's name is no placeholder.
        parent = (results or str(Path(spec.folder) / sessions.JOBS)).replace("{", "{{").replace("}", "}}")
        task = Task.queued(
            spec,
            group,
            record,
            len(self._queue.records),
            out_dir=f"{parent}/{{slot}}_{{name}}",
            attempts=record.attempts,
        )
        held = self._recorder.hold(record, place.slot, log=log)
        self._queue.update(held)
        place.waits = None
        memory, card = _memory(place), _card(place)
        place.worker = Worker(
            place.slot,
            place.index,
            self._launcher,
            task,
            self._launcher.logs.open(Path(spec.folder) / log),
            place.ring,
            place.history,
            self._phase_times(group),
            self._recorder,
        )
        place.worker.reading = self._readings.get(card) if card is not None else None
        if memory is not None:
            place.worker.memory_kept = memory.still_taken(shared=bool(self._neighbours(place)))
        return place.worker

    async def _work(self, place: Place, worker: Worker) -> None:
        """Let the worker run until it has ended for good."""
        running = asyncio.create_task(worker.run(), name=place.slot.name)
        concluded = asyncio.create_task(worker.concluded.wait())
        try:
            await asyncio.wait([running, concluded], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (running, concluded):
                task.cancel()
            await asyncio.gather(running, concluded, return_exceptions=True)

    async def _outcome(self, place: Place, worker: Worker) -> JobRecord:
        """Record how a job has ended."""
        name = place.slot.name
        if worker.unready is not None:
            self._unready[name] = worker.unready
            asyncio.get_running_loop().call_later(_UNREADY_S, self._ready, name)
            return self._recorder.give_back(worker, state=WorkerState.WAITING, reason=None, ended=None)
        if self._ending and worker.state is WorkerState.STOPPED and name not in self._to_stop:
            return self._recorder.give_back(worker, state=WorkerState.WAITING, reason=_INTERRUPTED, ended=None)
        found = await aside(reported.read_file, Path(worker.out_dir)) if worker.out_dir is not None else {}
        return self._recorder.give_back(worker, found)

    def _ready(self, slot: str) -> None:
        """Try again on a slot where nothing could be started."""
        self._unready.pop(slot, None)
        self._wake.set()

    def take_readings(self, readings: Mapping[str, GpuReading], error: str | None) -> None:
        """Take what the cards have said, by UUID, or why they say nothing."""
        self._readings, self._nvml_error = readings, error
        if self._queue.waiting:
            self._wake.set()

    # What it shows

    def queue(self) -> Queue:
        """How far the jobs are."""
        queue, held = self._queue, self._held_s()
        return Queue(
            waiting=queue.waiting,
            running=queue.holding,
            finished=queue.ended(WorkerState.FINISHED),
            failed=queue.ended(WorkerState.FAILED),
            stopped=queue.ended(WorkerState.STOPPED),
            version=queue.version,
            group=self._groups[queue.group].name,
            eta_s=None if self._ending else queue.eta_s(held, sum(1 for place in self._places.values() if place.shown)),
            busy_s=queue.busy_s + sum(held.values()),
            before_s=self._before_s,
            ended=self.ended,
        )

    def _held_s(self) -> dict[int, float]:
        return {held[0].number: held[1] for name in self._jobs if (held := self._recorder.held(name)) is not None}

    def view(self, first: int, count: int) -> QueueView:
        """A part of the queue, at most 500 jobs of it."""
        order = self._queue.order()
        first = max(0, min(first, len(order)))
        numbers = order[first : first + max(0, min(count, _MOST_RECORDS))]
        live = {held[0].number: held[0] for name in self._jobs if (held := self._recorder.held(name)) is not None}
        return QueueView(
            version=self._queue.version,
            first=first,
            total=len(order),
            jobs=tuple(live.get(number, self._queue.records[number]) for number in numbers),
            lanes=tuple(
                Lane(name, used=self._used(name), job=self._jobs.get(name), waits=place.waits)
                for name, place in self._places.items()
            ),
            groups=tuple(group.name for group in self._groups),
        )

    # What it is told

    def act(self, action: QueueAction, numbers: tuple[int, ...]) -> None:
        """Do something to jobs. Raises `GmgError` when it cannot be done to one of them."""
        if self._ending:
            raise GmgError("the session is being stopped; `gmg-tui sweep --resume` goes on with it", 1)
        slots = {number: slot for slot, number in self._jobs.items()}
        for number in numbers:
            if action is QueueAction.SKIP and number in slots:
                self.stop(slots[number], kill=False)
                continue
            for record in self._queue.act(action, number):
                self._recorder.keep(record)
            self._recorder.event(action.value, f"job {number}: {action.value}", job=number)
        self._wake.set()

    def use(self, slot: str, *, used: bool) -> None:
        """Let jobs start on a slot and its card's others, or not any more. Raises `GmgError` for an unknown slot."""
        place = self._places.get(slot)
        if place is None:
            raise GmgError(f"no slot {slot}; there are {', '.join(self._places)}", 1)
        card = _card(place)
        for name, other in self._places.items():
            if name == slot or (card is not None and _card(other) == card):
                self._said[name] = used
        self._queue.version += 1
        self._recorder.event("slot", f"{slot} is {'used' if used else 'not used any more'}", slot=slot)
        self._wake.set()

    def restart(self, slot: str) -> None:
        """Restart the job that holds a slot, or run the one again that ended there last."""
        worker = self._places[slot].worker
        if slot in self._jobs and worker is not None:
            worker.restart()
        elif worker is not None and worker.task.job is not None:
            self.act(QueueAction.RETRY, (worker.task.job,))
        else:
            raise GmgError(f"no job has run on {slot} yet", 1)

    def stop(self, slot: str, *, kill: bool) -> None:
        """Stop the job that holds a slot."""
        worker = self._places[slot].worker
        if slot in self._jobs and worker is not None:
            self._to_stop.add(slot)
            worker.stop(kill=kill)

    def end(self, *, kill: bool) -> None:
        """Stop all jobs, and start no others. Those that are stopped by this wait again when the sweep is resumed."""
        self._ending = True
        for name in self._jobs:
            worker = self._places[name].worker
            if worker is not None:
                worker.stop(kill=kill)
        self._look()
        self._wake.set()
        self._changed()


def _card(place: Place) -> str | None:
    """The UUID of a slot's card; None on the CPU."""
    return place.slot.gpu.uuid if place.slot.gpu is not None else None


def _memory(place: Place) -> CardMemory | None:
    """What the last attempt on a slot took of the card's memory; None where none has run."""
    attempt = place.worker.attempt if place.worker is not None else None
    return attempt.memory if attempt is not None else None
