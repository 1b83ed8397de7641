"""The scheduler of a sweep: gives the jobs of the queue to the slots, one at a time to each."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from gmg_tui import session as sessions
from gmg_tui.engine.output import script_results
from gmg_tui.engine.records.recorder import Recorder
from gmg_tui.engine.scheduling.job_queue import JobQueue, shown
from gmg_tui.engine.scheduling.lanes import Lanes
from gmg_tui.engine.scheduling.scheduler import Scheduler
from gmg_tui.engine.workers.launch import Launcher
from gmg_tui.engine.workers.slot_state import SlotState
from gmg_tui.engine.workers.task import Task
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.errors import GmgError
from gmg_tui.genesis.phase_times import FindPhaseTimes
from gmg_tui.model import GpuSample, JobRecord, Queue, QueueAction, QueueView, WorkerState

_log = logging.getLogger(__name__)

_MOST_RECORDS = 500
"""In one answer."""
_UNREADY_S = 5.0
"""How long a slot is left alone after its GPU has not answered, or a job has found the disk full."""


class QueueScheduler(Scheduler):
    """Runs the jobs of a queue.

    `allowed` has the names of the slots that each batch's jobs may use; `before_s` is how long the sweep had run before
    it was resumed; `changed` is called when something that is displayed has changed.
    """

    def __init__(
        self,
        slot_states: Mapping[str, SlotState],
        allowed: tuple[frozenset[str], ...],
        queue: JobQueue,
        launcher: Launcher,
        phase_times: FindPhaseTimes,
        recorder: Recorder,
        changed: Callable[[], None],
        before_s: float,
    ) -> None:
        self._slot_states = slot_states
        self._queue = queue
        self._lanes = Lanes(slot_states, allowed, queue)
        self._launcher = launcher
        self._phase_times = phase_times
        self._recorder = recorder
        self._changed = changed
        self._before_s = before_s
        self._wake = asyncio.Event()
        self._jobs = self._lanes.jobs
        self._to_stop: set[str] = set()
        """Slots whose job the user has stopped, rather than the whole session."""
        self._again: set[str] = set()
        """Slots whose job has ended, and is run again once it has left."""
        self._bench = self._lanes.bench
        self._interrupted = "interrupted: the session was stopped"
        self._lanes.update()

    # Life

    @property
    def ended(self) -> bool:
        """Whether no job occupies a slot, and none will."""
        return not self._jobs and (self._lanes.ending or self._queue.waiting == 0 or self._lanes.stranded)

    async def run(self) -> None:
        """Assign jobs to slots until cancelled; whatever runs then is killed."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._wake.clear()
                self._refill()
                for slot_state in self._slot_states.values():
                    record = self._lanes.next_for(slot_state)
                    if record is not None:
                        worker = self._occupy(slot_state, record)
                        if worker is not None:
                            tasks.create_task(self._run_job(slot_state, worker), name=slot_state.slot.name)
                self._lanes.update()
                self._changed()
                await self._wake.wait()

    def _refill(self) -> None:
        """Put jobs into the queue that are decided only when slots are free for them; a sweep's all are known."""

    def _occupy(self, slot_state: SlotState, record: JobRecord) -> Worker | None:
        """Give a job a slot and, at once, a worker: commands must not reach the slot's previous one. None if that fails."""
        self._jobs[slot_state.slot.name] = record.number
        record = self._queue.take(record.number)
        try:
            return self._worker(slot_state, record)
        except Exception as error:
            self._free(slot_state, self._fault(slot_state, record, error))
            return None

    def _free(self, slot_state: SlotState, record: JobRecord) -> None:
        name = slot_state.slot.name
        again = name in self._again and record.state.ended and not self._lanes.ending
        for marked in (self._to_stop, self._again):
            marked.discard(name)
        del self._jobs[name]
        self._queue.release(record)
        if again:
            self.act(QueueAction.RETRY, (record.number,))
        self._wake.set()

    def _fault(self, slot_state: SlotState, record: JobRecord, error: Exception) -> JobRecord:
        """The record of a job that failed because of an internal error, which must not take down the other jobs."""
        name = slot_state.slot.name
        _log.error("job %d on %s failed because of an internal error", record.number, name, exc_info=error)
        return self._recorder.fail(name, record, f"gmg-tui: {type(error).__name__}: {error}")

    def _worker(self, slot_state: SlotState, record: JobRecord) -> Worker:
        spec, batch = self._launcher.spec, self._queue.batches[record.batch]
        log = record.log or f"{sessions.LOGS}/{record.number:04}-{record.name}.log"
        started = self._recorder.occupy(record, slot_state.slot, log=log)
        self._queue.update(started)
        slot_state.waits = None
        memory = slot_state.memory
        log_file = self._launcher.open_log(log)
        worker = Worker(
            slot_state.slot,
            self._launcher,
            Task.queued(spec, batch, record, len(self._queue.records)),
            log_file,
            slot_state.ring,
            self._phase_times,
            self._recorder,
        )
        slot_state.worker = worker
        worker.sample = self._lanes.sample(slot_state)
        if memory is not None:
            worker.memory_kept = memory.still_taken(shared=bool(self._lanes.neighbours(slot_state)))
        return worker

    async def _run_job(self, slot_state: SlotState, worker: Worker) -> None:
        """Run the job that has been given a slot, and free the slot however that ends."""
        record = self._queue.records[self._jobs[slot_state.slot.name]]
        try:
            await self._work(slot_state, worker)
            record = await self._outcome(slot_state, worker)
        except Exception as error:
            record = self._fault(slot_state, record, error)
        finally:
            self._free(slot_state, record)

    async def _work(self, slot_state: SlotState, worker: Worker) -> None:
        """Let the worker run until it has ended for good."""
        running = asyncio.create_task(worker.run(), name=slot_state.slot.name)
        concluded = asyncio.create_task(worker.concluded.wait())
        try:
            await asyncio.wait([running, concluded], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (running, concluded):
                task.cancel()
            await asyncio.gather(running, concluded, return_exceptions=True)

    async def _outcome(self, slot_state: SlotState, worker: Worker) -> JobRecord:
        """Record how a job has ended."""
        name = slot_state.slot.name
        if worker.unready is not None:
            self._lanes.unready[name] = worker.unready
            asyncio.get_running_loop().call_later(_UNREADY_S, self._ready, name)
            return self._recorder.release(worker, state=WorkerState.WAITING, reason=None, ended=None)
        if self._lanes.ending and worker.state is WorkerState.STOPPED and name not in self._to_stop:
            return self._recorder.release(worker, state=WorkerState.WAITING, reason=self._interrupted, ended=None)
        if self._requeue(slot_state, worker):
            end, why = self._queue.end_of(self._queue.records[self._jobs[name]].batch), _failed_on(name)
            return self._recorder.release(
                worker, state=WorkerState.WAITING, reason=why, ended=None, exit_code=None, position=end
            )
        if worker.out_dir is None:
            return self._recorder.release(worker)
        return self._recorder.release(worker, await script_results.in_folder(Path(worker.out_dir)))

    def _requeue(self, slot_state: SlotState, worker: Worker) -> bool:
        """Whether a job has failed because of its GPU and is to run again; so are those that failed there before it."""
        gpu = slot_state.gpu_uuid
        if gpu is None:
            return False
        back = self._bench.judge(gpu, worker, self._lanes.sample(slot_state))
        for number in back[:-1]:
            record = self._queue.requeue(number, _failed_on(slot_state.slot.name))
            if record is not None:
                self._recorder.keep(record)
        if back:
            self._tell_benched(slot_state)
        return bool(back)

    def _tell_benched(self, slot_state: SlotState) -> None:
        why, name = self._bench.why(slot_state.gpu_uuid), slot_state.slot.name
        if why is not None:
            self._queue.version += 1
            _log.warning("%s is benched: %s", name, why)
            self._recorder.event("bench", f"{name} is benched: {why}", slot=name)

    def _ready(self, slot: str) -> None:
        """Try again on a slot where nothing could be started."""
        self._lanes.unready.pop(slot, None)
        self._wake.set()

    def take_samples(self, samples: Mapping[str, GpuSample], error: str | None) -> None:
        """Take the latest samples, by UUID, or why there are none."""
        self._lanes.take_samples(samples, error)
        now = time.monotonic()
        for slot_state in self._slot_states.values():
            sample = self._lanes.sample(slot_state)
            if sample is not None and self._bench.look(sample, now):
                self._tell_benched(slot_state)
        if self._queue.waiting:
            self._wake.set()

    # State

    def queue(self) -> Queue:
        """How far the jobs are."""
        queue = self._queue
        occupied_s = {record.number: seconds for record, seconds in self._occupants()}
        benched = self._lanes.benched()
        lanes = sum(slot_state.shown and name not in benched for name, slot_state in self._slot_states.items())
        return Queue(
            waiting=queue.waiting,
            running=queue.occupying,
            finished=queue.ended(WorkerState.FINISHED),
            failed=queue.ended(WorkerState.FAILED),
            stopped=queue.ended(WorkerState.STOPPED),
            version=queue.version,
            batch=self._queue.batches[queue.batch].name,
            eta_s=None if self._lanes.ending else queue.eta_s(occupied_s, lanes),
            busy_s=queue.busy_s + sum(occupied_s.values()),
            before_s=self._before_s,
            ended=self.ended,
            benched=benched,
            stranded=not self._jobs and not self._lanes.ending and self._lanes.stranded,
        )

    def _occupants(self) -> list[tuple[JobRecord, float]]:
        """The jobs that occupy slots, each with for how many seconds it has."""
        return [job for name in self._jobs if (job := self._recorder.occupant(name)) is not None]

    def view(self, first: int, count: int) -> QueueView:
        """A part of the queue, at most 500 jobs of it."""
        order = self._queue.order()
        first = max(0, min(first, len(order)))
        numbers = order[first : first + max(0, min(count, _MOST_RECORDS))]
        live = {record.number: record for record, _ in self._occupants()}
        return QueueView(
            version=self._queue.version,
            first=first,
            total=len(order),
            jobs=tuple(shown(live.get(number, self._queue.records[number])) for number in numbers),
            lanes=self._lanes.views(),
            batches=tuple(batch.name for batch in self._queue.batches),
        )

    # Commands

    def act(self, action: QueueAction, numbers: tuple[int, ...]) -> None:
        """Act on jobs. Raises `GmgError` if that is not possible for one of them."""
        if self._lanes.ending:
            raise GmgError("the session is being stopped; --resume goes on with it", 1)
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
        """Enable a slot, and its GPU's others, for jobs, or disable them. Raises `GmgError` for an unknown slot."""
        self._lanes.use(slot, used=used)
        self._queue.version += 1
        self._recorder.event("slot", f"{slot} is {'used' if used else 'not used any more'}", slot=slot)
        self._wake.set()

    def restart(self, slot: str) -> None:
        """Restart the job that occupies a slot, or run the last one there again if it did not finish."""
        worker = self._slot_states[slot].worker
        if worker is None or worker.task.job is None:
            raise GmgError(f"no job has run on {slot} yet", 1)
        if slot in self._jobs and not worker.state.ended:
            worker.restart()
        elif worker.state is WorkerState.FINISHED:
            raise GmgError(f"job {worker.task.job} has finished; r in the queue runs it again", 1)
        elif slot in self._jobs:  # what it has reported is being read
            self._again.add(slot)
        else:
            self.act(QueueAction.RETRY, (worker.task.job,))

    def stop(self, slot: str, *, kill: bool) -> None:
        """Stop the job that occupies a slot."""
        worker = self._slot_states[slot].worker
        if slot in self._jobs and worker is not None:
            self._to_stop.add(slot)
            self._again.discard(slot)
            worker.stop(kill=kill)

    def end(self, *, kill: bool, reason: str | None) -> None:
        """Stop all jobs, and start no others. The stopped ones wait again when the sweep is resumed."""
        self._lanes.ending = True
        self._interrupted = f"interrupted: {reason}" if reason is not None else self._interrupted
        for name in self._jobs:
            worker = self._slot_states[name].worker
            if worker is not None:
                worker.stop(kill=kill, reason=reason)
        self._lanes.update()
        self._wake.set()
        self._changed()


def _failed_on(slot: str) -> str:
    return f"failed on {slot}, probably because of its GPU"
