"""The scheduler of a tuning: a queue whose jobs are trials, decided as results come."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui.engine.hardware import Hardware
from gmg_tui.engine.records.recorder import Recorder
from gmg_tui.engine.scheduling.queue_scheduler import JobRun, QueueScheduler
from gmg_tui.engine.scheduling.slot_board import SlotBoard
from gmg_tui.engine.scheduling.trial_run import TrialRun
from gmg_tui.engine.workers.slot import Workplace
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.jobs.tune.search import Search
from gmg_tui.model import JobRecord, QueueAction, RunSpec, Trial, TrialKind, TrialState, TuneSpec, Tuning, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.results import tuning_text as tune_words
from gmg_tui.session.store.reader import open_store

_log = logging.getLogger(__name__)

_MEASURED = "measured"
_STOPPED = "the tuning was stopped"


def search_of(spec: RunSpec, tune: TuneSpec, hardware: Hardware) -> Search:
    """The search of a tuning, which continues from the trials in the session's store. Raises `StoreError`."""
    with open_store(Path(spec.folder) / sessions.STORE) as stored:
        snapshot = stored.last_snapshot
    before = snapshot.tuning if snapshot is not None else None
    return Search(tune, hardware.slots, [trial for trial in before.trials if trial.state.ended] if before else ())


class TuneScheduler(QueueScheduler):
    """Runs the trials that `search` asks for, and ends each as soon as it is measured."""

    def __init__(
        self,
        board: SlotBoard,
        workplace: Workplace,
        recorder: Recorder,
        changed: Callable[[], None],
        search: Search,
    ) -> None:
        assert workplace.spec.tune is not None
        self._spec = workplace.spec.tune
        self._search = search
        self._earlier = len(search.trials)
        self._trial_runs: dict[int, TrialRun] = {}
        """The trials that wait or run, by their jobs' numbers."""
        self._planned_s: dict[str, float] = {}
        """When the last trial of each slot was planned, in seconds of the tuning."""
        self._started = time.monotonic()
        self._stopped = False
        super().__init__(board, workplace, recorder, changed)
        for number in [number for number, record in self._queue.records.items() if not record.state.ended]:
            # Of an earlier engine: the search decides anew.
            self._recorder.keep(self._queue.act(QueueAction.SKIP, number))

    # Life

    @property
    def ended(self) -> bool:
        """Whether nothing runs, and the search is over."""
        return super().ended and (self._search.ended or self._board.ending)

    def _refill(self) -> None:
        if self._board.ending or self._search.ended:
            return
        free = {engine_slot.slot.name: engine_slot for engine_slot in self._board.open()}
        free_mib = {
            name: sample.memory_free_mib
            for name, engine_slot in free.items()
            if (sample := self._board.sample(engine_slot)) is not None and sample.memory_free_mib is not None
        }
        for trial in self._search.plan(free.keys(), self._now_s, free_mib):
            self._planned_s[trial.slot] = self._now_s
            number = max(self._queue.records, default=0) + 1
            self._trial_runs[number] = TrialRun(structs.replace(trial, number=number), self._spec)
            self._add(number, trial.value, trial.slot)
        benched = self._board.benched()
        if not self._trial_runs and not self._search.ended and len(benched) == len(self._slots):
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
        """How long the tuning has gone on, with what it had before it was resumed."""
        return self._queue.before_s + time.monotonic() - self._started

    def _free(self, record: JobRecord, slots: Iterable[str]) -> None:
        run = self._trial_runs.get(record.number)
        if run is not None and record.state.ended:
            del self._trial_runs[record.number]
            failed = structs.replace(run.trial, state=TrialState.FAILED, reason=record.reason)
            self._take(run.trial if run.trial.state.ended else failed)
        super()._free(record, slots)

    def _take(self, trial: Trial) -> None:
        """Report to the search how a trial has ended; what its end cuts short does not count, and `--resume` runs it again."""
        if trial.state is TrialState.SKIPPED and (self._board.ending or self._search.ended):
            return
        self._search.take(trial)
        _log.info("trial %d: %s=%d on %s: %s", trial.number, self._spec.variable, trial.value, trial.slot, trial.state)

    def _outcome(self, run: JobRun) -> JobRecord:
        """Record how a trial has ended."""
        trial_run, worker, (engine_slot,) = self._trial_runs.get(run.number), run.lead, run.engine_slots
        if trial_run is None or worker.unready is not None:
            return super()._outcome(run)
        sample = self._board.sample(engine_slot)
        lost = "its GPU is lost" if sample is not None and sample.lost else None
        skipped = _STOPPED if self._search.ended and not trial_run.measured else lost
        trial = trial_run.conclude(worker, skipped=skipped)
        if trial.state is TrialState.FAILED and self._is_of_the_script(worker, trial_run):
            self._stop_search(trial.reason or "the script cannot be tuned")
        return self._recorder.release(worker, state=_STATES[trial.state], reason=trial.reason)

    def _is_of_the_script(self, worker: Worker, run: TrialRun) -> bool:
        """Whether a failure means that the script cannot be tuned, rather than that the value is too large."""
        measured = any(trial.state is TrialState.MEASURED for trial in self._search.trials)
        ended = worker.state is WorkerState.FINISHED and run.trial.value == self._spec.low and not measured
        return run.ignores_value is not None or ended

    # Measuring

    def beat(self) -> None:
        """See how far the trials are, and end those that are measured."""
        if self._spec.budget_s is not None and self._now_s >= self._spec.budget_s and not self._search.ended:
            self._stop_search("the budget is used up")
        running = self._running_trials()
        together = [run for run, _ in running if run.trial.kind is TrialKind.TOGETHER]
        expected = sum(run.trial.kind is TrialKind.TOGETHER for run in self._trial_runs.values())
        all_measure = len(together) == expected and all(run.measures for run in together)
        for run, worker in running:
            run.check(worker, counts=all_measure or run not in together)
        all_measured = all_measure and all(run.measured for run in together)
        for run, worker in running:
            done = all_measured if run in together else run.measured
            if worker.state.live and worker.state is not WorkerState.STOPPING and (done or run.ignores_value):
                worker.stop(reason=_MEASURED if done else run.ignores_value, is_done=done)
        self._skip_unused()
        if not self._search.ended and any(self._board.open()):
            self._wake.set()  # the search may have waited for a slot that is gone

    def _running_trials(self) -> list[tuple[TrialRun, Worker]]:
        """The trials that occupy their slots, and their workers."""
        runs = ((self._trial_runs.get(number), run.lead) for number, run in self._runs.items())
        return [(trial_run, worker) for trial_run, worker in runs if trial_run is not None]

    def _skip_unused(self) -> None:
        """Give up the trials that wait for a slot which is not used any more."""
        benched = self._board.benched()
        for number in self._waiting():
            slot = self._trial_runs[number].trial.slot
            if slot in benched or not self._board.used(slot):
                self._skip(number, "its slot is not used any more")

    def _waiting(self) -> list[int]:
        """The trials that do not occupy their slots yet."""
        return [number for number in self._trial_runs if number not in self._runs]

    def _skip(self, number: int, reason: str) -> None:
        """Give up a trial that waits."""
        self._recorder.keep(self._queue.act(QueueAction.SKIP, number))
        self._take(structs.replace(self._trial_runs.pop(number).trial, state=TrialState.SKIPPED, reason=reason))
        self._wake.set()

    # State

    def tuning(self) -> Tuning:
        """How far it is."""
        running = {run.trial.number: run.so_far(worker) for run, worker in self._running_trials()}
        trials = [running.get(number) or run.trial for number, run in self._trial_runs.items()]
        answer = self._search.answer()
        chosen, spec = answer.recommended, self._workplace.spec
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

    def _check(self, action: QueueAction) -> None:
        if action not in {QueueAction.SKIP, QueueAction.STOP}:
            raise GmgError("the search decides which trials run; a trial can be skipped", 1)
        super()._check(action)

    def _act_on(self, action: QueueAction, number: int) -> None:
        if action is QueueAction.SKIP and number in self._waiting():
            self._skip(number, "skipped by the user")
        else:
            super()._act_on(action, number)

    def end(self, *, kill: bool, reason: str | None) -> None:
        """Stop all trials, and start no others: the answer is the answer so far."""
        if not self._search.ended:
            self._stopped = True
            self._search.stop(reason or _STOPPED)
        super().end(kill=kill, reason=reason)

    def _stop_search(self, why: str) -> None:
        """Start no more trials, and stop those that run."""
        self._search.stop(why)
        for number in self._waiting():
            self._skip(number, why)
        for _, worker in self._running_trials():
            worker.stop(reason=why)
        self._wake.set()


_STATES = {
    TrialState.MEASURED: WorkerState.FINISHED,
    TrialState.FAILED: WorkerState.FAILED,
    TrialState.SKIPPED: WorkerState.STOPPED,
}
