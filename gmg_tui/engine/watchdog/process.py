"""A small process that ends the workers if the engine is killed.

Its standard input has the session's id, which other users must not see in `ps`: they could give it to processes of their
own. Then it names each worker's process group, and closes when the engine is gone, for whatever reason; after a normal end
no worker is left. To stay small it imports nothing from the project: `python -I -S process.py` takes about 7 MiB.
"""

import os
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from threading import Thread

_STEPS = ((signal.SIGINT, 5.0), (signal.SIGTERM, 2.0), (signal.SIGKILL, 2.0))
"""Shorter waits than the engine's: nobody reads the workers' output, and the GPUs are needed."""
_CHECK_INTERVAL_S = 0.1
_ENVIRON_TIMEOUT_S = 1.0
"""Time limit for reading environments: processes in a hung driver may block it."""
_MAX_ENVIRON_BYTES = 8 << 20
"""Limit of an environment: a process may map any memory there."""
_DEAD = (b"Z", b"X")

Key = tuple[int, int]
"""A process's PID and start (ticks since boot), which together are unique."""


def _fields(pid: int) -> list[bytes]:
    """Returns the fields of `/proc/PID/stat` after the name (proc(5)). Raises `OSError` if there is no process."""
    file = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    try:
        return os.read(file, 4096).rpartition(b")")[2].split()
    finally:
        os.close(file)


def start_of(pid: int) -> int:
    """Returns a process's start in ticks since boot; 0 if there is none."""
    try:
        return int(_fields(pid)[19])
    except (OSError, IndexError):
        return 0


def _live_groups(lines: Iterable[bytes]) -> set[Key]:
    """Returns the leaders of groups alive at the engine's end (`+N START` begins one, `-N START` ends it)."""
    leaders: set[Key] = set()
    for line in lines:
        number, start = line[1:].split()
        change = leaders.add if line.startswith(b"+") else leaders.discard
        change((int(number), int(start)))
    return leaders


class _Processes:
    """Finds the live processes of the groups of `leaders`, and those with `mark` in their environment."""

    def __init__(self, leaders: set[Key], mark: bytes) -> None:
        self._leaders, self._mark = leaders, mark
        self._groups: set[int] = set()
        """Groups whose leader has been seen."""
        self._marked: set[Key] = set()
        self._reading: set[Key] = set()

    def alive(self) -> set[Key]:
        """Returns the live processes."""
        groups: dict[Key, int] = {}
        for name in os.listdir("/proc"):  # noqa: PTH208 - only names are needed
            if not name.isdigit() or int(name) == os.getpid():
                continue
            with suppress(OSError, IndexError):  # it is gone
                fields = _fields(int(name))
                if fields[0] not in _DEAD:
                    groups[int(name), int(fields[19])] = int(fields[2])
        # An ended group's number may be reused, by a leader with another start, which may end too.
        self._groups |= {group for group, start in self._leaders if start_of(group) == start}
        found = {key for key, group in groups.items() if group in self._groups}
        others = [key for key in groups if key not in found | self._marked | self._reading]
        reader = Thread(target=self._read, args=(others,), daemon=True)
        with suppress(RuntimeError):  # no thread can be started: use the groups alone
            reader.start()
            reader.join(_ENVIRON_TIMEOUT_S)
        return found | (self._marked & groups.keys())

    def _read(self, keys: list[Key]) -> None:
        for key in keys:
            self._reading.add(key)
            with suppress(OSError), open(f"/proc/{key[0]}/environ", "rb") as file:  # noqa: PTH123 - without pathlib
                if self._mark in b"\0%s\0" % file.read(_MAX_ENVIRON_BYTES):
                    self._marked.add(key)
            self._reading.discard(key)


def _send(key: Key, number: int) -> None:
    """Sends a signal to exactly that process, even if its PID is reused."""
    pid, start = key
    try:
        handle = os.pidfd_open(pid)
    except (AttributeError, OSError):  # an old kernel or Python, a sandbox, or it has ended
        handle = None
    try:
        if start_of(pid) != start:
            return
        try:
            if handle is None:
                raise OSError
            signal.pidfd_send_signal(handle, number)
        except OSError:
            with suppress(OSError):
                os.kill(pid, number)
    finally:
        if handle is not None:
            os.close(handle)


def _end(processes: _Processes) -> list[int]:
    """Ends all processes. Returns the PIDs that were alive."""
    alive = first = processes.alive()
    for number, wait_s in _STEPS:
        if not alive:
            break
        for key in alive:
            _send(key, number)
            _send(key, signal.SIGCONT)  # a stopped process could not handle the signal
        deadline = time.monotonic() + wait_s
        while alive and time.monotonic() < deadline:
            time.sleep(_CHECK_INTERVAL_S)
            alive = processes.alive()
    return sorted(pid for pid, _ in first)


def main() -> None:
    """Waits for the engine's end, then ends leftover workers and reports that in the engine's log (standard error)."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # end with the engine, not before
    session_id = sys.stdin.buffer.readline().strip()
    if not session_id:
        return  # the engine was killed before it had any worker
    if ended := _end(_Processes(_live_groups(sys.stdin.buffer), b"\0GMG_SESSION_ID=%s\0" % session_id)):
        moment = time.strftime("%Y-%m-%d %H:%M:%S")
        pids = ", ".join(map(str, ended))
        print(f"{moment} WATCHDOG: the engine is gone; its processes were ended: {pids}", file=sys.stderr)


if __name__ == "__main__":
    main()
