"""The scheduler of a queue: assigns the jobs of a sweep, or the trials of a tuning run, to slots."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ParamSpec

from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui.engine.attempts.attempt import Outcome, Stop, Task
from gmg_tui.engine.records.recorder import Recorder, origin_of
from gmg_tui.engine.scheduling.packing import Packing, crowding
from gmg_tui.engine.scheduling.scheduler import JobRun
from gmg_tui.engine.scheduling.slot_board import SlotBoard
from gmg_tui.engine.workers.restart_policy import HEALTHY_S
from gmg_tui.engine.workers.slot import EngineSlot
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.machine.gpu.free import FreeGpus
from gmg_tui.model import JobRecord, Queue, QueueAction, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.model.jobs import LEFT_BEHIND
from gmg_tui.scripts.checkpoints import before_nan
from gmg_tui.scripts.genesis.output.failures import FailureKind

if TYPE_CHECKING:
    from gmg_tui.engine.attempts.attempt import Workplace
    from gmg_tui.engine.scheduling.trial_source import TrialSource

_log = logging.getLogger(__name__)
_P = ParamSpec("_P")

_MAX_TRIAL_HOLD_S = 20.0
"""A trial whose slot could not start it is held back for up to this long; then the search goes on without it."""
_COLLECT_INTERVAL_S = 2.0
"""Interval between checks for GPUs that others have stopped using."""


class QueueScheduler:
    """Runs the jobs of the board's queue; `changed` is called when the display must change.

    Attributes:
        runs: The jobs that occupy slots, by number.
        source: Adds a tuning's trials as results arrive; None for a sweep.
        packing: Compares several jobs on a GPU with one; None without `--per-gpu`.
    """

    def __init__(self, board: SlotBoard, workplace: Workplace, recorder: Recorder, changed: Callable[[], None]) -> None:
        self.board, self._queue, self._slots = board, board.queue, board.slots
        self.runs: dict[int, JobRun] = {}
        self.source: TrialSource | None = None
        self.packing: Packing | None = None
        self._workplace, self._recorder, self._changed = workplace, recorder, changed
        self._wake = asyncio.Event()
        self._jobs = board.jobs
        self._tasks: set[asyncio.Task[None]] = set()
        self._interrupt_reason = "interrupted: the session was stopped"
        board.update()

    # Lifecycle

    @property
    def ended(self) -> bool:
        """True if no job occupies a slot or ever will."""
        if self._jobs or not (self.board.ending or self._queue.waiting == 0 or self.board.stranded):
            return False
        return self.source is None or self.source.ended or self.board.ending

    def wake(self) -> None:
        """Triggers a search for jobs that can start."""
        self._wake.set()

    async def run(self) -> None:
        """Assigns jobs to slots until cancelled; cancelling kills running jobs."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._wake.clear()
                if self.source is not None:
                    self._guard_search(self.source.refill)
                if self._queue.waiting and any(engine_slot.drained for engine_slot in self._slots.values()):
                    self.board.update()
                    self._changed()  # leases the GPUs that are needed again
                for run in self._assign_slots():
                    tasks.create_task(self._run_job(run), name=f"job {run.number}")
                self.board.update()
                self._changed()
                await self._wake.wait()

    def _assign_slots(self) -> Iterator[JobRun]:
        """Yields a run for each job that can start now; each run leaves less memory for the next job."""
        while (next_job := self.board.next()).job is not None and not next_job.missing:
            self._jobs |= dict.fromkeys(next_job.slots, next_job.job)
            record = self._queue.occupy(next_job.job)
            # Create the run now: until then, commands reach the slots' previous workers.
            run = self._make_run(record, [self._slots[slot] for slot in next_job.slots])
            self.runs[run.number] = run
            yield run

    def _free(self, record: JobRecord, slots: Iterable[str]) -> None:
        if self.source is not None:
            self._guard_search(self.source.released, record)
        run = self.runs.pop(record.number, None)
        for slot in slots:
            del self._jobs[slot]
        self._queue.release(record)
        if run is not None and run.rerun_requested and record.state.ended and not self.board.ending:
            self.act(QueueAction.RETRY, (record.number,))
        self._wake.set()

    def _guard_search(self, function: Callable[_P, None], *args: _P.args, **kwargs: _P.kwargs) -> None:
        """Calls a function of the job source. If it raises, the search ends with its current answer; the engine keeps running."""
        try:
            function(*args, **kwargs)
        except Exception as error:
            _log.exception("the search ends because of an internal error")
            assert self.source is not None
            self.source.end(f"internal error ({type(error).__name__}: {error}); see engine.log")

    def _make_run(self, record: JobRecord, engine_slots: Sequence[EngineSlot]) -> JobRun:
        record = structs.replace(record, group=f"g{record.number}" if record.world_size is not None else record.group)
        log = sessions.job_log(record)
        logs = [f"{log.removesuffix('.log')}.rank{rank}.log" if rank else log for rank in range(len(engine_slots))]
        slots, records = tuple(engine_slot.slot for engine_slot in engine_slots), self._queue.records
        task = Task.of_job(self._workplace.spec, record, len(records), slots if record.width > 1 else ())
        nodes, recorder = {slot.node for slot in slots}, self._recorder
        task = task.without_others_files(origin_of(record, records), nodes, lambda: recorder.reported_files(records))
        tasks = [replace(task, log=log) for log in logs]
        run = JobRun(record.number, engine_slots, tasks, self._workplace, recorder, record.group)
        self._queue.update(recorder.occupy(record, run.workers))
        return run

    async def _run_job(self, run: JobRun) -> None:
        """Runs a job on its slots, and always frees them."""
        record = self._queue.records[run.number]
        try:
            await run.run()
            record = self._release(run)
        except Exception as error:  # an internal error must not affect the other jobs
            _log.exception("job %d on %s failed because of an internal error", run.number, run.slots[0])
            reason = f"internal error ({type(error).__name__}: {error}); see engine.log"
            record = self._recorder.fail(run.slots[0], record, reason)
        finally:
            try:
                if run.edited_as is not None:
                    self._recorder.write(self._queue.add_next(run.edited_as, before_nan(record.last)))
            finally:
                self._free(record, run.slots)

    def _release(self, run: JobRun) -> JobRecord:
        """Releases a run that has ended. Returns the job's record, waiting again if the job has to rerun."""
        lead, waiting, unready = run.lead, WorkerState.WAITING, self._unready(run)
        if unready is not None:
            worker, reason = unready
            end = worker.outcome or Outcome()
            was_healthy = end.running_s >= HEALTHY_S
            is_of_machine = end.failure is not None and end.failure.kind is FailureKind.MACHINE
            self.board.pause(worker.slot.name, reason, was_healthy=was_healthy, whole_node=is_of_machine)
            unused = {"reserved": 0} if is_of_machine else {}  # the attempt's number, as it got no process
            hold_s = self.board.hold(run.number, reason, was_healthy=was_healthy)
            if hold_s > _MAX_TRIAL_HOLD_S and self.source is not None:
                unready = None  # the search need not wait for this slot
        if unready is not None and not run.stopped and (self.source is None or not self.source.ended):
            return self._recorder.release(lead, state=waiting, reason=None, ended=None, **unused)
        if self.source is not None and (outcome := self.source.outcome(run)) is not None:
            return self._recorder.release(lead, state=outcome[0], reason=outcome[1])
        stopped, ended_well = run.stopped_worker, lead.state in {WorkerState.STOPPED, WorkerState.FINISHED}
        if stopped is not None and ended_well:
            if run.interrupted and not run.stopped:
                reason = LEFT_BEHIND if any(slot.away for slot in run.engine_slots) else self._interrupt_reason
                return self._recorder.release(lead, state=waiting, reason=reason, ended=None)
            return self._recorder.release(lead, state=stopped.state, reason=stopped.reason)
        requeue_reason = self._requeue(run) if not run.stopped else None
        if requeue_reason is not None:
            first = self._queue.front_position  # its next run shows whether the GPU is the cause
            return self._recorder.release(lead, state=waiting, reason=requeue_reason, ended=None, position=first)
        cause = run.group.cause if run.group is not None and lead.state is WorkerState.FAILED else None
        return self._recorder.release(lead, **({} if cause is None else {"reason": cause}))

    def _unready(self, run: JobRun) -> tuple[Worker, str] | None:
        """Returns a worker of the run whose slot was not ready for it, and the reason; None if there is none."""
        for engine_slot, worker in zip(run.engine_slots, run.workers, strict=True):
            reason = worker.unready or (crowding(engine_slot, worker) if self.source is None else None)
            if reason is not None and self.board.may_repeat(worker):
                return worker, reason
        return None

    def _requeue(self, run: JobRun) -> str | None:
        """Requeues earlier jobs that failed on a GPU of the run. Returns the reason if the run's own job must wait again, too."""
        for engine_slot, worker in zip(run.engine_slots, run.workers, strict=True):
            requeued, name = self.board.judge(engine_slot, worker), engine_slot.slot.name
            reason = f"failed on {name}, perhaps because of its GPU"
            for number in requeued[:-1]:
                if (record := self._queue.requeue(number, reason)) is not None:
                    self._recorder.write(record)
            if requeued:
                return reason
        return None

    def check_gpus(self, nvml_error: str | None) -> None:
        """Benches GPUs whose newest samples show that they are broken; `nvml_error` is why there are no samples."""
        self.board.check_gpus(nvml_error, time.monotonic())

    def beat(self) -> None:
        """Called every second: checks suspected GPUs, logs benched ones, and measures trials and packing."""
        self.board.review(worker for run in self.runs.values() for worker in run.workers)
        for name, reason in self.board.newly_benched().items():
            self._queue.version += 1
            _log.warning("%s is benched: %s", name, reason)
        if self.source is not None:
            self.source.beat()
        if self.packing is not None:
            self.packing.sample(self._slots.values(), time.monotonic())
        if self._queue.waiting:  # a pause may have ended, or a GPU answers
            self._wake.set()

    async def collect(self, gpus: FreeGpus, wait_s: float) -> None:
        """Opens slots as their GPUs become free; benches GPUs that are still in use after `wait_s`."""
        deadline = time.monotonic() + wait_s
        while not gpus.complete and time.monotonic() < deadline:
            if self.board.set_awaited(await in_daemon_thread(gpus.acquire)):
                self._queue.version += 1
                self._wake.set()
            await asyncio.sleep(_COLLECT_INTERVAL_S)
        if not gpus.complete:
            self.board.bench_awaited(wait_s)
            self._wake.set()

    # State

    @property
    def job_runs(self) -> Iterable[JobRun]:
        """The jobs that occupy slots."""
        return self.runs.values()

    def queue(self) -> Queue:
        """Returns the progress of the jobs."""
        queue = self._queue
        occupied_s = {record.number: seconds for record, seconds in self._occupants()}
        return Queue(
            waiting=queue.waiting,
            running=queue.running,
            finished=queue.count_ended(WorkerState.FINISHED),
            failed=queue.count_ended(WorkerState.FAILED),
            stopped=queue.count_ended(WorkerState.STOPPED),
            version=queue.version,
            eta_s=None if self.board.ending else queue.eta_s(occupied_s, self.board.lanes),
            before_s=queue.before_s,
            ended=self.ended,
            benched=self.board.benched(),
            stranded=not self._jobs and not self.board.ending and self.board.stranded,
        )

    def _occupants(self) -> list[tuple[JobRecord, float]]:
        """Returns the jobs that occupy slots, with the seconds since each got them."""
        return [found for run in self.runs.values() if (found := self._recorder.occupant(run.slots[0])) is not None]

    def view(self, first: int, count: int) -> tuple[JobRecord, ...]:
        """Returns up to `count` jobs of the queue, from index `first` on."""
        numbers = self._queue.ordered_numbers()[max(0, first) :][: max(0, count)]
        live = {record.number: record for record, _ in self._occupants()}
        return tuple(self._displayed(live.get(number, self._queue.records[number])) for number in numbers)

    def _displayed(self, record: JobRecord) -> JobRecord:
        """Returns a record as clients see it, without results and the last attempt's arguments and environment."""
        last = structs.replace(record.last.brief(), args=(), given=(), env={})
        reason = self.board.wait_reason(record.number) or record.reason
        return structs.replace(record, result={}, last=last, reason=reason)

    # Commands

    def act(self, action: QueueAction, numbers: tuple[int, ...]) -> None:
        """Applies an action to each job independently. Raises `GmgError` with the reasons of all refusals."""
        refused = []
        for number in numbers:
            try:
                self._act_on(action, number)
            except GmgError as error:
                refused.append(str(error))
        self._wake.set()
        if refused:
            raise GmgError("; ".join(dict.fromkeys(refused)), 1)

    def _check_open(self) -> None:
        if self.board.ending:
            raise GmgError("the session is being stopped; continue it with --resume", 1)

    def _act_on(self, action: QueueAction, number: int) -> None:
        self._check_open()
        if self.source is not None and self.source.act(action, number):
            return
        if action is QueueAction.STOP and number in self.runs:
            self._stop(self.runs[number], Stop())
            return
        self._recorder.write(self._queue.act(action, number))

    async def add(self, jobs: Sequence[JobRecord]) -> None:
        """Appends jobs to the store and the queue, all or none. Raises `GmgError` if that is not possible."""
        self._check_open()
        if self.source is not None:
            raise GmgError("a tuning run chooses its own trials; start a sweep to queue jobs", 1)
        await asyncio.shield(self._keep(self._append(self._queue.reserve(jobs, len(self._slots)))))

    async def _append(self, reserved: list[JobRecord]) -> None:
        try:
            await self._recorder.save(reserved)
        except GmgError as error:
            self._queue.withdraw(reserved)
            raise GmgError(f"cannot add jobs: {error}", 1) from error
        for record in reserved:
            self._queue.add(record)
        self._wake.set()

    def use(self, slot: str, *, used: bool) -> None:
        """Enables or disables a slot, with all others on its GPU. Raises `GmgError` for an unknown slot."""
        self.board.use(slot, used=used)
        self._changed()  # leases or releases the GPU
        self._queue.version += 1
        self._wake.set()

    def edit(self, slot: str, args: tuple[str, ...], env: dict[str, str]) -> None:
        """Stops the job on a slot, and queues a copy with other arguments, once it has ended, as the next job.

        The old job keeps its results; the copy continues from its checkpoints. Raises `GmgError` if no job is running on the slot.
        """
        run = self.runs.get(self._jobs.get(slot, 0))
        if run is None or run.lead.state.ended:
            raise GmgError(f"no job is running on {slot}", 1)
        run.check_not_edited()
        self._recorder.check_store()
        edited = self._queue.reserve_edited(run.number, args, env, self._workplace.spec)
        self._recorder.write(edited)
        run.edited_as = edited.number
        self._stop(run, Stop(reason=f"edited: continues as job {edited.number}"))
        self._wake.set()

    def restart(self, slot: str) -> None:
        """Restarts the job that occupies a slot, or reruns the last one there. Raises `GmgError` if it has finished."""
        worker = self._slots[slot].worker
        if worker is None or worker.task.job is None:
            raise GmgError(f"no job has run on {slot} yet", 1)
        number = worker.task.job
        run = self.runs.get(number)
        if run is not None and worker not in run.workers:
            raise GmgError(f"job {number} is running on {run.slots[0]} now", 1)
        if run is not None:
            run.check_not_edited()
        if run is not None and not all(rank.state.ended for rank in run.workers):
            run.stopped = False  # the session's end may still interrupt it
            self._recorder.amend(worker, halted=False)
            worker.restart()
        elif worker.state is WorkerState.FINISHED:
            raise GmgError(f"job {number} has finished; run it again from the queue instead", 1)
        elif run is not None:  # its last output is being read
            if self.source is not None:
                self.source.act(QueueAction.RETRY, number)
            run.rerun_requested = True
        elif self._queue.records[number].state is not WorkerState.WAITING:  # not requeued through another rank
            self.act(QueueAction.RETRY, (number,))

    def stop(self, slot: str, *, kill: bool) -> None:
        """Stops the job that occupies a slot."""
        if (run := self.runs.get(self._jobs.get(slot, 0))) is not None:
            self._stop(run, Stop(kill=kill))

    def _stop(self, run: JobRun, stop: Stop) -> None:
        """Stops a job for the user; it stays stopped even if the engine is killed before the job ends."""
        run.stopped, run.rerun_requested = True, False
        self._recorder.amend(run.lead, halted=True)
        if stop.kill:
            run.stop(stop)
            return
        self._keep(self._stop_once_written(run, stop))

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _stop_once_written(self, run: JobRun, stop: Stop) -> None:
        await self._recorder.flush()
        if run.stopped:  # not restarted since
            run.stop(stop)

    def end(self, *, kill: bool, reason: str | None) -> None:
        """Stops all jobs, and starts no others. Interrupted jobs wait again when the sweep is resumed."""
        if self.source is not None:
            self.source.end(reason)
        self.board.ending = True
        self._interrupt_reason = f"interrupted: {reason}" if reason is not None else self._interrupt_reason
        for run in self.runs.values():
            run.interrupt(Stop(kill=kill, reason=reason))
        self.board.update()
        self._wake.set()
        self._changed()
