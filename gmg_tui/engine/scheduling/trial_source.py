"""A tuning's trials as a source of jobs: each is chosen from the results so far."""

import logging
import os
import time
from pathlib import Path

import psutil
from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui.engine.hardware import Hardware
from gmg_tui.engine.records.recorder import Recorder
from gmg_tui.engine.scheduling.job_run import JobRun
from gmg_tui.engine.scheduling.queue_scheduler import QueueScheduler
from gmg_tui.engine.scheduling.trial_run import TrialRun
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.jobs.tune.search import Search
from gmg_tui.model import JobRecord, QueueAction, RunSpec, Trial, TrialKind, TrialState, TuneSpec, Tuning, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.results import tuning_text as tune_words
from gmg_tui.session.store.reader import open_store

_log = logging.getLogger(__name__)

_STOPPED = "the tuning was stopped"


def search_of(spec: RunSpec, tune: TuneSpec, hardware: Hardware) -> Search:
    """Returns a tuning's search, continued from the trials in the session's store. Raises `StoreError`."""
    with open_store(Path(spec.folder) / sessions.STORE) as stored:
        snapshot = stored.last_snapshot
    before = snapshot.tuning if snapshot is not None else None
    return Search(tune, hardware.slots, [trial for trial in before.trials if trial.state.ended] if before else ())


class TrialSource:
    """The job source of a tuning: adds the trials that `search` requests, and ends each once it is measured."""

    def __init__(self, search: Search, spec: RunSpec, scheduler: QueueScheduler, recorder: Recorder) -> None:
        assert spec.tune is not None
        self._search, self._run_spec, self._spec = search, spec, spec.tune
        self._scheduler, self._recorder = scheduler, recorder
        self._board, self._queue = scheduler.board, scheduler.board.queue
        self._earlier = len(search.trials)
        self._trial_runs: dict[int, TrialRun] = {}
        """Waiting and running trials, by job number."""
        self._planned_s: dict[str, float] = {}
        """When each slot's last trial was planned, in seconds of the tuning."""
        self._started = time.monotonic()
        self._stopped = False
        for number in [number for number, record in self._queue.records.items() if not record.state.ended]:
            # An earlier engine planned them; the search decides again.
            self._recorder.keep(self._queue.act(QueueAction.SKIP, number))

    # Jobs

    @property
    def ended(self) -> bool:
        """True if the search is over."""
        return self._search.ended

    def refill(self) -> None:
        """Adds trials for free slots."""
        if self._board.ending or self._search.ended:
            return
        free = {engine_slot.slot.name: engine_slot for engine_slot in self._board.open()}
        free_mib = {
            name: sample.memory_free_mib
            for name, engine_slot in free.items()
            if (sample := engine_slot.sample) is not None and sample.memory_free_mib is not None
        }
        for trial in self._search.plan(free.keys(), self._now_s, free_mib):
            self._planned_s[trial.slot] = self._now_s
            number = max(self._queue.records, default=0) + 1
            self._trial_runs[number] = TrialRun(structs.replace(trial, number=number), self._spec)
            self._add(number, trial.value, trial.slot)
        benched = self._board.benched()
        if not self._trial_runs and not self._search.ended and len(benched) == len(self._board.slots):
            self._search.stop("every GPU is benched")

    def _add(self, number: int, value: int, slot: str) -> None:
        name = f"{self._spec.variable}={value},{slot}"
        if any(record.name == name for record in self._queue.records.values()):
            name = f"{name},{number}"
        record = JobRecord(number, name, {self._spec.variable: value}, position=float(number), only=slot)
        self._queue.add(record)
        self._recorder.keep(record)

    @property
    def _now_s(self) -> float:
        """Duration of the tuning, including time before it was resumed."""
        return self._queue.before_s + time.monotonic() - self._started

    def released(self, record: JobRecord) -> None:
        """Passes an ended trial's result to the search."""
        run = self._trial_runs.get(record.number)
        if run is not None and record.state.ended:
            del self._trial_runs[record.number]
            failed = structs.replace(run.trial, state=TrialState.FAILED, reason=record.reason)
            self._report(run.trial if run.trial.state.ended else failed)

    def _report(self, trial: Trial) -> None:
        """Passes an ended trial to the search, unless the search's end cut it short: `--resume` repeats it."""
        if trial.state is TrialState.SKIPPED and (self._board.ending or self._search.ended):
            return
        self._search.add(trial)
        _log.info("trial %d: %s=%d on %s: %s", trial.number, self._spec.variable, trial.value, trial.slot, trial.state)

    def outcome(self, run: JobRun) -> tuple[WorkerState, str | None] | None:
        """Returns a trial's final state, and the reason."""
        trial_run, worker, (engine_slot,) = self._trial_runs.get(run.number), run.lead, run.engine_slots
        if trial_run is None:
            return None
        lost = "its GPU is lost" if engine_slot.sample is not None and engine_slot.sample.lost else None
        skipped = _STOPPED if self._search.ended and not trial_run.measured else lost
        trial = trial_run.conclude(worker, skipped=skipped)
        if trial.state is TrialState.FAILED and self._is_untunable(worker, trial_run):
            self._stop_search(trial.reason or "the script cannot be tuned")
        return _STATES[trial.state], trial.reason

    def _is_untunable(self, worker: Worker, run: TrialRun) -> bool:
        """Returns True if a failure means that the script cannot be tuned, not that the value is too large."""
        measured = any(trial.state is TrialState.MEASURED for trial in self._search.trials)
        ended = worker.state is WorkerState.FINISHED and run.trial.value == self._spec.low and not measured
        return run.ignores_value is not None or ended

    # Measuring

    def beat(self) -> None:
        """Measures running trials, and ends those that are precise enough."""
        if self._spec.budget_s is not None and self._now_s >= self._spec.budget_s and not self._search.ended:
            self._stop_search("the budget is used up")
        running = self._running_trials()
        together = [run for run, _ in running if run.trial.kind is TrialKind.TOGETHER]
        runs = {run.trial.number for run, worker in running if worker.state is WorkerState.RUNNING}
        expected = sum(run.trial.kind is TrialKind.TOGETHER for run in self._trial_runs.values())
        all_measure = len(together) == expected and all(run.measures and run.trial.number in runs for run in together)
        other_cores = self._other_cores()
        for run, worker in running:
            run.check(worker, counts=all_measure or run not in together, other_cores=other_cores)
        all_measured = all_measure and all(run.measured for run in together)
        for run, worker in running:
            done = all_measured if run in together else run.measured
            if worker.state.live and worker.state is not WorkerState.STOPPING and (done or run.ignores_value):
                worker.stop(reason="measured" if done else run.ignores_value, is_done=done)
        self._skip_unused()
        if not self._search.ended and any(self._board.open()):
            self._scheduler.wake()  # the search may wait for a slot that is gone

    def _other_cores(self) -> float | None:
        """Returns the cores busy since the last call, excluding workers; None with workers on other machines."""
        if self._run_spec.nodes is not None:
            return None
        now, all_pct = time.monotonic(), float(psutil.cpu_percent()) * (os.cpu_count() or 1)
        own_pct = sum(engine_slot.view(now).cpu_pct or 0.0 for engine_slot in self._board.slots.values())
        return max(0.0, all_pct - own_pct) / 100

    def _running_trials(self) -> list[tuple[TrialRun, Worker]]:
        """Returns the running trials and their workers."""
        runs = ((self._trial_runs.get(number), run.lead) for number, run in self._scheduler.runs.items())
        return [(trial_run, worker) for trial_run, worker in runs if trial_run is not None]

    def _skip_unused(self) -> None:
        """Skips trials that wait for a slot no longer in use, or on a lost node."""
        benched = self._board.benched()
        for number in self._waiting():
            slot = self._trial_runs[number].trial.slot
            if slot in benched or not self._board.used(slot):
                self._skip(number, "its slot is no longer used")
            elif self._board.slots[slot].away is not None:
                self._skip(number, "its node is lost")

    def _waiting(self) -> list[int]:
        """Returns the numbers of waiting trials."""
        return [number for number in self._trial_runs if number not in self._scheduler.runs]

    def _skip(self, number: int, reason: str) -> None:
        """Skips a waiting trial."""
        self._recorder.keep(self._queue.act(QueueAction.SKIP, number))
        self._report(structs.replace(self._trial_runs.pop(number).trial, state=TrialState.SKIPPED, reason=reason))
        self._scheduler.wake()

    def tuning(self) -> Tuning:
        """Returns the tuning as clients see it."""
        running = {run.trial.number: run.so_far(worker) for run, worker in self._running_trials()}
        trials = [running.get(number) or run.trial for number, run in self._trial_runs.items()]
        answer = self._search.answer()
        chosen, spec = answer.recommended, self._run_spec
        started_s = {trial.slot: self._planned_s[trial.slot] for trial in running.values()}
        return Tuning(
            spec=self._spec,
            step=self._search.step,
            trials=(*map(self._search.with_margin, self._search.trials), *trials),
            answer=answer,
            eta_s=self._search.eta_s(started_s, self._now_s),
            ended=self._search.ended,
            stopped=self._stopped,
            command=tune_words.command(spec, self._spec.variable, chosen.value) if chosen is not None else (),
            earlier=self._earlier,
            reached=self._search.reached,
            expected=self._search.expected(),
        )

    # Commands

    def act(self, action: QueueAction, number: int) -> bool:
        """Skips a waiting trial; the queue stops running ones. Raises `GmgError` for other actions."""
        if action not in {QueueAction.SKIP, QueueAction.STOP}:
            raise GmgError("the search decides which trials run; a trial can be skipped", 1)
        if action is QueueAction.STOP or number not in self._waiting():
            return False
        self._skip(number, "skipped by the user")
        return True

    def end(self, reason: str | None) -> None:
        """Ends the search with the answer so far."""
        if not self._search.ended:
            self._stopped = True
            self._search.stop(reason or _STOPPED)

    def _stop_search(self, why: str) -> None:
        """Starts no more trials, and stops running ones."""
        self._search.stop(why)
        for number in self._waiting():
            self._skip(number, why)
        for _, worker in self._running_trials():
            worker.stop(reason=why)
        self._scheduler.wake()


_STATES = {
    TrialState.MEASURED: WorkerState.FINISHED,
    TrialState.FAILED: WorkerState.FAILED,
    TrialState.SKIPPED: WorkerState.STOPPED,
}
