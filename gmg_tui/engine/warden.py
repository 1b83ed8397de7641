"""A small process beside the engine: when the engine is killed, it ends the engine's workers.

It is told of each worker's process group on its standard input, which closes when the engine is gone, however that
came about. It imports nothing of the project, to stay small: `python -I -S warden.py SESSION` takes about 7 MiB.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

_STEPS = ((signal.SIGINT, 5.0), (signal.SIGTERM, 2.0), (signal.SIGKILL, 2.0))
"""Shorter waits than the engine's: nobody reads the workers' output any more, and their cards are waited for."""
_LOOK_S = 0.1


def _groups(lines: Iterable[bytes]) -> set[int]:
    """The process groups that live when the engine goes: `+N` has begun, `-N` has ended."""
    groups: set[int] = set()
    for line in lines:
        if line.startswith(b"+"):
            groups.add(int(line[1:]))
        elif line.startswith(b"-"):
            groups.discard(int(line[1:]))
    return groups


def _marks(session: str) -> set[bytes]:
    """Variables that only this session's processes carry; a session's name is unique in its state folder alone."""
    state = os.environ.get("XDG_STATE_HOME")
    marks = {f"GMG_SESSION={session}"} | ({f"XDG_STATE_HOME={state}"} if state else set())
    return {os.fsencode(mark) for mark in marks}


def _members(groups: set[int], marks: set[bytes]) -> set[int]:
    """The PIDs of what is alive of the groups, and of processes that carry the session's marks."""
    found: set[int] = set()
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are all that is wanted
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            fields = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()
            if fields[0] in (b"Z", b"X"):
                continue
            if int(fields[2]) in groups or marks <= set(Path("/proc", name, "environ").read_bytes().split(b"\0")):
                found.add(int(name))
        except OSError:
            continue  # gone, or somebody else's
    return found


def _end(groups: set[int], marks: set[bytes]) -> list[int]:
    """End them all. Returns the PIDs that were alive."""
    alive = first = _members(groups, marks)
    for number, wait_s in _STEPS:
        if not alive:
            break
        for pid in alive:
            try:
                os.kill(pid, number)
                os.kill(pid, signal.SIGCONT)  # one that is stopped could not obey
            except (ProcessLookupError, PermissionError):
                continue  # it has ended meanwhile
        deadline = time.monotonic() + wait_s
        while alive and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
            alive = _members(groups, marks)
    return sorted(first)


def main(session: str) -> None:
    """Wait for the engine's end, then end what it leaves behind, and say so in the engine's log (standard error)."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it ends with the engine, and never before
    groups = _groups(sys.stdin.buffer)
    ended = _end(groups, _marks(session))
    if ended:
        moment = time.strftime("%Y-%m-%d %H:%M:%S")
        pids = ", ".join(map(str, ended))
        print(f"{moment} WARDEN: the engine is gone; its processes were ended: {pids}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
