"""A trial of a tuning while it runs: its rate, and when that is precise enough."""

from __future__ import annotations

import time

from msgspec import structs

from gmg_tui import units
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.model import NO_ATTEMPT, Attempt, Trial, TrialState, TuneSpec, WorkerState
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
            self._attempt, self._start_s = attempt.number, None
            self._settling = Settling(self._spec, self.trial.kind)
        printed = attempt.printed_envs
        if self._spec.variable == "n_envs" and printed not in (None, self.trial.value):
            self.ignores_value = (
                f"the script simulates {units.count(printed, 'environment')} where {self.trial.value:,} were asked for: "
                "it takes no notice of {n_envs}"
            )
        fps = attempt.fps
        if fps is not None and fps.env_steps is not None and fps.seconds is not None:
            if self._start_s is None:
                self._start_s = attempt.elapsed_s(time.time())
            if counts:
                self._settling.take(fps.env_steps, fps.seconds)

    def so_far(self, worker: Worker) -> Trial:
        """It, while it runs."""
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
        )

    def conclude(self, worker: Worker, *, skipped: str | None) -> Trial:
        """How it has ended with its worker; `skipped` is why its end does not depend on the value, None if it does."""
        state, reason = self._outcome(worker, skipped)
        self.trial = structs.replace(self.so_far(worker), state=state, reason=reason)
        return self.trial

    def _outcome(self, worker: Worker, skipped: str | None) -> tuple[TrialState, str | None]:
        attempt = worker.attempt or NO_ATTEMPT
        if self.ignores_value is not None:
            return TrialState.FAILED, self.ignores_value
        if skipped is not None:
            return TrialState.SKIPPED, skipped
        if worker.state is WorkerState.STOPPED and not self.measured:
            return TrialState.SKIPPED, worker.reason or "stopped by the user"
        if self.measured or (attempt.timed_out and self._settling.rate is not None):
            return TrialState.MEASURED, None
        if worker.state is not WorkerState.FINISHED and not attempt.timed_out:
            return TrialState.FAILED, worker.reason
        return TrialState.FAILED, self._too_short(attempt)

    def _too_short(self, attempt: Attempt) -> str:
        lived = units.span(attempt.elapsed_s(time.time()))
        if self.measures:
            measured = units.span(self._settling.measured_s)
            return f"the script ended after {lived}, {measured} of it measured, before its rate was precise enough: let it run longer"
        how = "was stopped" if attempt.timed_out else "ended"
        why = "Genesis prints its rate unless show_FPS is off or logging_level above info"
        return f"the script {how} after {lived} without an FPS line: {why}"
