"""A tuning as lines of text: one when a trial starts, one when it ends, and one for each step."""

from __future__ import annotations

from collections.abc import Iterator

from gmg_tui import units
from gmg_tui.model import Session, Trial, TrialState, TuneSpec, Tuning
from gmg_tui.tune import words

_ENDED = frozenset({TrialState.MEASURED, TrialState.FAILED, TrialState.SKIPPED})


class Trials:
    """Reports each step, and each trial's start and end, once."""

    def __init__(self, session: Session) -> None:
        self._width = max((len(slot.name) for slot in session.slots), default=0)
        self._step = ""
        self._said: dict[int, TrialState] = {}

    def events(self, tuning: Tuning) -> Iterator[str]:
        """What has happened since the tuning that was given before: ends, then the step, then starts."""
        for trial in tuning.trials:
            if trial.state in _ENDED and self._said.get(trial.number) is not trial.state:
                if self._said.get(trial.number) is not TrialState.RUNNING and trial.state is not TrialState.SKIPPED:
                    yield self._start(trial, tuning.spec)
                self._said[trial.number] = trial.state
                yield self._line(trial, f"{_name(trial, tuning.spec)} {_end(trial, tuning.spec)}")
        if tuning.step != self._step:
            self._step = tuning.step
            left = f" (about {units.span(tuning.eta_s)} left)" if tuning.eta_s is not None and not tuning.ended else ""
            yield f"{tuning.spec.variable}: {tuning.step}{left}"
        for trial in tuning.trials:
            if trial.state is TrialState.RUNNING and self._said.get(trial.number) is not TrialState.RUNNING:
                self._said[trial.number] = trial.state
                yield self._start(trial, tuning.spec)

    def _start(self, trial: Trial, spec: TuneSpec) -> str:
        return self._line(trial, f"{_name(trial, spec)} starts ({trial.kind.value})")

    def _line(self, trial: Trial, text: str) -> str:
        return f"{trial.slot:<{self._width}}   {text}"


def _name(trial: Trial, spec: TuneSpec) -> str:
    return f"trial {trial.number}: {spec.variable}={trial.value:,}"


def _end(trial: Trial, spec: TuneSpec) -> str:
    """How a trial ended: `measured 5,696,782 FPS ±0.9 %, 3.6 GiB`, `failed: CUDA out of memory`."""
    if trial.state is not TrialState.MEASURED:
        return f"{trial.state.value}: {trial.reason or 'no reason known'}"
    memory = "" if trial.memory_mib is None else f", {units.mib(trial.memory_mib)}"
    reason = f" ({trial.reason})" if trial.reason else ""
    return f"measured {words.rate(trial.rate, spec)} {words.spread(trial)}{memory}{reason}"
