"""A trial of a tuning while it runs: its rate, and when that is known well enough."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from gmg_tui import units
from gmg_tui.engine.workers.slot_worker import SlotWorker
from gmg_tui.genesis.output.stretches import Block
from gmg_tui.model import FPS, AttemptReport, GpuSample, Trial, TrialState, TuneSpec, WorkerState
from gmg_tui.tune.settling import Settling
from gmg_tui.tune.slots import Plan

_THROTTLED = frozenset({"hw slowdown", "thermal", "hw thermal", "power brake", "reliability"})
"""Reasons for low clocks that say something of the moment, not of the value: a power cap is met by every full load."""
_THROTTLED_LOOKS = 2
_STRANGER_LOOKS = 10
"""For how many looks in a row, one each second, something must be so: a worker's own new process is unknown at first."""


class TrialRun:
    """One trial on its slot; `careful` if it is to be run again should something else disturb it."""

    def __init__(self, number: int, plan: Plan, spec: TuneSpec, *, careful: bool) -> None:
        self.number = number
        self.plan = plan
        self.disturbed: str | None = None
        """What has disturbed it, in one line."""
        self.ignores: str | None = None
        """How it is known that the script takes no notice of the value, in one line."""
        self.result: Trial | None = None
        """How it has ended."""
        self._spec = spec
        self._careful = careful
        self._attempt = 0
        """The number of the attempt that was seen last."""
        self._settling = Settling(spec.settle_s, plan.at_least_s)
        self._mark = 0
        self._start_s: float | None = None
        self._throttled = 0
        self._strangers: frozenset[int] | None = None
        """The processes of others on the GPU when it began to be measured."""
        self._stranger_looks = 0

    @property
    def measures(self) -> bool:
        """Whether its rate comes in."""
        return self._start_s is not None

    @property
    def over(self) -> bool:
        """Whether it has been measured."""
        return self._settling.over

    def look(self, worker: SlotWorker, sample: GpuSample | None, own: Collection[int], *, counts: bool) -> None:
        """See how far it is; called each second while it runs.

        Args:
            worker: Its worker.
            sample: The GPU's latest.
            own: The PIDs of all workers.
            counts: Whether what it does counts: the trials of all slots at once wait for the last to begin.
        """
        attempt = worker.reported()
        if attempt is None or worker.state is not WorkerState.RUNNING:
            return
        if attempt.record.number != self._attempt:
            self._attempt, self._mark, self._start_s = attempt.record.number, 0, None
            self._settling = Settling(self._spec.settle_s, self.plan.at_least_s)
        self._check_value(attempt)
        self._read(worker, attempt, counts=counts)
        if self.measures and sample is not None:
            self._check_gpu(sample, own)

    def _check_value(self, attempt: AttemptReport) -> None:
        printed = attempt.printed_envs
        if self._spec.variable == "n_envs" and printed not in (None, self.plan.value):
            self.ignores = (
                f"the script simulates {units.count(printed, 'environment')} where {self.plan.value:,} were asked for: "
                "it takes no notice of {n_envs}"
            )

    def _read(self, worker: SlotWorker, attempt: AttemptReport, *, counts: bool) -> None:
        """Take what it has done since the last look."""
        if self._spec.metric == FPS:
            mark, begun, blocks = worker.blocks(self._mark)
            if begun > self._mark:
                self._settling = Settling(self._spec.settle_s, self.plan.at_least_s)
            self._mark = mark
            seen = attempt.fps is not None
        else:
            value, count = number(attempt.result.get(self._spec.metric)), attempt.results
            blocks = (Block(value, 1.0),) if value is not None and count != self._mark else ()
            self._mark = count
            seen = value is not None
        if seen and self._start_s is None:
            self._start_s = attempt.elapsed_s
        for amount, time_s in blocks if counts else ():
            self._settling.add(amount, time_s)

    def _check_gpu(self, sample: GpuSample, own: Collection[int]) -> None:
        """See whether anything but the value slows it down."""
        throttled = _THROTTLED.intersection(sample.throttle or ())
        self._throttled = self._throttled + 1 if throttled else 0
        seen = frozenset(one.pid for one in sample.processes or () if not one.foreign and one.pid not in own)
        if self._strangers is None:
            self._strangers = seen
        new = seen - self._strangers
        self._stranger_looks = self._stranger_looks + 1 if new else 0
        if sample.lost:
            self.disturbed = "its GPU is lost"
        elif self._throttled >= _THROTTLED_LOOKS:
            self.disturbed = f"the GPU was throttled ({', '.join(sorted(throttled))})"
        elif self._stranger_looks >= _STRANGER_LOOKS:
            self.disturbed = f"another process came to the GPU (PID {min(new)})"

    @property
    def spoilt(self) -> bool:
        """Whether it is to be ended, as it is to be run again."""
        return self.disturbed is not None and self._careful

    def waiting(self) -> Trial:
        """It, before it has begun."""
        return Trial(self.number, self.plan.value, self.plan.slot, self.plan.kind)

    def so_far(self, worker: SlotWorker) -> Trial:
        """It, while it runs."""
        return self._trial(worker, TrialState.RUNNING, None)

    def conclude(self, worker: SlotWorker, values: Mapping[str, Any], *, skipped: str | None) -> Trial:
        """How it has ended.

        Args:
            worker: Its worker, which has ended.
            values: What the script has reported.
            skipped: Why its end says nothing of the value, if that is known.
        """
        state, reason = self._judged(worker, values, skipped)
        self.result = self._trial(worker, state, reason, number(values.get(self._spec.metric)))
        return self.result

    def lost(self, reason: str | None, state: TrialState = TrialState.FAILED) -> Trial:
        """It has ended without having been measured."""
        self.result = Trial(self.number, self.plan.value, self.plan.slot, self.plan.kind, state, reason=reason)
        return self.result

    def _judged(
        self, worker: SlotWorker, values: Mapping[str, Any], skipped: str | None
    ) -> tuple[TrialState, str | None]:
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
        attempt = worker.reported()
        if attempt is not None and attempt.timed_out:
            if self._settling.estimate() is not None:
                return TrialState.MEASURED, self.disturbed
            return TrialState.FAILED, self._no_number(values) or (
                f"no {self._metric} in {units.span(self._spec.trial_time_s)}{self._advice}"
            )
        return TrialState.FAILED, worker.reason

    def _is_enough(self, values: Mapping[str, Any]) -> bool:
        """Whether the script, which has ended by itself, has shown its rate."""
        if self._spec.metric != FPS:
            return number(values.get(self._spec.metric)) is not None
        return self._settling.steady

    def _no_number(self, values: Mapping[str, Any]) -> str:
        """What the metric is instead of a number; empty where nothing was reported."""
        said = values.get(self._spec.metric)
        if self._spec.metric == FPS or said is None or number(said) is not None:
            return ""
        return f"{self._spec.metric} is {said!r:.40}, which is no number"

    @property
    def _metric(self) -> str:
        return "FPS line" if self._spec.metric == FPS else f"gmg:result with {self._spec.metric!r}"

    @property
    def _advice(self) -> str:
        if self._spec.metric != FPS:
            return ""
        return ": Genesis prints its rate unless show_FPS is off or logging_level above info"

    def _too_short(self, worker: SlotWorker) -> str:
        attempt = worker.reported()
        lived = units.span(attempt.elapsed_s if attempt is not None else 0.0)
        if not self.measures:
            return f"the script ended after {lived} without a {self._metric}{self._advice}"
        measured = units.span(self._settling.measured_s)
        return (
            f"the script ended after {lived}, {measured} of it measured, before its rate had settled: let it run longer"
        )

    def _trial(self, worker: SlotWorker, state: TrialState, reason: str | None, reported: float | None = None) -> Trial:
        known, attempt = self._settling.estimate(), worker.reported()
        return Trial(
            self.number,
            self.plan.value,
            self.plan.slot,
            self.plan.kind,
            state,
            rate=known.rate if known is not None else reported,
            rate_low=_finite(known.low) if known is not None else None,
            rate_high=_finite(known.high) if known is not None else None,
            memory_mib=attempt.memory_peak_mib if attempt is not None else None,
            gpu_util_pct=attempt.gpu_util_mean_pct if attempt is not None else None,
            power_w=attempt.power_mean_w if attempt is not None else None,
            start_s=self._start_s,
            measured_s=self._settling.measured_s or None,
            ramp_s=self._settling.ramp_s or None,
            reason=reason,
        )


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
