"""A tuning's trials as a source of jobs: each is chosen in view of the results so far."""

import logging
import math
import os
import time
from pathlib import Path
from statistics import fmean

import psutil
from msgspec import structs

from gmg_tui import model
from gmg_tui import session as sessions
from gmg_tui.engine import clock
from gmg_tui.engine.attempts.attempt import Stop
from gmg_tui.engine.hardware import Hardware
from gmg_tui.engine.records.recorder import Recorder
from gmg_tui.engine.scheduling.packing import crowding
from gmg_tui.engine.scheduling.queue_scheduler import QueueScheduler
from gmg_tui.engine.scheduling.scheduler import JobRun
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.jobs.tune.fit import RateMeter
from gmg_tui.jobs.tune.search import Search
from gmg_tui.model import FPS, NO_ATTEMPT, JobRecord, QueueAction, Trial, TrialKind, TrialState, WorkerState, units
from gmg_tui.model.errors import GmgError
from gmg_tui.results import tuning_text
from gmg_tui.session.store.reader import open_store

_log = logging.getLogger(__name__)

_STOPPED = "the tuning was stopped"
_MIN_OTHER_CORES, _MIN_OTHER_SHARE = 0.5, 0.1
"""Ignore other processes that use fewer cores than this, or a smaller share of the CPU."""
_MAX_IGNORED_S = 30
"""Seconds after which a script that steps other numbers of environments only is not evaluating, but ignores the value."""


class TrialRun:
    """One trial on its slot."""

    def __init__(self, trial: Trial, spec: model.TuneSpec) -> None:
        self.trial = trial
        self._spec = spec
        self._reset(0)

    def _reset(self, attempt: int) -> None:
        """Starts over for attempt number `attempt`."""
        self._attempt = attempt
        self._printed_envs = set[int]()
        """The numbers of environments seen so far; a script may also step others, such as for an evaluation."""
        self._ignored_beats = 0
        """Seconds in which only other numbers were seen."""
        self._meter = RateMeter(self._spec, self.trial.kind)
        self._read_at_s: float | None = None
        """Time of the last reading of the metric, in seconds of the attempt."""
        self._integral = 0.0
        """Integral of that metric over time."""
        self._start_s: float | None = None
        """Time of the first rate, in seconds of the attempt."""
        self._gpu_users: str | None = None
        """Text of the first alert about other users of the GPU during the measurement; None if none."""
        self._other_cores: list[float] = []
        """Number of cores used by other processes, in each second of the measurement."""

    @property
    def has_rate(self) -> bool:
        """True once the first rate is known."""
        return self._start_s is not None

    @property
    def ignores_value(self) -> str | None:
        """The evidence that the script has ignored the value so far; None if there is none."""
        if self._spec.variable != "n_envs" or not self._printed_envs or self.trial.value in self._printed_envs:
            return None
        counted = units.count(max(self._printed_envs), "environment")
        return f"the script simulates {counted} instead of {self.trial.value:,}: it ignores {{n_envs}}"

    @property
    def is_over(self) -> bool:
        """True once its rate has been measured for long enough, or the script has ignored the value for too long."""
        return self.measured or (self.ignores_value is not None and self._ignored_beats >= _MAX_IGNORED_S)

    @property
    def measured(self) -> bool:
        """True once its rate has been measured for long enough."""
        return self._meter.is_done

    def measure(self, worker: Worker, *, counts: bool, other_cores: float | None) -> None:
        """Measures the rate; call this every second while the trial is running.

        `counts` is False while a trial on all slots waits for the others' first rate. `other_cores` is the number of cores
        used by other processes, None if unknown.
        """
        attempt = worker.attempt
        if attempt is None or worker.state is not WorkerState.RUNNING:
            return
        if attempt.number != self._attempt:
            self._reset(attempt.number)
        if attempt.printed_envs is not None:
            self._printed_envs.add(attempt.printed_envs)
            self._ignored_beats += self.ignores_value is not None
        elapsed_s = attempt.elapsed_s(clock.now())
        done = self._amount_done(worker, attempt, elapsed_s)
        if done is not None:
            if self._start_s is None:
                self._start_s = elapsed_s
            if counts:
                self._meter.add(*done)
                users = (alert.text for alert in worker.alerts if alert.kind == "shared")
                self._gpu_users = self._gpu_users or next(users, None)
                self._other_cores += [other_cores] if other_cores is not None else []

    @property
    def _disturbance(self) -> str | None:
        """The disturbance of the measurement, by others on the GPU or CPU; None if there was none."""
        cores, total = fmean(self._other_cores or (0.0,)), os.cpu_count() or 1
        if self._gpu_users is not None or cores < max(_MIN_OTHER_CORES, _MIN_OTHER_SHARE * total):
            return self._gpu_users
        return f"other processes used {cores:.1f} of {units.count(total, 'core')}"

    def _amount_done(self, worker: Worker, attempt: model.Attempt, elapsed_s: float) -> tuple[float, float] | None:
        """Returns the environment steps, or the integral of the metric, and the seconds; None if unknown."""
        if self._spec.metric == FPS:
            fps = attempt.fps
            return None if fps is None or fps.env_steps is None or fps.seconds is None else (fps.env_steps, fps.seconds)
        value = _number(self._reported(worker))
        if value is None:
            return None
        if self._read_at_s is not None:
            self._integral += value * (elapsed_s - self._read_at_s)
        self._read_at_s = elapsed_s
        return self._integral, elapsed_s

    def _reported(self, worker: Worker) -> object:
        """Returns the script's value of the metric; None if there is none, or the metric is the rate."""
        return None if self._spec.metric == FPS else worker.result.get(self._spec.metric)

    def interim_record(self, worker: Worker) -> Trial:
        """Returns the running trial with its measurement so far."""
        attempt = worker.attempt or NO_ATTEMPT
        return structs.replace(
            self.trial,
            state=TrialState.RUNNING,
            rate=self._meter.rate,
            memory_mib=attempt.memory_peak_mib,
            gpu_util_pct=attempt.gpu_util_mean_pct,
            power_w=attempt.power_mean_w,
            start_s=self._start_s,
            measured_s=self._meter.measured_s or None,
            disturbance=self._disturbance,
        )

    def conclude(self, worker: Worker, *, skipped: str | None) -> Trial:
        """Returns the final trial; `skipped` is the reason if it ended for a cause other than its value."""
        state, reason = self._outcome(worker, skipped)
        trial = self.interim_record(worker)
        rate = trial.rate if trial.rate is not None else _number(self._reported(worker))
        self.trial = structs.replace(trial, state=state, rate=rate, reason=reason)
        return self.trial

    def _outcome(self, worker: Worker, skipped: str | None) -> tuple[TrialState, str | None]:
        attempt, value, finished = worker.attempt or NO_ATTEMPT, self._reported(worker), WorkerState.FINISHED
        if self.ignores_value is not None:
            return TrialState.FAILED, self.ignores_value
        if skipped is not None:
            return TrialState.SKIPPED, skipped
        if worker.state is WorkerState.STOPPED and not self.measured:
            return TrialState.SKIPPED, worker.reason or "stopped by the user"
        has_final_value = worker.state is finished and _number(value) is not None
        if isinstance(value, float) and not math.isfinite(value):
            return TrialState.FAILED, f"{self._spec.metric} is {value}: the run has diverged"
        if self.measured or has_final_value or (attempt.timed_out and self._meter.rate is not None):
            return TrialState.MEASURED, None
        if worker.state is not finished and not attempt.timed_out:
            return TrialState.FAILED, worker.reason
        if value is not None and _number(value) is None:
            return TrialState.FAILED, f"{self._spec.metric} is {value!r:.40}, which is not a number"
        return TrialState.FAILED, self._too_short_reason(attempt)

    def _too_short_reason(self, attempt: model.Attempt) -> str:
        end = f"the script {'was stopped' if attempt.timed_out else 'ended'} after {units.span(attempt.elapsed_s(clock.now()))}"
        if self._integral < 0:
            return f"{end}; the metric was negative, and comparisons need positive values"
        if self.has_rate:
            return f"{end}, {units.span(self._meter.measured_s)} of it measured, before its rate was precise: let it run longer"
        line = "an FPS line: Genesis prints its rate unless show_FPS is off or logging_level is above info"
        return f"{end} without {line if self._spec.metric == FPS else f'a number called {self._spec.metric!r}'}"


def _number(value: object) -> float | None:
    """Returns a reported value as a finite number; None if it is not one."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if known else None  # type: ignore[arg-type]


def restore_search(spec: model.RunSpec, tune: model.TuneSpec, hardware: Hardware) -> Search:
    """Returns a tuning's search, continued from the trials in the session's store. Raises `StoreError`."""
    with open_store(Path(spec.folder) / sessions.STORE) as stored:
        snapshot = stored.last_snapshot
    tuning = snapshot.tuning if snapshot is not None else None
    return Search(tune, hardware.slots, [trial for trial in tuning.trials if trial.state.ended] if tuning else ())


class TrialSource:
    """The job source of a tuning run: adds the trials that `search` requests, and ends each once it is measured."""

    def __init__(self, search: Search, spec: model.RunSpec, scheduler: QueueScheduler, recorder: Recorder) -> None:
        assert spec.tune is not None
        self._search, self._run_spec, self._spec = search, spec, spec.tune
        self._scheduler, self._recorder = scheduler, recorder
        self._board, self._queue = scheduler.board, scheduler.board.queue
        self._earlier = len(search.trials)
        self._trial_runs: dict[int, TrialRun] = {}
        """Waiting and running trials, by job number."""
        self._planned_s: dict[str, float] = {}
        """Time at which each slot's last trial was planned, in seconds of the tuning."""
        self._started = time.monotonic()
        self._stopped = False
        self._untunable_on = set[str]()
        """The nodes on which the script proved impossible to tune."""
        for number in [number for number, record in self._queue.records.items() if not record.state.ended]:
            # An earlier engine planned them; the search decides again.
            self._recorder.write(self._queue.act(QueueAction.SKIP, number))

    # Jobs

    @property
    def ended(self) -> bool:
        """True if the search is over."""
        return self._search.ended

    def refill(self) -> None:
        """Adds trials for free slots."""
        if self._board.ending or self._search.ended:
            return
        free = {engine_slot.slot.name: engine_slot for engine_slot in self._board.ready_slots()}
        free_mib = {
            name: sample.memory_free_mib
            for name, engine_slot in free.items()
            if (sample := engine_slot.sample) is not None and sample.memory_free_mib is not None
        }
        for trial in self._search.plan(free.keys(), self._now_s, free_mib):
            self._planned_s[trial.slot] = self._now_s
            number = max(self._queue.records, default=0) + 1
            self._trial_runs[number] = TrialRun(structs.replace(trial, number=number), self._spec)
            name = f"{self._spec.variable}={trial.value},{trial.slot}"
            if any(record.name == name for record in self._queue.records.values()):
                name = f"{name},{number}"
            record = JobRecord(number, name, {self._spec.variable: trial.value}, position=number, only=trial.slot)
            self._queue.add(record)
            self._recorder.write(record)
        benched = self._board.benched()
        if not self._trial_runs and not self._search.ended and len(benched) == len(self._board.slots):
            self._search.stop("every slot is benched")

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
        """Returns a trial's final state and reason; None if unknown. Ends the search if tuning is impossible."""
        trial_run, worker, (engine_slot,) = self._trial_runs.get(run.number), run.lead, run.engine_slots
        if trial_run is None:
            return None
        is_lost = engine_slot.sample is not None and engine_slot.sample.lost
        lost = "its GPU is lost" if is_lost else worker.unready or crowding(engine_slot, worker)
        skipped = _STOPPED if self._search.ended and not trial_run.measured else lost
        trial = trial_run.conclude(worker, skipped=skipped)
        measured = any(other.state is TrialState.MEASURED for other in self._search.trials)
        too_short = worker.state is WorkerState.FINISHED and trial.value == self._spec.low and not measured
        # The value is not to blame: the script cannot be tuned. Of several nodes, two must show it: one may be faulty.
        if trial.state is TrialState.FAILED and (trial_run.ignores_value is not None or too_short):
            self._untunable_on.add(engine_slot.slot.node)
            if len(self._untunable_on) >= min(2, len({other.slot.node for other in self._board.slots.values()})):
                self._stop_search(trial.reason or "the script cannot be tuned")
        return _STATES[trial.state], trial.reason

    # Measuring

    def beat(self) -> None:
        """Measures running trials, and ends those measured for long enough."""
        if self._spec.budget_s is not None and self._now_s >= self._spec.budget_s and not self._search.ended:
            self._stop_search("the budget is used up")
        running = self._running_trials()
        together = [run for run, _ in running if run.trial.kind is TrialKind.TOGETHER]
        runs = {run.trial.number for run, worker in running if worker.state is WorkerState.RUNNING}
        expected = sum(run.trial.kind is TrialKind.TOGETHER for run in self._trial_runs.values())
        all_have_rate = len(together) == expected and all(run.has_rate and run.trial.number in runs for run in together)
        other_cores = self._other_cores()
        for run, worker in running:
            run.measure(worker, counts=all_have_rate or run not in together, other_cores=other_cores)
        all_measured = all_have_rate and all(run.measured for run in together)
        for run, worker in running:
            done = all_measured if run in together and run.ignores_value is None else run.is_over
            if worker.state.active and done:
                worker.stop(Stop(reason="measured"), is_done=True)
        self._skip_unused()
        if not self._search.ended and any(self._board.ready_slots()):
            self._scheduler.wake()  # the search may be waiting for a lost slot

    def _other_cores(self) -> float | None:
        """Returns the cores used by other processes since the last call; None if workers run on other machines."""
        if self._run_spec.nodes is not None:
            return None
        all_pct = float(psutil.cpu_percent()) * (os.cpu_count() or 1)
        own_pct = sum(engine_slot.view().cpu_pct or 0.0 for engine_slot in self._board.slots.values())
        return max(0.0, all_pct - own_pct) / 100

    def _running_trials(self) -> list[tuple[TrialRun, Worker]]:
        runs = ((self._trial_runs.get(number), run.lead) for number, run in self._scheduler.runs.items())
        return [(trial_run, worker) for trial_run, worker in runs if trial_run is not None]

    def _skip_unused(self) -> None:
        """Skips trials waiting for a slot that is no longer used, or whose node is lost."""
        benched = self._board.benched()
        for number in self._waiting_numbers():
            slot = self._trial_runs[number].trial.slot
            if slot in benched or not self._board.used(slot):
                self._skip(number, "its slot is no longer used")
            elif self._board.slots[slot].away is not None:
                self._skip(number, "its node is lost")

    def _waiting_numbers(self) -> list[int]:
        return [number for number in self._trial_runs if number not in self._scheduler.runs]

    def _skip(self, number: int, reason: str) -> None:
        self._recorder.write(self._queue.act(QueueAction.SKIP, number))
        self._report(structs.replace(self._trial_runs.pop(number).trial, state=TrialState.SKIPPED, reason=reason))
        self._scheduler.wake()

    def tuning(self) -> model.Tuning:
        """Returns the tuning as clients see it."""
        running = {run.trial.number: run.interim_record(worker) for run, worker in self._running_trials()}
        trials = [running.get(number) or run.trial for number, run in self._trial_runs.items()]
        answer = self._search.answer()
        chosen, spec = answer.recommended, self._run_spec
        started_s = {trial.slot: self._planned_s[trial.slot] for trial in running.values()}
        return model.Tuning(
            spec=self._spec,
            step=self._search.step,
            trials=(*map(self._search.with_margin, self._search.trials), *trials),
            answer=answer,
            eta_s=self._search.eta_s(started_s, self._now_s),
            ended=self._search.ended,
            stopped=self._stopped,
            command=tuning_text.command(spec, self._spec.variable, chosen.value) if chosen is not None else (),
            earlier=self._earlier,
            reached=self._search.reached,
            expected=self._search.estimate_trials(),
        )

    # Commands

    def act(self, action: QueueAction, number: int) -> bool:
        """Skips a waiting trial. Returns False if the queue must handle the action. Raises `GmgError` for other actions."""
        if action not in {QueueAction.SKIP, QueueAction.STOP}:
            raise GmgError("the search decides which trials run; you can only skip or stop one", 1)
        if action is QueueAction.STOP or number not in self._waiting_numbers():
            return False
        self._skip(number, "skipped by the user")
        return True

    def end(self, reason: str | None) -> None:
        """Ends the search early, with its current answer: the session is ending, or the search has raised."""
        if not self._search.ended:
            self._stopped = True
            self._search.stop(reason or _STOPPED)

    def _stop_search(self, reason: str) -> None:
        """Ends the search: skips waiting trials and stops running ones."""
        self._search.stop(reason)
        for number in self._waiting_numbers():
            self._skip(number, reason)
        for _, worker in self._running_trials():
            worker.stop(Stop(reason=reason))
        self._scheduler.wake()


_STATES = {
    TrialState.MEASURED: WorkerState.FINISHED,
    TrialState.FAILED: WorkerState.FAILED,
    TrialState.SKIPPED: WorkerState.STOPPED,
}
