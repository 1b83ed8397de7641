"""A running trial of a tuning: measures its rate until it is precise enough."""

import math
import os
from statistics import fmean

from msgspec import structs

from gmg_tui.engine import clock
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.jobs.tune.fit import Settling
from gmg_tui.model import FPS, NO_ATTEMPT, Attempt, Trial, TrialState, TuneSpec, WorkerState, units

_MIN_CORES, _MIN_SHARE = 0.5, 0.1
"""Ignore other processes that use fewer cores, or a smaller share of all."""


class TrialRun:
    """One trial on its slot.

    Attributes:
        ignores_value: The evidence that the script ignores the value; None if there is none.
        trial: The trial's record.
    """

    def __init__(self, trial: Trial, spec: TuneSpec) -> None:
        self.trial = trial
        self.ignores_value: str | None = None
        self._spec = spec
        self._attempt = 0
        """The number of the measured attempt."""
        self._settling = Settling(spec, trial.kind)
        self._read_at_s: float | None = None
        """When the script's metric was last read, in seconds of the attempt."""
        self._integral = 0.0
        """Integral of that metric over time."""
        self._start_s: float | None = None
        """When its rate was first known, in seconds of the attempt."""
        self._gpu_users: str | None = None
        """An alert during the measurement about others on its GPU; None if there was none."""
        self._other_cores: list[float] = []
        """Cores used by other processes, each second of the measurement."""

    @property
    def measures(self) -> bool:
        """True if its rate is known."""
        return self._start_s is not None

    @property
    def measured(self) -> bool:
        """True if its rate is precise enough."""
        return self._settling.is_done

    def check(self, worker: Worker, *, counts: bool, other_cores: float | None) -> None:
        """Measures the rate; called each second while it runs.

        Args:
            worker: Its worker.
            counts: True once it counts: trials on all slots at once wait for the last to begin.
            other_cores: Cores busy with processes other than workers; None if unknown.
        """
        attempt = worker.attempt
        if attempt is None or worker.state is not WorkerState.RUNNING:
            return
        if attempt.number != self._attempt:
            self._attempt, self._start_s, self._read_at_s, self._integral = attempt.number, None, None, 0.0
            self._settling = Settling(self._spec, self.trial.kind)
            self._gpu_users, self._other_cores = None, []
        printed = attempt.printed_envs
        if self._spec.variable == "n_envs" and printed not in (None, self.trial.value):
            self.ignores_value = (
                f"the script simulates {units.count(printed, 'environment')} where {self.trial.value:,} were asked for: "
                "it ignores {n_envs}"
            )
        elapsed_s = attempt.elapsed_s(clock.now())
        done = self._amount_done(worker, attempt, elapsed_s)
        if done is not None:
            if self._start_s is None:
                self._start_s = elapsed_s
            if counts:
                self._settling.add(*done)
                users = (alert.text for alert in worker.alerts if alert.kind == "shared")
                self._gpu_users = self._gpu_users or next(users, None)
                self._other_cores += [other_cores] if other_cores is not None else []

    @property
    def _disturbance(self) -> str | None:
        """Returns what disturbed the measurement: other users of the GPU, or of much of the CPU."""
        cores, total = fmean(self._other_cores or (0.0,)), os.cpu_count() or 1
        if self._gpu_users is not None or cores < max(_MIN_CORES, _MIN_SHARE * total):
            return self._gpu_users
        return f"other processes used {cores:.1f} of {units.count(total, 'core')}"

    def _amount_done(self, worker: Worker, attempt: Attempt, elapsed_s: float) -> tuple[float, float] | None:
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

    def so_far(self, worker: Worker) -> Trial:
        """Returns the running trial's record."""
        attempt = worker.attempt or NO_ATTEMPT
        return structs.replace(
            self.trial,
            state=TrialState.RUNNING,
            rate=self._settling.rate,
            memory_mib=attempt.memory_peak_mib,
            gpu_util_pct=attempt.gpu_util_mean_pct,
            power_w=attempt.power_mean_w,
            start_s=self._start_s,
            measured_s=self._settling.measured_s or None,
            disturbance=self._disturbance,
        )

    def conclude(self, worker: Worker, *, skipped: str | None) -> Trial:
        """Returns the trial's final record; `skipped` is the reason if its end says nothing about the value."""
        state, reason = self._outcome(worker, skipped)
        trial = self.so_far(worker)
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
        by_itself = worker.state is finished and _number(value) is not None
        if isinstance(value, float) and not math.isfinite(value):
            return TrialState.FAILED, f"{self._spec.metric} is {value}: the run has diverged"
        if self.measured or by_itself or (attempt.timed_out and self._settling.rate is not None):
            return TrialState.MEASURED, None
        if worker.state is not finished and not attempt.timed_out:
            return TrialState.FAILED, worker.reason
        if value is not None and _number(value) is None:
            return TrialState.FAILED, f"{self._spec.metric} is {value!r:.40}, which is not a number"
        return TrialState.FAILED, self._too_short(attempt)

    def _too_short(self, attempt: Attempt) -> str:
        lived = units.span(attempt.elapsed_s(clock.now()))
        if self.measures:
            measured = units.span(self._settling.measured_s)
            return f"the script ended after {lived}, {measured} of it measured, before its rate was precise enough: let it run longer"
        what = f"a number called {self._spec.metric!r}"
        if self._spec.metric == FPS:
            what = "an FPS line: Genesis prints its rate unless show_FPS is off or logging_level above info"
        return f"the script {'was stopped' if attempt.timed_out else 'ended'} after {lived} without {what}"


def _number(value: object) -> float | None:
    """Returns a reported value as a finite number; None if it is not one."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if known else None  # type: ignore[arg-type]
