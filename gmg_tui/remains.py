"""The processes of a session whose engine is gone: found by the environment that they were started with, and ended."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from gmg_tui.text import clean

_GONE_S = 5.0
"""How long the kernel may take to let a killed process go; one that waits for a driver may take for ever."""
_COMMAND_BYTES = 80


class Remain(NamedTuple):
    """A process that was found."""

    pid: int
    command: str
    """The beginning of its command line."""


def end(session: str, say: Callable[[str], None]) -> tuple[list[int], list[int]]:
    """End what is left of the session called `session` with SIGKILL, each process after it was named through `say`.

    Returns:
        The PIDs that have ended, and those that the kernel does not let go.
    """
    ended: list[int] = []
    deadline = time.monotonic() + _GONE_S
    while (found := _holding(session)) and time.monotonic() < deadline:
        for remain, _ in found:
            if remain.pid not in ended:
                say(f"{session}: ending process {remain.pid} ({remain.command})")
        ended += [pid for pid in _kill(found, deadline) if pid not in ended]
    stuck = [remain.pid for remain, _ in found]
    _close(found)
    return ended, stuck


def find(session: str) -> list[Remain]:
    """The processes of this user whose environment says that they belong to the session called `session`.

    A session's name is unique in its state folder alone, so that has to be the same too. This process and those that
    it descends from are never among them.
    """
    found = _holding(session)
    _close(found)
    return [remain for remain, _ in found]


_Held = tuple[Remain, int]
"""A process, and a descriptor that stands for it (pidfd_open(2)), so that no stranger with its PID is signalled."""


def _holding(session: str) -> list[_Held]:
    spared = _ancestry()
    return [
        held
        for name in os.listdir("/proc")  # noqa: PTH208 - names are all that is wanted
        if name.isdigit() and int(name) not in spared and (held := _hold(int(name), session)) is not None
    ]


def _hold(pid: int, session: str) -> _Held | None:
    if not _belongs(pid, session):
        return None
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return None
    # Looked at again now that the PID cannot pass to another process unseen.
    if _belongs(pid, session):
        with suppress(OSError):
            command = Path("/proc", str(pid), "cmdline").read_bytes()[:_COMMAND_BYTES].replace(b"\0", b" ")
            return Remain(pid, clean(command).strip()), descriptor
    os.close(descriptor)
    return None


def _belongs(pid: int, session: str) -> bool:
    folder = Path("/proc", str(pid))
    try:
        if folder.stat().st_uid != os.getuid() or _state(folder) in b"ZX":
            return False
        raw = (folder / "environ").read_bytes()
    except OSError:
        return False
    if f"GMG_SESSION={session}".encode() not in raw:
        return False
    environ = dict(text.decode("utf-8", "surrogateescape").partition("=")[::2] for text in raw.split(b"\0"))
    return environ.get("GMG_SESSION") == session and _state_home(environ) == _state_home(os.environ)


def _state(folder: Path) -> bytes:
    return (folder / "stat").read_bytes().rpartition(b")")[2].split()[0]


def _state_home(environ: Mapping[str, str]) -> Path:
    """Where a process with this environment keeps its state (platformdirs and the XDG base directory specification)."""
    given = environ.get("XDG_STATE_HOME", "").strip()
    return Path(given) if given else Path(environ.get("HOME", "~")).expanduser() / ".local" / "state"


def _ancestry() -> frozenset[int]:
    pids = [os.getpid()]
    while pids[-1] > 1:
        try:
            stat = Path("/proc", str(pids[-1]), "stat").read_bytes()
        except OSError:
            break
        pids.append(int(stat.rpartition(b")")[2].split()[1]))
    return frozenset(pids)


def _kill(found: list[_Held], deadline: float) -> list[int]:
    """Kill these processes and close their descriptors; the PIDs of those that have ended by the deadline."""
    waiting = {descriptor: remain.pid for remain, descriptor in found}
    poll = select.poll()
    for descriptor in waiting:
        with suppress(ProcessLookupError, PermissionError):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        poll.register(descriptor, select.POLLIN)
    ended = []
    while waiting and (rest_s := deadline - time.monotonic()) > 0:
        for descriptor, _ in poll.poll(rest_s * 1000):
            poll.unregister(descriptor)
            os.close(descriptor)
            ended.append(waiting.pop(descriptor))
    for descriptor in waiting:
        os.close(descriptor)
    return ended


def _close(found: list[_Held]) -> None:
    for _, descriptor in found:
        os.close(descriptor)
