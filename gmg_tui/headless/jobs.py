"""A sweep's jobs and a tuning's trials as lines of text: one when each starts, one when it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from gmg_tui import units
from gmg_tui.model import JobRecord, Queue, Session, Snapshot, Trial, TrialState, TuneSpec, Tuning
from gmg_tui.results import tuning as tune_words

_PAGE = 200
"""Jobs per request."""
_OVERLAP = 20
"""Ended jobs before the first unreported one that are requested again: a retry moves those behind it up."""
_Line = Callable[[str, str], str]
"""Makes a line of a slot and a text about it."""


class Jobs:
    """Reports each job's start and end once.

    A snapshot has only the jobs that occupy slots at its moment, and a job may be shorter than the time between two. The
    queue has all: its first jobs are those that have ended, in the order of their ends.
    """

    def __init__(self, session: Session, line: _Line) -> None:
        self._session = session
        self._line = line
        self._total = 0
        self._done = 0
        """How many of the ended jobs have been looked at."""
        self._version: int | None = None
        self._started: dict[int, int] = {}
        """The latest attempt that was reported, by the job's number."""
        self._ended: set[tuple[int, int, str]] = set()

    def starts(self, snapshot: Snapshot) -> Iterator[str]:
        """The jobs that have started on a slot; none while there are unreported ends, which come first."""
        if snapshot.queue is None or snapshot.queue.done > self._done:
            return
        self._total = snapshot.queue.jobs
        for worker in snapshot.workers:
            if worker.job is not None and worker.state.live and worker.attempt > 0:
                yield from self._start(worker.slot, worker.job, worker.job_name, worker.attempt)

    def part(self, queue: Queue) -> tuple[int, int] | None:
        """The first position and the number of the jobs to request for those that have ended; None when all are reported.

        It is requested after every change: when one job is retried while another ends, their number stays the same.
        """
        self._total, self._done = queue.jobs, min(self._done, queue.done)
        if self._done == queue.done and queue.version == self._version:
            return None
        self._version = queue.version
        first = max(0, self._done - _OVERLAP)
        return first, min(_PAGE, queue.done - first + _OVERLAP)

    def ends(self, first: int, jobs: Sequence[JobRecord]) -> Iterator[str]:
        """Those of a part of the queue, from position `first`, that have ended and have not been reported."""
        for position, job in enumerate(jobs, first):
            if not job.state.ended:
                break
            self._done = max(self._done, position + 1)
            end = job.number, job.last.number, job.state.value
            earlier = job.ended is not None and job.ended < self._session.started  # under an earlier engine
            if end not in self._ended and not earlier:
                yield from self._end(job)
            self._ended.add(end)

    def _end(self, job: JobRecord) -> Iterator[str]:
        if job.slot is not None and job.last.number:
            yield from self._start(job.slot, job.number, job.name, job.last.number)
        after = f" after {units.span(job.elapsed_s)}" if job.elapsed_s is not None else ""
        tries = f" in {job.last.number} attempts" if job.last.number > 1 else ""
        rate = f" at {units.fps(job.last.rate)} FPS" if job.last.rate is not None else ""
        reason = f": {job.reason}" if job.reason else ""
        yield self._of(job.slot or "", job.number, job.name, f"{job.state.value}{after}{tries}{rate}{reason}")

    def _start(self, slot: str, number: int, name: str, attempt: int) -> Iterator[str]:
        if attempt > self._started.get(number, 0):
            self._started[number] = attempt
            yield self._of(slot, number, name, f"starts, attempt {attempt}" if attempt > 1 else "starts")

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
        spec = tuning.spec
        for trial in tuning.trials[tuning.earlier :]:
            before = self._reported.get(trial.number)
            if trial.state.ended and before is not trial.state:
                if before is not TrialState.RUNNING and trial.state is not TrialState.SKIPPED:
                    yield self._of(trial, spec, f"starts ({trial.kind.value})")
                self._reported[trial.number] = trial.state
                yield self._of(trial, spec, _end(trial, spec))
        if tuning.step != self._step:
            self._step = tuning.step
            left = f" (about {units.span(tuning.eta_s)} left)" if tuning.eta_s is not None and not tuning.ended else ""
            yield f"{spec.variable}: {tuning.step}{left}"
        for trial in tuning.trials:
            if trial.state is TrialState.RUNNING and self._reported.get(trial.number) is not TrialState.RUNNING:
                self._reported[trial.number] = trial.state
                yield self._of(trial, spec, f"starts ({trial.kind.value})")

    def _of(self, trial: Trial, spec: TuneSpec, text: str) -> str:
        return self._line(trial.slot, f"trial {trial.number}: {spec.variable}={trial.value:,} {text}")


def _end(trial: Trial, spec: TuneSpec) -> str:
    """How a trial ended: `measured 5,696,782 FPS ±0.9 %, 3.6 GiB`, `failed: CUDA out of memory`."""
    if trial.state is not TrialState.MEASURED:
        return f"{trial.state.value}: {trial.reason or 'no reason known'}"
    memory = "" if trial.memory_mib is None else f", {units.mib(trial.memory_mib)}"
    reason = f" ({trial.reason})" if trial.reason else ""
    return f"measured {tune_words.rate(trial.rate, spec)}{tune_words.margin(trial)}{memory}{reason}"
