"""Follows all running sessions of this user on this machine."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from gmg_tui import session as sessions
from gmg_tui.client import EngineClient
from gmg_tui.errors import GmgError
from gmg_tui.model import Session, Snapshot, WorkerState
from gmg_tui.protocol import Update
from gmg_tui.session import SessionEntry
from gmg_tui.store.reader import open_store

SCAN_S = 2.0
"""How often new sessions are looked for."""
SILENT_S = 15.0
"""After how long without a snapshot, of which an engine sends one each second, its session counts as unreachable."""
REMEMBERED_S = 120.0
"""How long an ended session is exported, so that a scrape each minute sees its end."""


class Totals:
    """What a session has counted, by slot, from its store."""

    def __init__(self) -> None:
        self.restarts = Counter[str]()
        self.failures = Counter[str]()
        self.energy_j: dict[str, float] = {}


class View:
    """The newest state of a session. Its attributes are replaced whole: the thread of a scrape may read them at any time."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.snapshot = Snapshot(time=session.started, elapsed_s=0.0, workers=())
        self.ended_at: float | None = None
        """When it had done all its work, monotonic seconds; None while it runs."""
        self._updated = -math.inf

    @property
    def silent(self) -> bool:
        """Whether its engine does not answer."""
        return self.ended_at is None and time.monotonic() - self._updated > SILENT_S

    def update(self, snapshot: Snapshot) -> None:
        """Take a newer snapshot."""
        self.snapshot, self._updated = snapshot, time.monotonic()

    def totals(self) -> Totals | None:
        """What its store has now; None where that cannot be read: a 0 then would make a counter jump."""
        totals = Totals()
        try:
            with open_store(Path(self.session.spec.folder) / sessions.STORE) as stored:
                for attempts in stored.attempts.values():
                    for ran in attempts:
                        totals.restarts[ran.slot] += ran.attempt.number > 1
                        totals.failures[ran.slot] += ran.attempt.state is WorkerState.FAILED
                for job in stored.each_job():
                    if job.slot is not None and job.energy_j is not None:
                        totals.energy_j[job.slot] = totals.energy_j.get(job.slot, 0.0) + job.energy_j
        except GmgError:
            return None
        return totals


class Following:
    """The sessions that are followed.

    Attributes:
        views: By the session's name.
        ended: How many sessions have ended, by outcome.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self.views: dict[str, View] = {}
        self.ended: Counter[str] = Counter()
        self._warn = warn
        self._warned: dict[str, str] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._over: dict[str, int] = {}
        """When the record of an ended session was written, nanoseconds, by name: it need not be read again."""

    async def run(self) -> None:
        """Follow until cancelled."""
        try:
            while True:
                await self._scan()
                await asyncio.sleep(SCAN_S)
        finally:
            for task in self._tasks.values():
                task.cancel()

    async def _scan(self) -> None:
        now = time.monotonic()
        for name, view in list(self.views.items()):
            if view.ended_at is not None and now >= view.ended_at + REMEMBERED_S:
                del self.views[name]
        for entry in await asyncio.to_thread(lambda: list(self._unfollowed())):
            self._tasks[entry.name] = task = asyncio.create_task(self._follow(entry))
            task.add_done_callback(lambda _, name=entry.name: self._tasks.pop(name))  # type: ignore[misc]

    def _unfollowed(self) -> Iterator[SessionEntry]:
        """The sessions at work here that are not followed yet."""
        for folder in sessions.folders():
            if folder.name in self._tasks:
                continue
            try:
                written = (folder / sessions.RECORD).stat().st_mtime_ns
            except OSError:
                continue
            entry = sessions.inspect(folder) if self._over.get(folder.name) != written else None
            if entry is not None and entry.state == "running" and not entry.away and _works(entry):
                yield entry
            elif entry is not None and entry.state != "running":
                self._over[folder.name] = written

    async def _follow(self, entry: SessionEntry) -> None:
        session = entry.record.session
        try:
            client = await EngineClient.connect(Path(session.spec.socket), session.id)
        except GmgError as error:
            if self._warned.get(entry.name) != str(error):
                self._warned[entry.name] = str(error)
                self._warn(f"gmg-tui: {entry.name}: {error}")
            self.views.setdefault(entry.name, View(session))
            return
        self._warned.pop(entry.name, None)
        view = self.views.get(entry.name)
        if view is not None and view.ended_at is not None and view.session.id == client.welcome.session.id:
            await client.close()  # it has ended, though its record does not have that yet
            return
        view = self.views[entry.name] = View(client.welcome.session)
        view.update(client.welcome.snapshot)
        try:
            async for event in client.events():
                if isinstance(event, Update):
                    view.update(event.snapshot)
                if view.snapshot.ended:  # an engine does not end before its clients have gone
                    break
        except GmgError:
            pass  # the connection is lost: whether the session has ended is looked up below
        finally:
            await client.close()
        if view.snapshot.ended:
            view.ended_at = time.monotonic()
            self.ended[view.snapshot.outcome] += 1
            return
        now = await asyncio.to_thread(sessions.inspect, entry.folder)
        self.views.pop(entry.name, None)
        self.ended["stopped" if now is not None and now.state == "ended" else "lost"] += 1


def _works(entry: SessionEntry) -> bool:
    """Whether its workers have not all ended, as far as its record shows."""
    record = entry.record
    if record.queue is not None:
        return not record.queue.ended
    return any(not WorkerState(worker.state).ended for worker in record.workers)
