"""Sessions whose engine was killed: what they left behind is cleared away, once.

The engine's warden (`gmg_tui.engine.warden`) ends the workers of a killed engine, and holds the engine's lock until it has.
What is left then was left by both dying together: workers, a socket, and a record that says that all goes well.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import structs

from gmg_tui import remains
from gmg_tui import session as sessions
from gmg_tui.model import WorkerState
from gmg_tui.session import Found, Loss, WorkerBrief

_WARDEN = re.compile(rb"^(\S+ \S+) WARDEN: .* were ended: ([\d, ]+)$", re.MULTILINE)
"""What the warden writes into the engine's log."""
_LOG_BYTES = 1 << 16
"""How much of the end of the engine's log is read."""
_CONNECT_S = 1.0
_SOCKET_AGE_S = 10.0
"""A younger socket may be that of an engine that is about to listen."""
_WARDEN_S = 12.0
"""Somewhat longer than the warden's own waits."""
_LOOK_S = 0.1
_DIED = "the engine of its session died"


def clear(say: Callable[[str], None]) -> None:
    """Clear away what lost sessions of this user have left on this machine.

    Processes that are left are ended, stale sockets removed, and the records say what became of the sessions.

    Args:
        say: Takes a line for the person before a process is ended, and about what could not be done.
    """
    found = [_after_its_warden(one, say) for one in sessions.listing()]
    for one in found:
        if one.state == "lost" and one.record.loss is None and _is_here(one):
            _clear(one, say)
    _remove_stale_sockets({one.name for one in found if one.state == "running"})


def _after_its_warden(found: Found, say: Callable[[str], None]) -> Found:
    """A session whose engine was killed, once the warden has ended its workers; any other as it is."""
    if found.state != "running" or not _is_here(found) or _lives(found.record.session.engine_pid):
        return found
    say(f"{found.name}: its engine was killed; waiting for its workers to end")
    deadline = time.monotonic() + _WARDEN_S
    while found.state == "running" and time.monotonic() < deadline:
        time.sleep(_LOOK_S)  # nothing tells: the lock goes with the warden's process
        found = sessions.look(found.folder) or found
    return found


def _lives(pid: int) -> bool:
    """Whether there is such a process, other than one that is dead and has not been waited for."""
    try:
        stat = Path("/proc", str(pid), "stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


def _is_here(found: Found) -> bool:
    """Whether it ran on this machine; several may share the state folder."""
    return found.record.session.spec.host in {"", os.uname().nodename}


def _clear(found: Found, say: Callable[[str], None]) -> None:
    died = _died(found.folder)
    ended, stuck = remains.end(found.name, say)
    if stuck:
        # The record is left as it is, so that the next command tries again.
        say(f"{found.name}: the kernel does not let go of process {', '.join(map(str, stuck))}")
        return
    with suppress(OSError):
        Path(found.record.session.spec.socket).unlink(missing_ok=True)
    by_warden = _ended_by_warden(found.folder)
    loss = Loss(by_warden[0] if by_warden else died, (*(by_warden[1] if by_warden else ()), *ended))
    workers = tuple(map(_dead, found.record.workers))
    try:
        sessions.write_record(structs.replace(found.record, workers=workers, ended=loss.died, loss=loss))
    except OSError as error:
        say(f"{found.name}: cannot write {found.folder / sessions.RECORD}: {error.strerror}")


def _dead(worker: WorkerBrief) -> WorkerBrief:
    """The worker as it is once its engine has died; one that had ended before stays as it was."""
    if WorkerState(worker.state).ended:
        return worker
    return structs.replace(worker, state=WorkerState.FAILED.value, stuck=False, pid=None, reason=_DIED)


def _died(folder: Path) -> float:
    """When the session's files were written last, Unix seconds; the engine writes some of them all its life."""
    moments = [0.0]
    for path in (folder / sessions.RECORD, folder / sessions.ENGINE_LOG, *(folder / sessions.LOGS).glob("*.log")):
        with suppress(OSError):
            moments.append(path.stat().st_mtime)
    return max(moments)


def _ended_by_warden(folder: Path) -> tuple[float, tuple[int, ...]] | None:
    """When the warden had done its work, Unix seconds, and the PIDs that it ended; None when it had none, or died too."""
    try:
        with (folder / sessions.ENGINE_LOG).open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_BYTES))
            said = _WARDEN.search(log.read())
    except OSError:
        return None
    if said is None:
        return None
    try:
        moment = time.mktime(time.strptime(said[1].decode(), "%Y-%m-%d %H:%M:%S"))
    except ValueError:
        return None
    return moment, tuple(int(pid) for pid in said[2].split(b","))


def _remove_stale_sockets(running: set[str]) -> None:
    """Remove this user's sockets at which nobody listens any more.

    Args:
        running: The names of sessions whose engines are known to live; they are not disturbed.
    """
    for folder in sessions.runtime_folders():
        for path in folder.glob("*.sock"):
            with suppress(OSError):  # another gmg-tui has removed it, or it is not ours to remove
                if path.stem not in running and _is_stale(path):
                    path.unlink()


def _is_stale(path: Path) -> bool:
    """Whether nobody listens at a socket that is no longer young. Raises `OSError`."""
    about = path.lstat()
    if about.st_uid != os.getuid() or time.time() - about.st_mtime < _SOCKET_AGE_S:
        return False
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_CONNECT_S)
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            return True
    return False
