"""A session that has ended, read from its folder."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, Self

from msgspec import structs

from gmg_tui.machine.files import reading
from gmg_tui.model import (
    Attempt,
    Curve,
    Details,
    GpuSample,
    JobRecord,
    Occurrence,
    OccurrenceKind,
    Series,
    Session,
    Snapshot,
    SpeedFacts,
    Tried,
    Worker,
    WorkerState,
)
from gmg_tui.model.errors import GmgError
from gmg_tui.model.text import clean
from gmg_tui.model.tried import TriedArguments
from gmg_tui.session import ENGINE_DIED, LOGS, STORE, read_record
from gmg_tui.session.client import Source
from gmg_tui.session.protocol import Ask, Bye, Command, Lines, Question, Topic, Update, Welcome
from gmg_tui.session.store.database import METRICS
from gmg_tui.session.store.reader import Stored, open_store

_LOG_LINES: Final = 5000
_LOG_BYTES: Final = 4 << 20
"""Limits of the end of a log that is sent; the rest is read from its file."""
_POINTS: Final = 720
"""Points of a chart."""
_RECENT_S: Final = 300.0
"""Seconds before a worker's end shown in its tile."""
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_NOT_RECORDED: Final = "not recorded"


class EndedSession(Source):
    """Answers in place of an engine that has exited, and refuses changes."""

    ended = True

    def __init__(self, welcome: Welcome, folder: Path, *, loss: str) -> None:
        super().__init__(welcome)
        self.loss = loss
        self._folder = folder
        self._lines: asyncio.Queue[Lines] = asyncio.Queue(maxsize=64)
        self._answers: dict[Question, Any] = {}

    @classmethod
    async def open(cls, folder: Path, session: Session, *, loss: str = "") -> Self:
        """Opens the session in `folder`. Raises `GmgError` if its store has no snapshot or cannot be read."""
        return cls(await asyncio.to_thread(_welcome, folder, session, loss), folder, loss=loss)

    async def events(self) -> AsyncIterator[Update | Lines | Bye]:
        """Yields the requested log lines."""
        while True:
            yield await self._lines.get()

    async def follow(self, *slots: str, tail: int) -> None:
        """Reads the last lines of these workers' logs. Raises `GmgError` if a log cannot be read."""
        for worker in filter(None, map(self.welcome.snapshot.worker, slots)):
            await self._lines.put(await asyncio.to_thread(self._last_lines, worker))

    def _last_lines(self, worker: Worker) -> Lines:
        """Returns the end of a worker's log, or in a sweep of its newest job's."""
        logs = [f"{LOGS}/{worker.slot}.log"]
        if worker.job is not None:
            with open_store(self._folder / STORE) as stored:
                logs += [ran.log for ran in stored.attempts_of(worker.job) if ran.slot == worker.slot and ran.log]
        path = self._folder / logs[-1]
        try:
            lines = _log_end(path)
        except FileNotFoundError:
            lines = ()
        except OSError as error:
            raise GmgError(f"{path}: the log cannot be read: {error.strerror}", 1) from error
        return Lines(worker.slot, max(0, worker.log_lines - len(lines)), lines)

    def _queue(self, first: int, count: int) -> tuple[JobRecord, ...]:
        """Returns a part of the queue in the engine's order."""

        def order(job: JobRecord) -> tuple[bool, float, int]:
            return not job.state.ended, (job.ended or 0.0) if job.state.ended else job.position, job.number

        with open_store(self._folder / STORE) as stored:
            return tuple(sorted(stored.jobs, key=order)[first : first + max(0, count)])

    def _details(self, slot: str) -> Details:
        """Returns a worker's attempts; its environment and GPU processes were not recorded."""
        worker, spec = self.welcome.snapshot.worker(slot), self.welcome.session.spec
        if worker is None:
            raise GmgError(f"no job has run on {slot}", 1)
        newest, job = self._concluded(worker.newest), worker.index + 1 if worker.job is None else worker.job
        with open_store(self._folder / STORE) as stored:
            ran = [self._concluded(each.attempt) for each in stored.attempts_of(job) if each.slot == slot]
        return Details(
            slot=slot,
            command=(spec.python, *(("-m",) if spec.module else ()), spec.script, *newest.args),
            cwd=spec.cwd,
            env={},
            unset=(_NOT_RECORDED,),
            egl=_NOT_RECORDED,
            attempts=(*(each for each in ran if each.number != newest.number), *([newest] if newest.number else [])),
            args=newest.given,
            extra_env=newest.env,
        )

    def _curves(self, slot: str) -> dict[str, Curve]:
        worker = self.welcome.snapshot.worker(slot)
        if worker is None:
            return {}
        with open_store(self._folder / STORE) as stored:
            ran = stored.curves_of(worker.index + 1 if worker.job is None else worker.job)
        return next((each.curves for each in reversed(ran) if each.slot == slot), {})

    def _speed(self, slot: str) -> SpeedFacts:
        worker = self.welcome.snapshot.worker(slot)
        if worker is None:
            raise GmgError(f"no job has run on {slot}", 1)
        return SpeedFacts(slot, worker.state, reason=worker.reason, recorded=worker.newest.verdict)

    def _tried(self) -> tuple[Tried, ...]:
        with open_store(self._folder / STORE) as stored:
            ran = [(each.slot, self._concluded(each.attempt)) for of in stored.attempts.values() for each in of]
        tried = TriedArguments()
        for slot, attempt in sorted(ran, key=lambda pair: pair[1].started):
            tried.add(slot, attempt)
        return tried.view((), self.welcome.snapshot.time)

    def _events(self) -> tuple[Occurrence, ...]:
        """Returns the starts and ends of attempts; alerts were not recorded."""
        with open_store(self._folder / STORE) as stored:
            queued = self.welcome.session.spec.sweep is not None
            jobs = {job.number: f"job {job.number} ({job.name})" for job in stored.each_job()} if queued else {}
            ran = [(each, self._concluded(each.attempt)) for of in stored.attempts.values() for each in of]
        events = []
        for where, each in ran:
            slot, who = where.slot, jobs.get(where.job, where.slot)
            began = f"{who} has started attempt {each.number}"
            events.append(Occurrence(0, each.started, OccurrenceKind.STARTED, began, slot))
            if each.ended is not None and each.state.ended:
                text = f"{who} has {each.state.value}{f': {each.reason}' if each.reason else ''}"
                events.append(Occurrence(0, each.ended, OccurrenceKind(each.state.value), text, slot))
        events.sort(key=lambda event: event.time)
        return tuple(structs.replace(event, number=number) for number, event in enumerate(events, 1))

    def _concluded(self, attempt: Attempt) -> Attempt:
        """Returns the attempt, failed if the engine died before its end."""
        if attempt.state.ended or not attempt.number:
            return attempt
        ended = max(attempt.started, self.welcome.snapshot.time) if attempt.ended is None else attempt.ended
        return structs.replace(attempt, state=WorkerState.FAILED, reason=ENGINE_DIED, ended=ended)

    def _answer(self, question: Command | Question) -> Any:
        match question:
            case Ask(topic=Topic.DETAILS, slot=slot):
                return self._details(slot)
            case Ask(topic=Topic.SERIES, slot=slot):
                with open_store(self._folder / STORE) as stored:
                    return next(iter(stored.series(_POINTS, slot)), Series(slot, self.welcome.snapshot.time, 1.0))
            case Ask(topic=Topic.CURVES, slot=slot):
                return question.select(self._curves(slot))
            case Ask(topic=Topic.QUEUE, first=first, count=count):
                return self._queue(first, count)
            case Ask(topic=Topic.TRIED):
                return self._tried()
            case Ask(topic=Topic.SPEED, slot=slot):
                return self._speed(slot)
            case Ask(topic=Topic.EVENTS):
                return self._events()
        raise GmgError(f"{self.welcome.session.spec.name} has ended: it cannot be changed", 1)

    async def _ask(self, question: Command | Question) -> Any:
        if not isinstance(question, Ask):
            return self._answer(question)
        if question not in self._answers:
            self._answers[question] = await asyncio.to_thread(self._answer, question)
        return self._answers[question]

    async def close(self) -> None:
        """Does nothing: files are open during requests only."""


def _welcome(folder: Path, session: Session, loss: str) -> Welcome:
    """Returns the session's last state, with its GPUs' metrics while workers ran. Raises `GmgError`."""
    with open_store(folder / STORE) as stored:
        snapshot = stored.last_snapshot
        if snapshot is None:
            name = session.spec.name
            raise GmgError(f"{name}: no snapshot was recorded; try: gmg-tui report {name}", 1)
        if (read := read_record(folder)) is not None:
            snapshot = read[0].with_ends(snapshot)
        snapshot = structs.replace(snapshot, samples=_samples(session, snapshot, stored))
        recent = tuple(stored.series(int(_RECENT_S), last_s=_RECENT_S))
    return Welcome(session, snapshot.after_loss(ENGINE_DIED) if loss else snapshot, recent, readonly=True)


def _samples(session: Session, snapshot: Snapshot, stored: Stored) -> tuple[GpuSample, ...]:
    """Returns the GPUs' metrics while workers ran: the last snapshot shows them idle."""
    samples = {sample.uuid: sample for sample in snapshot.samples}
    for row in sorted(stored.last_metrics().values(), key=lambda row: row.time):
        slot = session.slot(row.slot)
        if slot is not None and (gpu := slot.gpu) is not None:
            idle = GpuSample(gpu.uuid, memory_total_mib=gpu.memory_total_mib, power_limit_w=gpu.power_limit_w)
            last, metrics = samples.get(gpu.uuid, idle), {name: getattr(row, name) for name in METRICS if name != "fps"}
            samples[gpu.uuid] = structs.replace(last, age_s=None, throttle=None, processes=None, **metrics)
    return tuple(samples.values())


def _log_end(path: Path) -> tuple[str, ...]:
    """Returns the last lines of a log. Raises `OSError`."""
    with reading(path) as file:
        start = max(0, file.seek(0, os.SEEK_END) - _LOG_BYTES)
        file.seek(start)
        lines = _LINE_END.split(file.read())
    if not lines[-1]:
        lines.pop()
    return tuple(map(clean, lines[1 if start else 0 :][-_LOG_LINES:]))  # the first may be incomplete
