"""A small process beside the engine: when the engine is killed, it ends the engine's workers.

Its standard input names each worker's process group, and closes when the engine is gone, for whatever reason; after a
normal end nothing is left to be ended. It imports nothing of the project, to stay small: `python -I -S process.py
SESSION_ID` takes about 7 MiB.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

_STEPS = ((signal.SIGINT, 5.0), (signal.SIGTERM, 2.0), (signal.SIGKILL, 2.0))
"""Shorter waits than the engine's: nobody reads the workers' output, and their GPUs are needed."""
_CHECK_S = 0.1


def _left(lines: Iterable[bytes]) -> set[int]:
    """The process groups that live when the engine goes (`+N` has begun, `-N` has ended)."""
    groups: set[int] = set()
    for line in lines:
        if line.startswith(b"+"):
            groups.add(int(line[1:]))
        elif line.startswith(b"-"):
            groups.discard(int(line[1:]))
    return groups


def _members(groups: set[int], mark: bytes) -> set[int]:
    """The PIDs of what is alive of the groups, and of processes with `mark` in their environment."""
    pids: set[int] = set()
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are all that is wanted
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            fields = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()
            if fields[0] in (b"Z", b"X"):
                continue
            if int(fields[2]) in groups or mark in Path("/proc", name, "environ").read_bytes().split(b"\0"):
                pids.add(int(name))
        except OSError:
            continue  # gone, or another user's
    return pids


def _end(groups: set[int], mark: bytes) -> list[int]:
    """End them all. Returns the PIDs that were alive."""
    alive = first = _members(groups, mark)
    for number, wait_s in _STEPS:
        if not alive:
            break
        for pid in alive:
            try:
                os.kill(pid, number)
                os.kill(pid, signal.SIGCONT)  # a stopped one could not obey
            except (ProcessLookupError, PermissionError):
                continue  # it has ended meanwhile
        deadline = time.monotonic() + wait_s
        while alive and time.monotonic() < deadline:
            time.sleep(_CHECK_S)
            alive = _members(groups, mark)
    return sorted(first)


def main(session_id: str) -> None:
    """Wait for the engine's end, then end what it leaves behind, and log that to the engine's log (standard error)."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it ends with the engine, not before
    ended = _end(_left(sys.stdin.buffer), b"GMG_SESSION_ID=" + os.fsencode(session_id))
    if ended:
        moment = time.strftime("%Y-%m-%d %H:%M:%S")
        pids = ", ".join(map(str, ended))
        print(f"{moment} WATCHDOG: the engine is gone; its processes were ended: {pids}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
