"""A trial of a tuning while it runs: its rate, and when that is precise enough."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping
from typing import Any

from gmg_tui import units
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.model import FPS, Attempt, GpuSample, Trial, TrialState, TuneSpec, WorkerState
from gmg_tui.tune.record import Plan
from gmg_tui.tune.settling import Settling

_THROTTLED = frozenset({"hw slowdown", "thermal", "hw thermal", "power brake", "reliability"})
"""Reasons for low clocks that depend on the moment, not on the value: a power cap is met by every full load."""
_THROTTLED_CHECKS = 2
_STRANGER_CHECKS = 10
"""Consecutive checks, one each second, that must agree: a worker's new process is not yet recognised as such."""


class TrialRun:
    """One trial on its slot; `careful` if it is to be run again should something else disturb it."""

    def __init__(self, number: int, plan: Plan, spec: TuneSpec, *, careful: bool) -> None:
        self.number = number
        self.plan = plan
        self.disturbed: str | None = None
        """What has disturbed it, in one line."""
        self.ignores: str | None = None
        """The evidence that the script ignores the value, in one line."""
        self.result: Trial | None = None
        """How it has ended."""
        self._spec = spec
        self._careful = careful
        self._attempt = 0
        """The number of the attempt that was seen last."""
        self._settling = Settling.of(spec, plan.kind)
        self._taken_s: float | None = None
        """When a value of the script's metric was taken last, in seconds of the attempt."""
        self._amount = 0.0
        """Of that metric: its values times the seconds for which they stood."""
        self._start_s: float | None = None
        self._throttled = 0
        self._strangers: frozenset[int] | None = None
        """The processes of others on the GPU when it began to be measured."""
        self._stranger_checks = 0

    @property
    def measures(self) -> bool:
        """Whether its rate comes in."""
        return self._start_s is not None

    @property
    def over(self) -> bool:
        """Whether it has been measured."""
        return self._settling.over

    def check(self, worker: Worker, sample: GpuSample | None, own: Collection[int], *, counts: bool) -> None:
        """See how far it is; called each second while it runs.

        Args:
            worker: Its worker.
            sample: The GPU's latest.
            own: The PIDs of all workers.
            counts: Whether what it does counts: the trials of all slots at once wait for the last to begin.
        """
        attempt = worker.attempt
        if attempt is None or worker.state is not WorkerState.RUNNING:
            return
        if attempt.number != self._attempt:
            self._attempt, self._start_s, self._taken_s, self._amount = attempt.number, None, None, 0.0
            self._settling = Settling.of(self._spec, self.plan.kind)
        self._check_value(attempt)
        self._read(worker, attempt, counts=counts)
        if self.measures and sample is not None:
            self._check_gpu(sample, own)

    def _check_value(self, attempt: Attempt) -> None:
        printed = attempt.printed_envs
        if self._spec.variable == "n_envs" and printed not in (None, self.plan.value):
            self.ignores = (
                f"the script simulates {units.count(printed, 'environment')} where {self.plan.value:,} were asked for: "
                "it takes no notice of {n_envs}"
            )

    def _read(self, worker: Worker, attempt: Attempt, *, counts: bool) -> None:
        """Take what it has done until now."""
        fps, elapsed_s = attempt.fps, attempt.elapsed_s(time.time())
        done = None
        if self._spec.metric != FPS:
            done = self._read_metric(reported(worker), elapsed_s)
        elif fps is not None and fps.env_steps is not None and fps.seconds is not None:
            done = fps.env_steps, fps.seconds
        if done is None:
            return
        if self._start_s is None:
            self._start_s = elapsed_s
        if counts:
            self._settling.take(*done)

    def _read_metric(self, values: Mapping[str, Any], elapsed_s: float) -> tuple[float, float] | None:
        """The metric times the seconds for which it stood so, and these seconds; None before it was reported."""
        value = number(values.get(self._spec.metric))
        if value is None:
            return None
        if self._taken_s is not None:
            self._amount += value * (elapsed_s - self._taken_s)
        self._taken_s = elapsed_s
        return self._amount, elapsed_s

    def _check_gpu(self, sample: GpuSample, own: Collection[int]) -> None:
        """See whether anything but the value slows it down."""
        throttled = _THROTTLED.intersection(sample.throttle or ())
        self._throttled = self._throttled + 1 if throttled else 0
        seen = frozenset(
            process.pid for process in sample.processes or () if not process.foreign and process.pid not in own
        )
        if self._strangers is None:
            self._strangers = seen
        new = seen - self._strangers
        self._stranger_checks = self._stranger_checks + 1 if new else 0
        if sample.lost:
            self.disturbed = "its GPU is lost"
        elif self._throttled >= _THROTTLED_CHECKS:
            self.disturbed = f"the GPU was throttled ({', '.join(sorted(throttled))})"
        elif self._stranger_checks >= _STRANGER_CHECKS:
            self.disturbed = f"another process came to the GPU (PID {min(new)})"

    @property
    def spoilt(self) -> bool:
        """Whether it is to be ended, as it is to be run again."""
        return self.disturbed is not None and self._careful

    def waiting(self) -> Trial:
        """It, before it has begun."""
        return Trial(self.number, self.plan.value, self.plan.slot, self.plan.kind)

    def so_far(self, worker: Worker) -> Trial:
        """It, while it runs."""
        return self._trial(worker, TrialState.RUNNING, None)

    def conclude(self, worker: Worker, values: Mapping[str, Any], *, skipped: str | None) -> Trial:
        """How it has ended.

        Args:
            worker: Its worker, which has ended.
            values: What the script has reported.
            skipped: Why its end does not depend on the value; None if it does.
        """
        state, reason = self._judged(worker, values, skipped)
        self.result = self._trial(worker, state, reason, number(values.get(self._spec.metric)))
        return self.result

    def lost(self, reason: str | None, state: TrialState = TrialState.FAILED) -> Trial:
        """It has ended without having been measured."""
        self.result = Trial(self.number, self.plan.value, self.plan.slot, self.plan.kind, state, reason=reason)
        return self.result

    def _judged(self, worker: Worker, values: Mapping[str, Any], skipped: str | None) -> tuple[TrialState, str | None]:
        if self.ignores is not None:
            return TrialState.FAILED, self.ignores
        if self.spoilt or skipped is not None:
            return TrialState.SKIPPED, self.disturbed or skipped
        if self.over or (worker.state is WorkerState.FINISHED and self._is_enough(values)):
            return TrialState.MEASURED, self.disturbed
        if worker.state is WorkerState.FINISHED:
            return TrialState.FAILED, self._no_number(values) or self._too_short(worker)
        if worker.state is WorkerState.STOPPED:
            return TrialState.SKIPPED, worker.reason or "stopped by the user"
        attempt = worker.attempt
        if attempt is not None and attempt.timed_out:
            if self._settling.rate is not None:
                return TrialState.MEASURED, self.disturbed
            return TrialState.FAILED, self._no_number(values) or (
                f"no {self._metric} in {units.span(self._spec.trial_time_s)}{self._advice}"
            )
        return TrialState.FAILED, worker.reason

    def _is_enough(self, values: Mapping[str, Any]) -> bool:
        """Whether the script, which has ended by itself, ran long enough for a rate."""
        if self._spec.metric != FPS:
            return number(values.get(self._spec.metric)) is not None
        return self._settling.over

    def _no_number(self, values: Mapping[str, Any]) -> str:
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

    def _trial(self, worker: Worker, state: TrialState, reason: str | None, reported: float | None = None) -> Trial:
        settled, attempt = self._settling.rate, worker.attempt
        return Trial(
            self.number,
            self.plan.value,
            self.plan.slot,
            self.plan.kind,
            state,
            rate=settled if settled is not None else reported,
            memory_mib=attempt.memory_peak_mib if attempt is not None else None,
            gpu_util_pct=attempt.gpu_util_mean_pct if attempt is not None else None,
            power_w=attempt.power_mean_w if attempt is not None else None,
            start_s=self._start_s,
            measured_s=self._settling.measured_s or None,
            reason=reason,
        )


def reported(worker: Worker) -> dict[str, Any]:
    """What a worker's script has reported: the named numbers of its lines, and those of `gmg:result`."""
    attempt = worker.attempt
    return {**(attempt.metrics if attempt is not None else {}), **worker.result}


def number(value: object) -> float | None:
    """A reported value as a number; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return _finite(float(value))
    except OverflowError:
        return None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
