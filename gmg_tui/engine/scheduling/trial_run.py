"""A trial of a tuning while it runs: its rate, and when that is precise enough."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from msgspec import structs

from gmg_tui import units
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.model import FPS, Attempt, Trial, TrialState, TuneSpec, WorkerState
from gmg_tui.tune.settling import Settling


class TrialRun:
    """One trial on its slot.

    Attributes:
        ignores_value: The evidence that the script ignores the value, in one line; None for none.
        trial: As it waits and, once it has ended, how.
    """

    def __init__(self, trial: Trial, spec: TuneSpec) -> None:
        self.trial = trial
        self.ignores_value: str | None = None
        self._spec = spec
        self._attempt = 0
        """The number of the attempt that is measured."""
        self._settling = Settling(spec, trial.kind)
        self._read_at_s: float | None = None
        """When a value of the script's metric was last read, in seconds of the attempt."""
        self._integral = 0.0
        """Of that metric over time."""
        self._start_s: float | None = None
        """When its rate was first known, in seconds of the attempt."""

    @property
    def measures(self) -> bool:
        """Whether its rate is known."""
        return self._start_s is not None

    @property
    def measured(self) -> bool:
        """Whether its rate is precise enough."""
        return self._settling.over

    def check(self, worker: Worker, *, counts: bool) -> None:
        """Take its rate; called each second while it runs.

        `counts` is whether that is part of the measurement: the trials of all slots at once wait for the last to begin.
        """
        attempt = worker.attempt
        if attempt is None or worker.state is not WorkerState.RUNNING:
            return
        if attempt.number != self._attempt:
            self._attempt, self._start_s, self._read_at_s, self._integral = attempt.number, None, None, 0.0
            self._settling = Settling(self._spec, self.trial.kind)
        self._check_value(attempt)
        elapsed_s = attempt.elapsed_s(time.time())
        done = self._amount_done(worker, attempt, elapsed_s)
        if done is not None:
            if self._start_s is None:
                self._start_s = elapsed_s
            if counts:
                self._settling.take(*done)

    def _check_value(self, attempt: Attempt) -> None:
        printed = attempt.printed_envs
        if self._spec.variable == "n_envs" and printed not in (None, self.trial.value):
            self.ignores_value = (
                f"the script simulates {units.count(printed, 'environment')} where {self.trial.value:,} were asked for: "
                "it takes no notice of {n_envs}"
            )

    def _amount_done(self, worker: Worker, attempt: Attempt, elapsed_s: float) -> tuple[float, float] | None:
        """Environment steps, or the integral of the metric, and over how many seconds; None before it is known."""
        if self._spec.metric == FPS:
            fps = attempt.fps
            return None if fps is None or fps.env_steps is None or fps.seconds is None else (fps.env_steps, fps.seconds)
        value = number(reported(worker).get(self._spec.metric))
        if value is None:
            return None
        if self._read_at_s is not None:
            self._integral += value * (elapsed_s - self._read_at_s)
        self._read_at_s = elapsed_s
        return self._integral, elapsed_s

    def so_far(self, worker: Worker) -> Trial:
        """It, while it runs."""
        attempt = worker.attempt
        return structs.replace(
            self.trial,
            state=TrialState.RUNNING,
            rate=self._settling.rate,
            memory_mib=attempt.memory_peak_mib if attempt is not None else None,
            gpu_util_pct=attempt.gpu_util_mean_pct if attempt is not None else None,
            power_w=attempt.power_mean_w if attempt is not None else None,
            start_s=self._start_s,
            measured_s=self._settling.measured_s or None,
        )

    def conclude(self, worker: Worker, values: Mapping[str, Any], *, skipped: str | None) -> Trial:
        """How it has ended.

        Args:
            worker: Its worker, which has ended.
            values: What the script has reported.
            skipped: Why its end does not depend on the value; None if it does.
        """
        state, reason = self._outcome(worker, values, skipped)
        trial = self.so_far(worker)
        rate = trial.rate if trial.rate is not None else number(values.get(self._spec.metric))
        self.trial = structs.replace(trial, state=state, rate=rate, reason=reason)
        return self.trial

    def _outcome(self, worker: Worker, values: Mapping[str, Any], skipped: str | None) -> tuple[TrialState, str | None]:
        if self.ignores_value is not None:
            return TrialState.FAILED, self.ignores_value
        if skipped is not None:
            return TrialState.SKIPPED, skipped
        if self.measured or (worker.state is WorkerState.FINISHED and self._has_metric(values)):
            return TrialState.MEASURED, None
        if worker.state is WorkerState.FINISHED:
            return TrialState.FAILED, self._not_a_number(values) or self._too_short(worker)
        if worker.state is WorkerState.STOPPED:
            return TrialState.SKIPPED, worker.reason or "stopped by the user"
        attempt = worker.attempt
        if attempt is not None and attempt.timed_out:
            if self._settling.rate is not None:
                return TrialState.MEASURED, None
            return TrialState.FAILED, self._not_a_number(values) or (
                f"no {self._metric} in {units.span(self._spec.trial_time_s)}{self._advice}"
            )
        return TrialState.FAILED, worker.reason

    def _has_metric(self, values: Mapping[str, Any]) -> bool:
        """Whether the script, which has ended by itself, has reported a metric of its own."""
        return self._spec.metric != FPS and number(values.get(self._spec.metric)) is not None

    def _not_a_number(self, values: Mapping[str, Any]) -> str:
        """What the metric is instead of a number; empty where nothing was reported."""
        value = values.get(self._spec.metric)
        if self._spec.metric == FPS or value is None or number(value) is not None:
            return ""
        return f"{self._spec.metric} is {value!r:.40}, which is no number"

    @property
    def _metric(self) -> str:
        return "FPS line" if self._spec.metric == FPS else f"number called {self._spec.metric!r}"

    @property
    def _advice(self) -> str:
        if self._spec.metric != FPS:
            return ""
        return ": Genesis prints its rate unless show_FPS is off or logging_level above info"

    def _too_short(self, worker: Worker) -> str:
        attempt = worker.attempt
        lived = units.span(attempt.elapsed_s(time.time()) if attempt is not None else 0.0)
        if not self.measures:
            return f"the script ended after {lived} without a {self._metric}{self._advice}"
        measured = units.span(self._settling.measured_s)
        return f"the script ended after {lived}, {measured} of it measured, before its rate was precise enough: let it run longer"


def reported(worker: Worker) -> dict[str, Any]:
    """What a worker's script has reported: the named numbers of its lines, and those of `gmg:result`."""
    attempt = worker.attempt
    return {**(attempt.metrics if attempt is not None else {}), **worker.result}


def number(value: object) -> float | None:
    """A reported value as a number; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None
