"""A session that has ended, read from its folder: its last snapshot, its queue and its logs, read-only."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, Self

from gmg_tui.machine.files import open_regular
from gmg_tui.model import Details, JobRecord, Series, Session, Snapshot, Worker
from gmg_tui.model.errors import GmgError
from gmg_tui.model.text import clean
from gmg_tui.session import ENGINE_DIED, LOGS, STORE
from gmg_tui.session.client import Source
from gmg_tui.session.protocol import Ask, Bye, Lines, Question, Topic, Update, Welcome
from gmg_tui.session.store.reader import open_store

_LOG_LINES: Final = 5000
_LOG_BYTES: Final = 4 << 20
"""So much of a log's end is read; the pager shows all of it."""
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_NOT_RECORDED: Final = "not recorded"


class EndedSession(Source):
    """Answers for an engine that has exited. Requests that would change something are refused."""

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
        snapshot = await asyncio.to_thread(_last_snapshot, folder / STORE)
        if snapshot is None:
            name = session.spec.name
            raise GmgError(f"{name}: no snapshot was recorded; for what was recorded: gmg-tui report {name}", 1)
        if loss:
            snapshot = snapshot.after_loss(ENGINE_DIED)
        welcome = Welcome(session, snapshot, (), readonly=True)
        return cls(welcome, folder, loss=loss)

    async def events(self) -> AsyncIterator[Update | Lines | Bye]:
        """The log lines that were requested."""
        while True:
            yield await self._lines.get()

    async def follow(self, *slots: str, tail: int) -> None:
        """Send the last lines of these workers' logs. Raises `GmgError` when a log cannot be read."""
        for worker in filter(None, map(self.welcome.snapshot.worker, slots)):
            await self._lines.put(await asyncio.to_thread(self._last_lines, worker))

    def _last_lines(self, worker: Worker) -> Lines:
        """The end of a worker's log; in a sweep of its newest job's."""
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
        """A part of the queue: what ended in order of its end, then the rest in order of the queue."""

        def order(job: JobRecord) -> tuple[bool, float, int]:
            return not job.state.ended, (job.ended or 0.0) if job.state.ended else job.position, job.number

        with open_store(self._folder / STORE) as stored:
            return tuple(sorted(stored.jobs, key=order)[first : first + max(0, count)])

    def _details(self, slot: str) -> Details:
        """A worker's attempts; its environment and the processes on its GPU were not recorded."""
        worker, spec = self.welcome.snapshot.worker(slot), self.welcome.session.spec
        if worker is None:
            raise GmgError(f"no job has run on {slot}", 1)
        newest, job = worker.newest, worker.index + 1 if worker.job is None else worker.job
        with open_store(self._folder / STORE) as stored:
            ran = [each.attempt for each in stored.attempts_of(job) if each.slot == slot]
        return Details(
            slot=slot,
            command=(spec.python, *(("-m",) if spec.module else ()), spec.script, *newest.args),
            cwd=spec.cwd,
            env={},
            unset=(_NOT_RECORDED,),
            egl=_NOT_RECORDED,
            attempts=(*(each for each in ran if each.number < newest.number), *([newest] if newest.number else [])),
            args=newest.given,
            extra_env=newest.env,
        )

    async def _ask(self, question: Question) -> Any:
        session, snapshot = self.welcome.session, self.welcome.snapshot
        name = session.spec.name
        match question:
            case Ask(topic=Topic.DETAILS, slot=slot):
                return await asyncio.to_thread(self._details, slot)
            case Ask(topic=Topic.SERIES, slot=slot):
                return Series(slot, snapshot.time, 1.0)
            case Ask(topic=Topic.QUEUE, first=first, count=count):
                return await asyncio.to_thread(self._queue, first, count)
            case Ask(topic=Topic.TRIED):
                raise GmgError(f"{name} has ended; for what was tried: gmg-tui report {name}", 1)
        raise GmgError(f"{name} has ended: it cannot be changed", 1)

    async def close(self) -> None:
        """Nothing is open between requests."""


def _last_snapshot(path: Path) -> Snapshot | None:
    with open_store(path) as stored:
        return stored.last_snapshot


def _log_end(path: Path) -> tuple[str, ...]:
    """The last lines of a log. Raises `OSError`."""
    with open(open_regular(path), "rb") as file:  # noqa: PTH123 - a descriptor
        start = max(0, file.seek(0, os.SEEK_END) - _LOG_BYTES)
        file.seek(start)
        lines = _LINE_END.split(file.read())
    if not lines[-1]:
        lines.pop()
    return tuple(map(clean, lines[1 if start else 0 :][-_LOG_LINES:]))  # the first of them may have begun before
