"""Cleans up, once, after sessions whose engine was killed.

The engine's watchdog ends the workers of a killed engine and keeps the engine's lock until it has. What is left comes
from both dying together: workers, a socket, and a record that reports the session as running.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from gmg_tui.errors import GmgError
from gmg_tui.model import Session, WorkerState
from gmg_tui.session.paths import ENGINE_LOG, LOGS, RECORD, lock, remove_stale_socket
from gmg_tui.session.records import (
    ENGINE_DIED,
    SILENT_S,
    Loss,
    SessionEntry,
    WorkerBrief,
    inspect,
    listing,
    read_record,
    write_record,
)
from gmg_tui.text import clean

if TYPE_CHECKING:
    import psutil

_WATCHDOG_S = 12.0
"""Slightly longer than the watchdog's timeouts."""
_GONE_S = 5.0
"""How long the kernel may take to end a killed process; one that waits for a driver may never end."""
_POLL_S = 0.05
_COMMAND_BYTES = 80
_ENDED = frozenset(state.value for state in WorkerState if state.ended)


def clear(report: Callable[[str], None]) -> None:
    """Kill what lost sessions of this user left on this machine, and update their records.

    Args:
        report: Takes a line for the user before a process is killed, and about anything that could not be done.
    """
    for listed in listing():
        entry = _after_its_watchdog(listed, report)
        if entry.state == "lost" and entry.record.loss is None:
            _clear(entry, report)


def _after_its_watchdog(entry: SessionEntry, report: Callable[[str], None]) -> SessionEntry:
    """A session whose engine was killed, once the watchdog has ended its workers; any other unchanged."""
    if not _is_orphaned(entry):
        return entry
    report(f"{entry.name}: its engine was killed; waiting for its workers to end")
    deadline = time.monotonic() + _WATCHDOG_S
    while _is_orphaned(entry) and time.monotonic() < deadline:
        time.sleep(_POLL_S)  # nothing to wait on: the lock goes with the watchdog's process
        entry = inspect(entry.folder) or entry
    return entry


def _is_orphaned(entry: SessionEntry) -> bool:
    """Whether its lock is held, but not by its engine, which did not write its end."""
    if entry.state != "running" or not entry.here:
        return False
    import psutil  # only needed for running sessions

    try:
        process = psutil.Process(entry.record.session.engine_pid)
        gone = process.status() in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}
    except psutil.Error:
        gone = True
    # One that ended in order may have written its end after `entry` was read; its watchdog outlives it for a moment.
    latest = read_record(entry.folder) if gone else None
    return gone and (latest is None or latest[0].ended is None)


def _clear(entry: SessionEntry, report: Callable[[str], None]) -> None:
    died = _last_written(entry.folder)
    session = entry.record.session
    if stuck := _kill(session, report):
        # The record stays unchanged, so that the next command tries again.
        report(f"{entry.name}: the kernel does not end process {', '.join(map(str, stuck))}")
        return
    with suppress(OSError):
        remove_stale_socket(Path(session.spec.socket))
    try:
        _write_loss(entry, Loss(died))
    except OSError as error:
        report(f"{entry.name}: cannot write {entry.folder / RECORD}: {error.strerror}")


def _kill(session: Session, report: Callable[[str], None]) -> list[int]:
    """Kill (SIGKILL) what is left of `session`; the PIDs that the kernel does not end."""
    import psutil

    reported = set[int]()
    deadline = time.monotonic() + _GONE_S
    while (left := processes(session)) and time.monotonic() < deadline:
        for process in left:
            with suppress(psutil.Error):  # it has ended
                if process.pid not in reported:
                    command = clean(" ".join(process.cmdline()).encode(errors="replace")[:_COMMAND_BYTES]).strip()
                    report(f"{session.spec.name}: ending process {process.pid} ({command})")
                    reported.add(process.pid)
                process.kill()  # no other process, should the PID have been reused meanwhile
        time.sleep(_POLL_S)
    return [process.pid for process in left]


def processes(session: Session) -> list[psutil.Process]:
    """The processes of this user whose environment has the id of `session`; not this one, its ancestors, or zombies."""
    import psutil

    def belongs(process: psutil.Process) -> bool:
        try:
            if process.uids().real != os.getuid() or process.status() == psutil.STATUS_ZOMBIE:
                return False
            return bool(session.id and process.environ().get("GMG_SESSION_ID") == session.id)
        except psutil.Error:
            return False

    spared = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    return [process for process in psutil.process_iter() if process.pid not in spared and belongs(process)]


def give_up(entry: SessionEntry) -> None:
    """Mark a session as lost because its machine is gone for good.

    Raises:
        GmgError: It is not one of another machine, or there are signs that its engine lives.
    """
    if not entry.away:
        raise GmgError(f"{entry.name} is {entry.state}, and not on another machine; leave out --gone", 1)
    if entry.silent_s <= SILENT_S:
        raise GmgError(f"{entry.name} is alive: {entry.away_text('stop')}", 1)
    descriptor = lock(entry.folder)
    try:
        _write_loss(entry, Loss(entry.written, given_up=True))
    except OSError as error:
        raise GmgError(f"cannot write {entry.folder / RECORD}: {error.strerror}", 1) from error
    finally:
        os.close(descriptor)


def _write_loss(entry: SessionEntry, loss: Loss) -> None:
    """Write the record of a lost session. Raises `OSError`."""
    workers = tuple(map(_dead, entry.record.workers))
    write_record(structs.replace(entry.record, workers=workers, ended=loss.died, loss=loss))


def _dead(worker: WorkerBrief) -> WorkerBrief:
    """The worker once its engine has died; one that had ended before stays unchanged."""
    if worker.state in _ENDED:
        return worker
    return structs.replace(worker, state=WorkerState.FAILED.value, stuck=False, pid=None, reason=ENGINE_DIED)


def _last_written(folder: Path) -> float:
    """When the session's files were last written, Unix seconds; a live engine keeps writing some of them."""
    moments = [0.0]
    for path in (folder / RECORD, folder / ENGINE_LOG, *(folder / LOGS).glob("*.log")):
        with suppress(OSError):
            moments.append(path.stat().st_mtime)
    return max(moments)
