"""What a session leaves on the disk while it runs: `session.json`, `summary.json`, the phases' times."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol

from gmg_tui import session as sessions
from gmg_tui.engine import own_log, summary
from gmg_tui.engine.aside import aside
from gmg_tui.engine.logs import GIVEN_UP_S, PATIENCE_S
from gmg_tui.errors import GmgError
from gmg_tui.model import Session, Snapshot

_log = logging.getLogger(__name__)

_LOOK_S = 1.0
_FIGURES_S = 30.0
"""How often figures alone are a reason to write: each write is flushed to the disk."""


class Saved(Protocol):
    """Something that is saved along."""

    def save(self) -> None:
        """Write what has changed. Raises `OSError`."""
        ...


class Keeper:
    """Writes the session's files when a worker's state changes, and now and then.

    Args:
        session: The session.
        phase_times: Saved along.
        snapshot: Gives the present state.
        states: What of it is written soon after it has changed, to be compared.
        note: Takes a subject and what a person should know about it, None when all is well again.
    """

    def __init__(
        self,
        session: Session,
        phase_times: Saved,
        snapshot: Callable[[], Snapshot],
        states: Callable[[], object],
        note: Callable[[str, str | None], None],
    ) -> None:
        self._session = session
        self._phase_times = phase_times
        self._snapshot = snapshot
        self._states = states
        self._note = note
        self._writing = threading.Lock()
        self._ended = False
        """The last word is written: a write that was under way in its thread when the engine ended must not follow it."""

    async def run(self) -> None:
        """Keep the files up to date until cancelled; the disk is waited for in threads, not by the engine."""
        written: object = None
        due = 0.0
        while True:
            if await self._in_time(aside(self._put_back)):
                written = None
            states = self._states()
            if states != written or time.monotonic() >= due:
                if await self._in_time(aside(self.write, self._snapshot())):
                    written = states
                due = time.monotonic() + _FIGURES_S
            await asyncio.sleep(_LOOK_S)

    async def _in_time(self, work: Coroutine[Any, Any, bool]) -> bool:
        """What `work` on the disk returns; the session has a note while that takes longer than it may."""
        working = asyncio.create_task(work)
        done, _ = await asyncio.wait([working], timeout=PATIENCE_S)
        if done:
            return await working
        folder = self._session.spec.folder
        self._note("silent disk", f"{folder}: the disk does not answer; the session's files are not up to date")
        try:
            return await working
        finally:
            self._note("silent disk", None)

    async def end(self) -> None:
        """Write the last word; a disk that does not answer is given up."""
        try:
            async with asyncio.timeout(GIVEN_UP_S):
                await aside(self.write, self._snapshot(), ended=True)
        except TimeoutError:
            _log.warning("the disk does not answer: the session's end is not recorded")

    def _put_back(self) -> bool:
        """See that the session's folder is there, or nobody would find the session. Whether it had been removed."""
        folder = self._session.spec.folder
        try:
            removed = own_log.put_back(Path(folder))
        except (OSError, GmgError) as error:
            self._note("folder", f"{folder} was removed: {error}")
            return False
        if removed:
            self._note("folder", f"{folder} was removed and made anew; what the logs had before is gone")
        return removed

    def write(self, snapshot: Snapshot, *, ended: bool = False) -> bool:
        """Write all files. Returns whether that went well; if not, the session has a note about it."""
        with self._writing:
            if self._ended:
                return True
            self._ended = ended
            return self._write(snapshot, ended)

    def _write(self, snapshot: Snapshot, ended: bool) -> bool:
        briefs = tuple(sessions.WorkerBrief.of(worker) for worker in snapshot.workers)
        try:
            ended_at = time.time() if ended else None
            sessions.write_record(sessions.Record(self._session, briefs, ended_at, snapshot.queue))
            summary.write(self._session, snapshot)
            self._phase_times.save()
        except OSError as error:
            where = error.filename or self._session.spec.folder
            self._note("disk", f"{where}: {error.strerror}; the session's files are not up to date")
            return False
        self._note("disk", None)
        return True
