"""Cleans up, once, after sessions whose engine was killed.

The engine's watchdog (`gmg_tui.engine.watchdog.process`) ends the workers of a killed engine and keeps the engine's
lock until it has. What is then left comes from both dying together: workers, a socket, and a record that says that the
session is running.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import structs

from gmg_tui import orphans, shares, sockets
from gmg_tui import session as sessions
from gmg_tui.errors import GmgError
from gmg_tui.files import open_regular
from gmg_tui.machine import Place
from gmg_tui.model import WorkerState
from gmg_tui.session import Found, Loss, WorkerBrief

_WATCHDOG = re.compile(rb"^(\S+ \S+) WATCHDOG: .* were ended: ([\d, ]+)$", re.MULTILINE)
"""What the watchdog writes to the engine's log."""
_LOG_BYTES = 1 << 16
"""How much of the end of the engine's log is read."""
_SOCKET_AGE_S = 10.0
"""A younger socket may belong to an engine that is about to listen."""
_WATCHDOG_S = 12.0
"""Slightly longer than the watchdog's own timeouts."""
_LOOK_S = 0.1
_DIED = "the engine of its session died"
_ENDED = frozenset(state.value for state in WorkerState if state.ended)


def clear(say: Callable[[str], None]) -> None:
    """Clean up what lost sessions of this user left on this machine.

    Remaining processes are killed, stale sockets removed, and the records updated.

    Args:
        say: Takes a line for the user before a process is killed, and about anything that could not be done.
    """
    found = [_after_its_watchdog(one, say) for one in sessions.listing()]
    for one in found:
        if one.state == "lost" and one.record.loss is None:
            _clear(one, say)
    _remove_stale_sockets({one.record.session.spec.socket for one in found if one.state == "running"})


def _after_its_watchdog(found: Found, say: Callable[[str], None]) -> Found:
    """A session whose engine was killed, once the watchdog has ended its workers; any other unchanged."""
    if not _is_orphaned(found):
        return found
    say(f"{found.name}: its engine was killed; waiting for its workers to end")
    deadline = time.monotonic() + _WATCHDOG_S
    while _is_orphaned(found) and time.monotonic() < deadline:
        time.sleep(_LOOK_S)  # nothing to wait on: the lock goes with the watchdog's process
        found = sessions.inspect(found.folder) or found
    return found


def _is_orphaned(found: Found) -> bool:
    """Whether its lock is held, but not by its engine."""
    return found.state == "running" and found.place is Place.HERE and not _is_alive(found.record.session.engine_pid)


def _is_alive(pid: int) -> bool:
    import psutil  # only needed after a crash

    try:
        return psutil.Process(pid).status() not in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}
    except psutil.Error:
        return False


def _clear(found: Found, say: Callable[[str], None]) -> None:
    died = _died(found.folder)
    ended, stuck = orphans.end(found.record.session, say)
    if stuck:
        # The record stays unchanged, so that the next command tries again.
        say(f"{found.name}: the kernel does not end process {', '.join(map(str, stuck))}")
        return
    with suppress(OSError):
        sockets.remove_stale(Path(found.record.session.spec.socket))
    with suppress(OSError):
        shares.remove_stale(found.name)
    by_watchdog = _ended_by_watchdog(found.folder, since=found.record.session.started)
    loss = Loss(by_watchdog[0] if by_watchdog else died, (*(by_watchdog[1] if by_watchdog else ()), *ended))
    try:
        _write_loss(found, loss)
    except OSError as error:
        say(f"{found.name}: cannot write {found.folder / sessions.RECORD}: {error.strerror}")


def give_up(found: Found) -> None:
    """Count a session as lost whose machine is gone for good, as a person says.

    Raises:
        GmgError: It is not one of another machine, or there are signs that its engine lives.
    """
    if found.place is not Place.ELSEWHERE or found.state != "running":
        raise GmgError(f"{found.name} is {found.state}, and not on another machine; leave out --gone", 1)
    if found.silent_s <= sessions.SILENT_S:
        raise GmgError(f"{found.name} is alive: {found.away_text('stop')}", 1)
    held = sessions.lock(found.folder)
    try:
        _write_loss(found, Loss(found.written, (), given_up=True))
    except OSError as error:
        raise GmgError(f"cannot write {found.folder / sessions.RECORD}: {error.strerror}", 1) from error
    finally:
        os.close(held)


def _write_loss(found: Found, loss: Loss) -> None:
    """Write the record of a lost session. Raises `OSError`."""
    workers = tuple(map(_dead, found.record.workers))
    sessions.write_record(structs.replace(found.record, workers=workers, ended=loss.died, loss=loss))


def _dead(worker: WorkerBrief) -> WorkerBrief:
    """The worker once its engine has died; one that had ended before stays unchanged."""
    if worker.state in _ENDED:
        return worker
    return structs.replace(worker, state=WorkerState.FAILED.value, stuck=False, pid=None, reason=_DIED)


def _died(folder: Path) -> float:
    """When the session's files were last written, Unix seconds; a live engine keeps writing some of them."""
    moments = [0.0]
    for path in (folder / sessions.RECORD, folder / sessions.ENGINE_LOG, *(folder / sessions.LOGS).glob("*.log")):
        with suppress(OSError):
            moments.append(path.stat().st_mtime)
    return max(moments)


def _ended_by_watchdog(folder: Path, *, since: float) -> tuple[float, tuple[int, ...]] | None:
    """When the watchdog was done, Unix seconds, and the PIDs that it ended; None when there were none, or it died too.

    A resumed session has had several engines, each with a watchdog: only the last line counts, and only if it was
    written after the last engine began (`since`, Unix seconds).
    """
    try:
        with open(open_regular(folder / sessions.ENGINE_LOG), "rb") as log:  # noqa: PTH123 - a descriptor
            log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_BYTES))
            said = _WATCHDOG.findall(log.read())
    except OSError:
        return None
    if not said:
        return None
    moment_text, pids = said[-1]
    try:
        moment = time.mktime(time.strptime(moment_text.decode(), "%Y-%m-%d %H:%M:%S"))
    except ValueError:
        return None
    # The line has whole seconds.
    return (moment, tuple(int(pid) for pid in pids.split(b","))) if moment >= int(since) else None


def _remove_stale_sockets(running: set[str]) -> None:
    """Remove this user's sockets on which no process listens.

    Args:
        running: Those of sessions whose engines are known to be alive, which are not probed.
    """
    for folder in sessions.runtime_folders():
        found: list[Path] = []
        with suppress(OSError):  # it is another user's, as XDG_RUNTIME_DIR is under su
            found.extend(folder.glob("*.sock"))
        for path in found:
            with suppress(OSError):  # another gmg-tui has removed it, or it is not ours to remove
                about = path.lstat()
                old = about.st_uid == os.getuid() and time.time() - about.st_mtime >= _SOCKET_AGE_S
                if old and str(path) not in running:
                    sockets.remove_stale(path)
