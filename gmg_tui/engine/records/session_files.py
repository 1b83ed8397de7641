"""A session's files on disk: `session.json`, phase times, and the lock, which is held through the engine's log."""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from gmg_tui import session as sessions
from gmg_tui.engine.clock import any_of
from gmg_tui.engine.output.logs import HUNG_DISK_S, MAX_DISK_WAIT_S
from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.machine.folders import make_private
from gmg_tui.model import Session, Snapshot
from gmg_tui.model.errors import GmgError

_log = logging.getLogger(__name__)

_STDERR = 2
"""Descriptor of the engine's standard error: its log, which holds the session's lock."""
NOT_ENDED = "it had not ended when its session did"
_CHECK_INTERVAL_S = 5.0
"""Interval between checks that the folder exists."""
_MIN_WRITE_GAP_S = 1.0
_METRICS_INTERVAL_S = 30.0
"""Interval between writes if only metrics have changed: each write is flushed to the disk."""


class SessionFiles:
    """Writes the session's files, after changes and at intervals.

    `save_phase_times` writes changed phase times (raises `OSError`); `note` shows a note on a subject; None removes it.
    """

    def __init__(
        self,
        session: Session,
        save_phase_times: Callable[[], None],
        snapshot: Callable[[], Snapshot],
        note: Callable[[str, str | None], None],
    ) -> None:
        self._session, self._save_phase_times, self._snapshot, self._note = session, save_phase_times, snapshot, note
        self._write_lock = threading.Lock()
        self._changed = asyncio.Event()
        """Set while the files are out of date."""
        self._ended = False
        """True once the final state is being written: no other write, still pending in a thread, may follow."""

    def changed(self) -> None:
        """Requests a write."""
        self._changed.set()

    async def run(self) -> None:
        """Keeps the files up to date until cancelled; only threads wait for the disk."""
        metrics_due = 0.0
        while True:
            await any_of(self._changed, timeout_s=_CHECK_INTERVAL_S)
            if await self._await_disk(in_daemon_thread(self._restore_folder)) or time.monotonic() >= metrics_due:
                self._changed.set()
            if self._changed.is_set():
                self._changed.clear()
                metrics_due = time.monotonic() + _METRICS_INTERVAL_S
                if not await self._await_disk(in_daemon_thread(self.write, self._snapshot())):
                    self._changed.set()
                await asyncio.sleep(_MIN_WRITE_GAP_S)

    async def _await_disk(self, work: Coroutine[Any, Any, bool]) -> bool:
        """Awaits `work` and returns its result; shows a note if the disk takes too long."""
        working = asyncio.create_task(work)
        done, _ = await asyncio.wait([working], timeout=HUNG_DISK_S)
        if done:
            return await working
        folder = self._session.spec.folder
        self._note("slow disk", f"{folder}: the disk does not answer; the session's files are not up to date")
        try:
            return await working
        finally:
            self._note("slow disk", None)

    async def end(self) -> None:
        """Writes the final state, but gives up on a disk that does not answer."""
        try:
            async with asyncio.timeout(MAX_DISK_WAIT_S):
                await in_daemon_thread(self.write, self._snapshot().after_loss(NOT_ENDED), ended=True)
        except TimeoutError:
            _log.warning("the disk does not answer: the session's end is not recorded")

    def _restore_folder(self) -> bool:
        """Recreates the session's folder, log and lock if they were removed or renamed. Returns True if so.

        Without the folder the session cannot be found; without the lock it counts as lost.
        """
        folder = self._session.spec.folder
        try:
            self._restore_rights()
            if _is_stderr(Path(folder, sessions.ENGINE_LOG)):
                return False
            make_private(Path(folder, sessions.LOGS))
            lock(Path(folder))
        except (OSError, GmgError) as error:
            self._note("folder", f"{folder} was removed: {error}")
            return False
        self._note("folder", f"{folder} was removed and recreated; earlier logs are lost")
        return True

    def _restore_rights(self) -> None:
        """Restores the user's permissions on the session's folder and logs, if they exist. Raises `OSError`."""
        folder = Path(self._session.spec.folder)
        with suppress(FileNotFoundError):
            if sessions.restore_rights(folder) or sessions.restore_rights(folder / sessions.LOGS):
                self._note("rights", f"{folder}: a script had changed its permissions; restored")

    def write(self, snapshot: Snapshot, *, ended: bool = False) -> bool:
        """Writes all files, unless `end` has. Returns True on success; otherwise shows a note with the reason."""
        with self._write_lock:
            if self._ended:
                return True
            self._ended = ended
            briefs = sessions.WorkerBrief.from_workers(snapshot.workers)
            try:
                self._restore_rights()
                ended_at = time.time() if ended else None
                sessions.write_record(sessions.Record(self._session, briefs, ended_at, snapshot.queue))
                self._save_phase_times()
            except OSError as error:
                path = error.filename or self._session.spec.folder
                self._note("disk", f"{path}: {error.strerror}; the session's files are not up to date")
                return False
            self._note("disk", None)
            return True


def _is_stderr(path: Path) -> bool:
    """Returns True if standard error goes to the file at `path`. Raises `OSError`."""
    try:
        return os.path.samestat(os.fstat(_STDERR), path.stat())
    except FileNotFoundError:
        return False


def lock(folder: Path) -> None:
    """Locks the session, and redirects standard error to the engine's log, until this process ends.

    The lock belongs to the open log file, which becomes standard error.
    Raises `GmgError` if another engine holds the lock, `OSError` if the folder is missing or not writable.
    """
    descriptor = sessions.lock(folder)
    os.dup2(descriptor, _STDERR)
    os.close(descriptor)
