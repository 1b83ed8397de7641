"""Cleans up, once, after sessions whose engine was killed.

The engine's watchdog ends the workers of a killed engine and keeps the engine's lock until it has, which takes seconds: until
then the session counts as running. What is left comes from both dying together: workers, a socket, and a record that
reports the session as running.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gmg_tui.model import Session
from gmg_tui.session.paths import RECORD, remove_stale_socket
from gmg_tui.session.records import SessionEntry, listing, write_record
from gmg_tui.text import clean

if TYPE_CHECKING:
    import psutil

_GONE_S = 5.0
"""How long the kernel may take to end a killed process; one that waits for a driver may never end."""
_POLL_S = 0.05
_COMMAND_BYTES = 200


def clear(report: Callable[[str], None]) -> None:
    """Kill what lost sessions of this user left on this machine, and update their records.

    Args:
        report: Takes a line for the user before a process is killed, and about anything that could not be done.
    """
    for entry in listing():
        if entry.state == "lost" and not entry.record.lost:
            _clear(entry, report)


def _clear(entry: SessionEntry, report: Callable[[str], None]) -> None:
    session = entry.record.session
    if stuck := _kill(session, report):
        # The record stays unchanged, so that the next command tries again.
        report(f"{entry.name}: the kernel does not end process {', '.join(map(str, stuck))}")
        return
    with suppress(OSError):
        remove_stale_socket(Path(session.spec.socket))
    try:
        write_record(entry.record.after_loss(entry.written))
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
    """The processes whose environment has the id of `session`; not this one, its ancestors, or zombies."""
    import psutil

    spared = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    return [
        process
        for process in psutil.process_iter(["environ"])  # None of a zombie, and of another user's process
        if session.id and (process.info["environ"] or {}).get("GMG_SESSION_ID") == session.id
        if process.pid not in spared
    ]
