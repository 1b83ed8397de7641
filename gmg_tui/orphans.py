"""The processes of a session whose engine is gone: found by the environment they were started with, and killed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gmg_tui.model import Session
from gmg_tui.text import clean

if TYPE_CHECKING:
    import psutil

_GONE_S = 5.0
"""How long the kernel may take to end a killed process; one that waits for a driver may never end."""
_POLL_S = 0.05
_COMMAND_BYTES = 80


def end(session: Session, say: Callable[[str], None]) -> tuple[list[int], list[int]]:
    """Kill (SIGKILL) what is left of `session`; each process is first reported through `say`.

    Returns:
        The PIDs that have ended, and those that the kernel does not end.
    """
    import psutil  # only needed after a crash

    reported: list[int] = []
    deadline = time.monotonic() + _GONE_S
    while (found := find(session)) and time.monotonic() < deadline:
        for process in found:
            try:
                if process.pid not in reported:
                    command = clean(" ".join(process.cmdline()).encode(errors="replace")[:_COMMAND_BYTES]).strip()
                    say(f"{session.spec.name}: ending process {process.pid} ({command})")
                    reported.append(process.pid)
                process.kill()  # no other process, should the PID have been reused meanwhile
            except psutil.Error:
                continue  # it has ended
        time.sleep(_POLL_S)
    stuck = [process.pid for process in found]
    return [pid for pid in reported if pid not in stuck], stuck


def find(session: Session) -> list[psutil.Process]:
    """The processes of this user whose environment says that they belong to `session`.

    This process and its ancestors are never among them, nor are zombies.
    """
    import psutil

    spared = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    return [one for one in psutil.process_iter() if one.pid not in spared and _belongs(one, session)]


def _belongs(process: psutil.Process, session: Session) -> bool:
    import psutil

    try:
        if process.uids().real != os.getuid() or process.status() == psutil.STATUS_ZOMBIE:
            return False
        environ = process.environ()
    except psutil.Error:
        return False
    if session.id or "GMG_SESSION_ID" in environ:
        return bool(environ.get("GMG_SESSION_ID") == session.id)
    # An older record without an id: the name, which is unique only within its state folder.
    return environ.get("GMG_SESSION") == session.spec.name and _state_home(environ) == _state_home(os.environ)


def _state_home(environ: Mapping[str, str]) -> Path:
    """Where a process with this environment keeps its state (platformdirs and the XDG base directory specification)."""
    given = environ.get("XDG_STATE_HOME", "").strip()
    return Path(given) if given else Path(environ.get("HOME", "~")).expanduser() / ".local" / "state"
