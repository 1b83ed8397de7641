"""A sweep's jobs and a tuning's trials as lines of text: one when each starts, one when it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

from gmg_tui import units
from gmg_tui.model import JobRecord, Session, Snapshot, Trial, TrialState, TuneSpec, Tuning
from gmg_tui.results import tuning as tune_words

_Line = Callable[[str, str], str]
"""Makes a line of a slot and a text about it."""


class Jobs:
    """Reports each job's end once, and its start where a snapshot has it.

    A job may be shorter than the time between two snapshots. The queue has all: its first jobs are those that have ended,
    in the order of their ends.

    Attributes:
        reported: How many of the ended jobs have been looked at. One that is retried is none of them any more.
    """

    def __init__(self, session: Session, line: _Line) -> None:
        self._session = session
        self._line = line
        self._total = 0
        self.reported = 0
        self._started: dict[int, int] = {}
        """The latest attempt that was reported, by the job's number."""

    def starts(self, snapshot: Snapshot) -> Iterator[str]:
        """The jobs that have started on a slot; none while there are unreported ends, which come first."""
        queue = snapshot.queue
        if queue is None:
            return
        self._total, self.reported = queue.jobs, min(self.reported, queue.done)
        for worker in snapshot.workers if self.reported == queue.done else ():
            attempt = worker.newest.number
            if worker.job is not None and worker.state.live and attempt > self._started.get(worker.job, 0):
                self._started[worker.job] = attempt
                text = f"starts, attempt {attempt}" if attempt > 1 else "starts"
                yield self._of(worker.slot, worker.job, worker.job_name, text)

    def ends(self, jobs: Sequence[JobRecord]) -> Iterator[str]:
        """Those of a part of the queue, which begins after the ended jobs that have been looked at, that have ended."""
        for job in takewhile(lambda job: job.state.ended, jobs):
            self.reported += 1
            if job.ended is not None and job.ended < self._session.started:
                continue  # under an earlier engine
            after = f" after {units.span(job.elapsed_s)}" if job.elapsed_s is not None else ""
            tries = f" in {job.last.number} attempts" if job.last.number > 1 else ""
            rate = f" at {units.fps(job.last.rate)} FPS" if job.last.rate is not None else ""
            reason = f": {job.reason}" if job.reason else ""
            yield self._of(job.slot or "", job.number, job.name, f"{job.state.value}{after}{tries}{rate}{reason}")

    def _of(self, slot: str, number: int, name: str, text: str) -> str:
        return self._line(slot, f"job {number}/{self._total} {name} {text}")


class Trials:
    """Reports each step, and each trial's start and end, once; nothing of the trials before a tuning was resumed."""

    def __init__(self, line: _Line) -> None:
        self._line = line
        self._step = ""
        self._reported: dict[int, TrialState] = {}

    def events(self, tuning: Tuning) -> Iterator[str]:
        """What has happened since the tuning that was given before: ends, then the step, then starts."""
        spec, trials = tuning.spec, tuning.trials[tuning.earlier :]
        yield from (line for trial in trials if trial.state.ended for line in self._news(trial, spec))
        if tuning.step != self._step:
            self._step = tuning.step
            left = f" (about {units.span(tuning.eta_s)} left)" if tuning.eta_s is not None and not tuning.ended else ""
            yield f"{spec.variable}: {tuning.step}{left}"
        yield from (line for trial in trials if not trial.state.ended for line in self._news(trial, spec))

    def _news(self, trial: Trial, spec: TuneSpec) -> Iterator[str]:
        before = self._reported.get(trial.number, TrialState.WAITING)
        if before is trial.state:
            return
        self._reported[trial.number] = trial.state
        about = f"trial {trial.number}: {spec.variable}={trial.value:,}"
        if before is not TrialState.RUNNING and trial.state is not TrialState.SKIPPED:
            yield self._line(trial.slot, f"{about} starts ({trial.kind.value})")
        if trial.state.ended:
            yield self._line(trial.slot, f"{about} {_end(trial, spec)}")


def _end(trial: Trial, spec: TuneSpec) -> str:
    """How a trial ended: `measured 5,696,782 FPS ±0.9 %, 3.6 GiB`, `failed: CUDA out of memory`."""
    if trial.state is not TrialState.MEASURED:
        return f"{trial.state.value}: {trial.reason or 'no reason known'}"
    memory = "" if trial.memory_mib is None else f", {units.mib(trial.memory_mib)}"
    reason = f" ({trial.reason})" if trial.reason else ""
    return f"measured {tune_words.rate(trial.rate, spec)}{tune_words.margin(trial)}{memory}{reason}"
