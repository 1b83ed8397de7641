"""Follows all running sessions of this user on this machine, or those that are named."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from gmg_tui import session as sessions
from gmg_tui.client import EngineClient
from gmg_tui.errors import GmgError
from gmg_tui.metrics.view import View
from gmg_tui.model import Snapshot, WorkerState
from gmg_tui.protocol import Bye, Lines, Update
from gmg_tui.session import Found
from gmg_tui.store.totals import read_totals

LOOK_S = 2.0
"""How often sessions that come are looked for; those that go say so."""
TOTALS_S = 5.0
"""How often the stores are asked for what they have counted."""
REMEMBERED_S = 120.0
"""How long it is told how a session ended, so that a scrape each minute sees it."""


class Following:
    """The newest state of the sessions that are followed.

    Attributes:
        views: By the session's name. Another thread may take its values: they are frozen, or replaced whole.
        ended: How many sessions have ended, by outcome.
        found: Set once it has been looked for sessions, and those that run have answered.
    """

    def __init__(self, names: Collection[str], tell: Callable[[str], None]) -> None:
        self.views: dict[str, View] = {}
        self.ended: Counter[str] = Counter()
        self.found = asyncio.Event()
        self._names = frozenset(names)
        self._tell = tell
        self._told: dict[str, str] = {}
        """What was said last of each session that cannot be followed."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._records: dict[str, int] = {}
        """When the record of a session that does nothing was written, nanoseconds, by name: it need not be read again."""

    async def run(self) -> None:
        """Follow until cancelled; with names, until all those sessions have ended and been told of for a while."""
        counting = threading.Thread(target=self._count, args=(stop := threading.Event(),), daemon=True)
        counting.start()  # of its own, and never waited for: a disk that hangs must not keep anything else
        try:
            while True:
                await self._look()
                if self._names and not self._tasks and not self.views:
                    return
                await asyncio.sleep(LOOK_S)
        finally:
            stop.set()
            for task in self._tasks.values():
                task.cancel()

    async def _look(self) -> None:
        """Follow what has come, forget what ended long ago."""
        now = time.monotonic()
        for name, view in list(self.views.items()):
            if view.left is not None and now >= view.left + REMEMBERED_S:
                del self.views[name]
        come = await asyncio.to_thread(self._at_work)
        there = self._tasks.keys() | {found.name for found in come}
        for name in [name for name, view in self.views.items() if view.left is None and name not in there]:
            del self.views[name]  # it has gone without ever having answered
        begun = [self._follow(found) for found in come]
        if not self.found.is_set():
            if begun:  # an engine that does not answer is no reason to tell nothing of the others
                await asyncio.wait(begun, timeout=LOOK_S)
            self.found.set()

    def _at_work(self) -> list[Found]:
        """The sessions to follow that are not followed."""
        return [
            found
            for folder in sessions.folders()
            if folder.name not in self._tasks and (not self._names or folder.name in self._names)
            if (found := self._read(folder)) is not None
        ]

    def _read(self, folder: Path) -> Found | None:
        """The session in `folder`, if it runs here and has not done all its work; its engine may stay for a screen."""
        try:
            written = (folder / sessions.RECORD).stat().st_mtime_ns
        except OSError:
            return None
        if self._records.get(folder.name) == written:
            return None
        found = sessions.inspect(folder)
        if found is None:
            return None
        if found.state == "running":
            return found if not found.away and _works(found) else None
        self._records[folder.name] = written
        return None

    def _follow(self, found: Found) -> asyncio.Future[None]:
        """Begin to follow a session; done once its first snapshot is there, or it has refused."""
        first = asyncio.get_running_loop().create_future()
        self._tasks[found.name] = task = asyncio.create_task(self._session(found, first))

        def gone(_: object) -> None:
            self._tasks.pop(found.name, None)
            if not first.done():
                first.set_result(None)

        task.add_done_callback(gone)
        return first

    async def _session(self, found: Found, first: asyncio.Future[None]) -> None:
        session = found.record.session
        try:
            client = await EngineClient.connect(Path(session.spec.socket), session.id)
        except GmgError as error:
            if self._told.get(found.name) != str(error):
                self._told[found.name] = str(error)
                self._tell(f"gmg-tui: {found.name}: {error}")
            self.views.setdefault(found.name, View(session, heard=False))
            return
        self._told.pop(found.name, None)
        view, welcome = self.views.get(found.name), client.welcome
        if view is None or view.session.id != welcome.session.id:
            view = self.views[found.name] = View(welcome.session)
        elif welcome.snapshot.ended:  # its record does not say yet that it has ended, as is known
            await client.close()
            return
        view.left = None
        view.take(welcome.snapshot)
        first.set_result(None)
        try:
            async for event in client.events():
                match event:
                    case Update(snapshot=snapshot):
                        view.take(snapshot)
                    case Lines():
                        pass  # only those who follow workers get them
                    case Bye():
                        break
                if view.snapshot.ended:  # an engine does not end before its clients have gone
                    break
        finally:
            await client.close()
        await self._parted(found, view)

    async def _parted(self, found: Found, view: View) -> None:
        """A session has done its work, or lost its engine."""
        if view.snapshot.ended:
            outcome = _outcome(view.snapshot)
            view.left = time.monotonic()
        else:
            now = await asyncio.to_thread(sessions.inspect, found.folder)
            outcome = "stopped" if now is not None and now.state == "ended" else "lost"
            self.views.pop(found.name, None)
        self.ended[outcome] += 1

    def _count(self, stop: threading.Event) -> None:
        """Read the stores now and then, in a thread of its own."""
        while not stop.wait(TOTALS_S if self.views else LOOK_S / 4):
            for view in list(self.views.values()):
                with suppress(GmgError, OSError):  # those of the last time are kept
                    folder = Path(view.session.spec.folder)
                    view.totals = read_totals(folder / sessions.STORE, view.session.started)


def _works(found: Found) -> bool:
    """Whether its workers have not all ended, as far as its record says."""
    record = found.record
    if record.queue is not None:
        return not record.queue.ended
    return any(not WorkerState(worker.state).ended for worker in record.workers)


def _outcome(last: Snapshot) -> str:
    """How a session ended, as its exit status would say it."""
    queue = last.queue
    if last.tuning is not None:
        stopped = last.tuning.stopped
        failed = not stopped and all(answer.fastest is None for answer in last.tuning.answers)
    elif queue is not None:
        failed, stopped = queue.failed > 0 or queue.stranded, queue.finished < queue.jobs
    else:
        states = {worker.state for worker in last.workers}
        failed, stopped = WorkerState.FAILED in states, WorkerState.STOPPED in states
    return "failed" if failed else "stopped" if stopped else "finished"
