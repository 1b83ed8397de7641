"""A session that has ended, read from its folder."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, Self

from msgspec import structs

from gmg_tui.model import Attempt, GpuSample, JobRecord, Session, SpeedFacts, Worker, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.model.snapshot import Details, Occurrence, OccurrenceKind, Series, Snapshot
from gmg_tui.model.tried import ArgumentResults, TriedArguments
from gmg_tui.session import ENGINE_DIED, STORE, read_record
from gmg_tui.session.client import Source
from gmg_tui.session.protocol import Ask, Bye, Command, Lines, Question, Topic, Update, Welcome
from gmg_tui.session.store.database import METRICS, JobAttempt
from gmg_tui.session.store.reader import Stored, open_store

_MAX_POINTS: Final = 720
"""Maximum points of a chart."""
_RECENT_S: Final = 300.0
"""Seconds of history in a worker's tile, up to the worker's end."""
_NOT_RECORDED: Final = "not recorded"


class EndedSession(Source):
    """Answers requests in place of an engine that has exited; refuses changes and stack samples."""

    ended = True

    def __init__(self, welcome: Welcome, folder: Path, *, loss: str) -> None:
        super().__init__(welcome)
        self.loss = loss
        self._folder = folder
        self._answers: dict[Question, Any] = {}

    @classmethod
    async def open(cls, folder: Path, session: Session, *, loss: str = "") -> Self:
        """Opens the session in `folder`. Raises `GmgError` if its store has no snapshot or cannot be read."""
        return cls(await asyncio.to_thread(_make_welcome, folder, session), folder, loss=loss)

    async def events(self) -> AsyncIterator[Update | Lines | Bye]:
        """Yields nothing, and never ends."""
        await asyncio.Event().wait()
        yield Bye("")

    async def watch(self, *, lines: bool = False) -> None:
        """Does nothing: there are no workers to start."""

    async def _ask(self, question: Command | Question) -> Any:
        if not (isinstance(question, Ask) and question.is_harmless):
            raise GmgError(f"{self.welcome.session.spec.name} has ended: it cannot be changed", 1)
        if question not in self._answers:
            self._answers[question] = await asyncio.to_thread(self._answer, question)
        return self._answers[question]

    def _answer(self, question: Ask) -> Any:
        topic, slot, snapshot = question.topic, question.slot, self.welcome.snapshot
        worker = snapshot.worker(slot)
        with open_store(self._folder / STORE) as stored:
            if topic is Topic.QUEUE:
                return tuple(sorted(stored.jobs, key=_queue_order)[question.first :][: max(0, question.count)])
            if topic is Topic.SERIES:
                return next(iter(stored.series(_MAX_POINTS, slot)), Series(slot, snapshot.time, 1.0))
            if topic is Topic.TRIED:
                return self._tried(stored)
            if topic is Topic.EVENTS:
                return self._events(stored)
            if worker is None and topic is Topic.CURVES:
                return {}
            if worker is None:
                raise GmgError(f"no job has run on {slot}", 1)
            if topic is Topic.SPEED:
                return SpeedFacts(slot, worker.state, reason=worker.reason, recorded=worker.newest.verdict)
            job = worker.index + 1 if worker.job is None else worker.job
            if topic is Topic.DETAILS:
                return self._details(worker, [entry.attempt for entry in stored.attempts_of(job) if entry.slot == slot])
            curves = [entry.curves for entry in stored.curves_of(job) if entry.slot == slot]
        return question.select(curves[-1] if curves else {})

    def _details(self, worker: Worker, attempts: list[Attempt]) -> Details:
        """Returns a worker's details; its environment and GPU processes were not recorded."""
        spec, newest = self.welcome.session.spec, self._mark_lost(worker.newest)
        earlier = [self._mark_lost(attempt) for attempt in attempts if attempt.number != newest.number]
        return Details(
            slot=worker.slot,
            command=(spec.python, *(("-m",) if spec.module else ()), spec.script, *newest.args),
            cwd=spec.cwd,
            env={},
            unset=(_NOT_RECORDED,),
            egl=_NOT_RECORDED,
            attempts=(*earlier, *([newest] if newest.number else [])),
            args=newest.given,
            extra_env=newest.env,
        )

    def _job_attempts(self, stored: Stored) -> list[JobAttempt]:
        entries = [entry for entries in stored.attempts.values() for entry in entries]
        return [structs.replace(entry, attempt=self._mark_lost(entry.attempt)) for entry in entries]

    def _tried(self, stored: Stored) -> tuple[ArgumentResults, ...]:
        tried = TriedArguments()
        for entry in sorted(self._job_attempts(stored), key=lambda entry: entry.attempt.started):
            tried.add(entry.slot, entry.attempt)
        return tried.results((), self.welcome.snapshot.time)

    def _events(self, stored: Stored) -> tuple[Occurrence, ...]:
        """Returns the starts and ends of attempts; alerts were not recorded."""
        queued = self.welcome.session.spec.sweep is not None
        jobs = {job.number: f"job {job.number} ({job.name})" for job in stored.iter_jobs()} if queued else {}
        events = []
        for entry in self._job_attempts(stored):
            slot, name, attempt = entry.slot, jobs.get(entry.job, entry.slot), entry.attempt
            text = f"{name} has started attempt {attempt.number}"
            events.append(Occurrence(0, attempt.started, OccurrenceKind.STARTED, text, slot))
            if attempt.ended is not None and attempt.state.ended:
                text = f"{name} has {attempt.state.value}{f': {attempt.reason}' if attempt.reason else ''}"
                events.append(Occurrence(0, attempt.ended, OccurrenceKind(attempt.state.value), text, slot))
        events.sort(key=lambda event: event.time)
        return tuple(structs.replace(event, number=number) for number, event in enumerate(events, 1))

    def _mark_lost(self, attempt: Attempt) -> Attempt:
        """Returns the attempt, marked as failed if the engine died before it ended."""
        if attempt.state.ended or not attempt.number:
            return attempt
        ended = max(attempt.started, self.welcome.snapshot.time) if attempt.ended is None else attempt.ended
        return structs.replace(attempt, state=WorkerState.FAILED, reason=ENGINE_DIED, ended=ended)

    async def close(self) -> None:
        """Does nothing: files are open only during requests."""


def _queue_order(job: JobRecord) -> tuple[bool, float, int]:
    """Returns a sort key for the engine's order of a queue."""
    return not job.state.ended, (job.ended or 0.0) if job.state.ended else job.position, job.number


def _make_welcome(folder: Path, session: Session) -> Welcome:
    """Returns the session's last state, with its GPUs' last metrics under load. Raises `GmgError`."""
    with open_store(folder / STORE) as stored:
        snapshot = stored.last_snapshot
        if snapshot is None:
            name = session.spec.name
            raise GmgError(f"{name}: no snapshot was recorded; try: gmg-tui report {name}", 1)
        if (record_and_time := read_record(folder)) is not None:
            snapshot = record_and_time[0].last_state(snapshot)
        snapshot = structs.replace(snapshot, samples=_samples(session, snapshot, stored))
        recent = tuple(stored.series(int(_RECENT_S), last_s=_RECENT_S))
    return Welcome(session, snapshot, recent, readonly=True)


def _samples(session: Session, snapshot: Snapshot, stored: Stored) -> tuple[GpuSample, ...]:
    """Returns the GPUs' last metrics under load: the last snapshot shows them idle."""
    samples = {sample.uuid: sample for sample in snapshot.samples}
    for row in sorted(stored.last_metrics().values(), key=lambda row: row.time):
        slot = session.slot(row.slot)
        if slot is not None and (gpu := slot.gpu) is not None:
            idle = GpuSample(gpu.uuid, memory_total_mib=gpu.memory_total_mib, power_limit_w=gpu.power_limit_w)
            last, metrics = samples.get(gpu.uuid, idle), {name: getattr(row, name) for name in METRICS if name != "fps"}
            samples[gpu.uuid] = structs.replace(last, age_s=None, throttle=None, processes=None, **metrics)
    return tuple(samples.values())
