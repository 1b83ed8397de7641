"""A session that has ended, read from its folder: its last snapshot, its records and its logs, read-only."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeVar

from msgspec import structs

from gmg_tui import protocol
from gmg_tui.client import Source
from gmg_tui.errors import GmgError
from gmg_tui.files import open_regular
from gmg_tui.model import (
    Details,
    JobRecord,
    QueueView,
    Series,
    Session,
    Snapshot,
    TriedView,
    Worker,
    WorkerState,
)
from gmg_tui.protocol import Answer, Ask, Bye, Lines, Request, Topic, Update, Welcome
from gmg_tui.results.tried import TriedArguments
from gmg_tui.session import ENGINE_DIED, LOGS, STORE
from gmg_tui.store.reader import Stored, open_store
from gmg_tui.store.records import JobAttempt, MetricsRow
from gmg_tui.text import clean

T = TypeVar("T")

_LOG_LINES: Final = 5000
_LOG_BYTES: Final = 4 << 20
"""So much of a log's end is read; the pager shows all of it."""
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_RECENT_S: Final = 900
_POINTS: Final = 720
"""Points of a chart, at most."""
_NOT_RECORDED: Final = "not recorded"


class EndedSession(Source):
    """Answers for an engine that has exited. Requests that would change something are refused.

    Attributes:
        loss: How the session was lost, in one line; empty if it ended in order.
    """

    ended = True

    def __init__(self, welcome: Welcome, folder: Path, *, loss: str) -> None:
        super().__init__(welcome)
        self.loss = loss
        self._folder = folder
        self._lines: asyncio.Queue[Lines] = asyncio.Queue(maxsize=64)

    @classmethod
    async def open(cls, folder: Path, session: Session, *, loss: str = "") -> Self:
        """The session in `folder`.

        Raises:
            GmgError: Nothing was recorded, or it cannot be read.
        """

        def read(stored: Stored) -> tuple[Snapshot | None, tuple[Series, ...]]:
            snapshot = stored.last_snapshot
            if snapshot is None:
                return None, ()
            rows = stored.metrics(_POINTS)
            return snapshot, tuple(_series(rows, worker.slot, snapshot.time - _RECENT_S) for worker in snapshot.workers)

        snapshot, recent = await _in_thread(folder / STORE, read)
        if snapshot is None:
            name = session.spec.name
            raise GmgError(f"{name}: no snapshot was recorded; for what was recorded: gmg-tui report {name}", 1)
        if loss:
            snapshot = structs.replace(snapshot, workers=tuple(map(_after_loss, snapshot.workers)))
        welcome = Welcome(protocol.VERSION, session, snapshot, recent, readonly=True)
        return cls(welcome, folder, loss=loss)

    async def events(self) -> AsyncIterator[Update | Lines | Bye]:
        """The log lines that were requested."""
        while True:
            yield await self._lines.get()

    async def follow(self, *slots: str, tail: int) -> None:
        """Send the last lines of these workers' logs. Raises `GmgError` when a log cannot be read."""
        for slot in slots:
            path = self._folder / await _in_thread(self._folder / STORE, partial(_log_of, slot=slot))
            try:
                lines = await asyncio.to_thread(_log_end, path)
            except FileNotFoundError:
                lines = ()
            except OSError as error:
                raise GmgError(f"{path}: the log cannot be read: {error.strerror}", 1) from error
            worker = self.welcome.snapshot.worker(slot)
            printed = worker.log_lines if worker is not None else 0
            await self._lines.put(Lines(slot, max(0, printed - len(lines)), lines))

    async def _answer(self, number: int, request: Request) -> Answer:
        session, snapshot = self.welcome.session, self.welcome.snapshot

        if not isinstance(request, Ask):
            raise GmgError(f"{session.spec.name} has ended: it cannot be changed", 1)

        def answer(stored: Stored) -> object:
            match request.topic:
                case Topic.DETAILS:
                    return _details(stored, session, snapshot, request.slot)
                case Topic.SERIES:
                    return _series(stored.metrics(_POINTS), request.slot)
                case Topic.QUEUE:
                    return _queue(stored, session, snapshot, request.first, request.count)
                case Topic.TRIED:
                    return _tried(stored, snapshot.time)

        return Answer(number, value=await _in_thread(self._folder / STORE, answer))

    async def close(self) -> None:
        """Nothing is open between requests."""


def _after_loss(worker: Worker) -> Worker:
    """The worker once its engine has died; one that had ended before stays unchanged."""
    if worker.state.ended:
        return worker
    return structs.replace(worker, state=WorkerState.FAILED, stuck=None, stopping=None, reason=ENGINE_DIED)


async def _in_thread(path: Path, reading: Callable[[Stored], T]) -> T:
    """Read the store in a thread: a disk may take its time. Raises `StoreError`."""

    def read() -> T:
        with open_store(path) as stored:
            return reading(stored)

    return await asyncio.to_thread(read)


def _in_order(stored: Stored) -> list[JobAttempt]:
    """All attempts, in the order of their starts."""
    return sorted((ran for each in stored.attempts.values() for ran in each), key=lambda ran: ran.attempt.started)


def _log_of(stored: Stored, slot: str) -> str:
    """The path of the newest log of a slot, in the session's folder."""
    logs = [ran.log for ran in _in_order(stored) if ran.slot == slot and ran.log]
    return logs[-1] if logs else f"{LOGS}/{slot}.log"


def _log_end(path: Path) -> tuple[str, ...]:
    """The last lines of a log. Raises `OSError`."""
    with open(open_regular(path), "rb") as file:  # noqa: PTH123 - a descriptor
        start = max(0, file.seek(0, os.SEEK_END) - _LOG_BYTES)
        file.seek(start)
        lines = _LINE_END.split(file.read())
    if not lines[-1]:
        lines.pop()
    return tuple(map(clean, lines[1 if start else 0 :][-_LOG_LINES:]))  # the first of them may have begun before


def _series(metrics: Iterable[MetricsRow], slot: str, start: float | None = None) -> Series:
    """The metrics of a slot from `start` (Unix time) on, or over its whole life."""
    rows = [row for row in metrics if row.slot == slot and (start is None or row.time >= start)]
    if not rows:
        return Series(slot, 0.0, 1.0)
    step_s = max(1.0, (rows[-1].time - rows[0].time) / max(1, len(rows) - 1))
    by_step: dict[int, MetricsRow] = {round((row.time - rows[0].time) / step_s): row for row in rows}
    points = [by_step.get(step) for step in range(max(by_step) + 1)]

    def column(field: str) -> tuple[float | None, ...]:
        return tuple(None if row is None else getattr(row, field) for row in points)

    rates = zip(column("fps_settled"), column("fps"), strict=True)
    fps = tuple(printed if settled is None else settled for settled, printed in rates)
    sm_pct = column("sm_pct") if any(row.sm_pct is not None for row in rows) else ()
    others = (column("gpu_util_pct"), column("memory_used_mib"), column("power_w"), sm_pct)
    return Series(slot, rows[-1].time, step_s, fps, *others)


def _queue(stored: Stored, session: Session, snapshot: Snapshot, first: int, count: int) -> QueueView:
    """A part of the queue: what ended in order of its end, then the rest in order of the queue."""

    def order(job: JobRecord) -> tuple[bool, float, int]:
        return not job.state.ended, (job.ended or 0.0) if job.state.ended else job.position, job.number

    jobs = sorted(stored.jobs, key=order)
    version = snapshot.queue.version if snapshot.queue is not None else 0
    return QueueView(version, first, len(jobs), tuple(jobs[first : first + max(0, count)]), ())


def _tried(stored: Stored, now: float) -> TriedView:
    tried = TriedArguments()
    for ran in _in_order(stored):
        attempt = ran.attempt
        if attempt.ended is None:
            attempt = structs.replace(attempt, state=WorkerState.FAILED, reason=ENGINE_DIED, ended=now)
        tried.add(ran.slot, attempt)
    return tried.view((), now)


def _details(stored: Stored, session: Session, snapshot: Snapshot, slot: str) -> Details:
    """The attempts of a worker; its environment and the processes on its GPU were not recorded."""
    worker = snapshot.worker(slot)
    if worker is None:
        raise GmgError(f"no job has run on {slot}", 1)
    attempts = [ran.attempt for ran in _in_order(stored) if ran.slot == slot and worker.job in {None, ran.job}]
    last, spec = attempts[-1] if attempts else worker.newest, session.spec
    return Details(
        slot=slot,
        command=(spec.python, *(("-m",) if spec.module else ()), spec.script, *last.args),
        cwd=spec.cwd,
        env={},
        unset=(_NOT_RECORDED,),
        egl=_NOT_RECORDED,
        attempts=tuple(attempts),
        args=last.given,
        extra_env=last.env,
    )
