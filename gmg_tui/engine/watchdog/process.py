"""A small process that ends the workers if the engine is killed.

The engine sends the session's ID to standard input, as other users could see an argument in `ps` and give it to processes
of their own. It then sends the start and end of each process group. Standard input closes when the engine ends for any reason;
after a normal end no worker is left. If an argument gives a number of seconds, the engine also sends empty lines as signs of
life, and counts as ended after so many without one. To stay small, it imports only `procfs` from the project (`python -I -S` takes about 7 MiB).
"""

import os
import select
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from threading import Thread

sys.path.append(__file__.rsplit("/", 4)[0])  # `-S` leaves out the folder of packages
from gmg_tui.machine import procfs

_SIGNAL_STEPS = ((signal.SIGINT, 5.0), (signal.SIGTERM, 2.0), (signal.SIGKILL, 2.0))
"""Signals, each with the seconds to wait after it: less than the engine waits, as nobody reads the workers' output."""
_CHECK_INTERVAL_S = 0.1
_ENVIRON_TIMEOUT_S = 1.0
"""Time limit for reading environments: processes in a hung driver may block it."""
_MAX_ENVIRON_BYTES = 8 << 20
"""Limit on reading an environment, which a process can make as large as its memory."""

Key = tuple[int, int]
"""A process's PID and start (ticks since boot), which together are unique."""


def read_start(pid: int) -> int:
    """Returns the start of a process in ticks since boot; 0 if there is no such process."""
    try:
        return int(procfs.read_stat(pid)[procfs.START])
    except (OSError, IndexError):
        return 0


def _read_lines(max_silence_s: float | None) -> Iterator[bytes]:
    """Yields the lines of standard input until its end, or until nothing comes for `max_silence_s` seconds."""
    line = b""
    while select.select([0], [], [], max_silence_s)[0] and (chunk := os.read(0, 1 << 16)):
        *lines, line = (line + chunk).split(b"\n")
        yield from lines


def _live_groups(lines: Iterable[bytes]) -> set[Key]:
    """Returns the leaders of the groups that have not ended (`+PID START` starts a group, `-PID START` ends it)."""
    leaders: set[Key] = set()
    for line in filter(None, lines):
        pid, start = line[1:].split()
        update = leaders.add if line.startswith(b"+") else leaders.discard
        update((int(pid), int(start)))
    return leaders


class _Processes:
    """Finds the live processes of the groups of `leaders`, and those with `mark` in their environment."""

    def __init__(self, leaders: set[Key], mark: bytes) -> None:
        self._leaders, self._mark = leaders, mark
        self._groups: set[Key] = set()
        """Leaders of the groups that still have processes."""
        self._marked: set[Key] = set()
        self._reading: set[Key] = set()

    def find_live(self) -> set[Key]:
        """Returns the live processes."""
        groups: dict[Key, int] = {}
        for name in os.listdir("/proc"):  # noqa: PTH208 - only names are needed
            if not name.isdigit() or int(name) == os.getpid():
                continue
            with suppress(OSError, IndexError):  # it is gone
                fields = procfs.read_stat(int(name))
                if fields[0] not in procfs.DEAD_STATES:
                    groups[int(name), int(fields[procfs.START])] = int(fields[2])
        # Once a group has ended, its number may be reused, but by a leader with a different start, which may end first.
        alive, earlier = set(groups.values()), self._groups
        starts = {leader: read_start(leader[0]) for leader in self._leaders}
        self._groups = {leader for leader, start in starts.items() if start == leader[1]}
        self._groups |= {leader for leader in earlier if not starts[leader] and leader[0] in alive}
        numbers = {number for number, _ in self._groups}
        found = {key for key, group in groups.items() if group in numbers}
        # Another user can make reads of her processes wait.
        unread = sorted((key for key in groups if key not in found | self._marked | self._reading), key=_is_anothers)
        reader = Thread(target=self._read_environments, args=(unread,), daemon=True)
        with suppress(RuntimeError):  # no thread can be started: use the groups alone
            reader.start()
            reader.join(_ENVIRON_TIMEOUT_S)
        return found | (self._marked & groups.keys())

    def _read_environments(self, keys: list[Key]) -> None:
        for key in keys:
            self._reading.add(key)
            with suppress(OSError):  # it is gone, or another user's
                if self._mark in b"\0%s\0" % procfs.read_file(key[0], "environ", _MAX_ENVIRON_BYTES):
                    self._marked.add(key)
            self._reading.discard(key)


def _is_anothers(key: Key) -> bool:
    try:
        return os.stat(f"/proc/{key[0]}").st_uid != os.getuid()  # noqa: PTH116 - imports little
    except OSError:  # it is gone
        return False


def _send(key: Key, number: int) -> None:
    """Sends a signal to a process, but not to another that has reused its PID."""
    pid, start = key
    try:
        handle = os.pidfd_open(pid)
    except (AttributeError, OSError):  # an old kernel or Python, a sandbox, or it has ended
        handle = None
    try:
        if read_start(pid) != start:
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


def _end_all(processes: _Processes) -> list[int]:
    """Ends all processes. Returns the PIDs of those that were alive at first."""
    alive = first = processes.find_live()
    for number, wait_s in _SIGNAL_STEPS:
        if not alive:
            break
        for key in alive:
            _send(key, number)
            _send(key, signal.SIGCONT)  # a stopped process could not handle the signal
        deadline = time.monotonic() + wait_s
        while alive and time.monotonic() < deadline:
            time.sleep(_CHECK_INTERVAL_S)
            alive = processes.find_live()
    return sorted(pid for pid, _ in first)


def main() -> None:
    """Waits for the engine's end, then ends leftover workers, and logs their PIDs to standard error, the engine's log."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # end with the engine, not before
    lines = _read_lines(float(sys.argv[1]) if len(sys.argv) > 1 else None)
    session_id = next(lines, b"")
    if not session_id:
        return  # the engine was killed before it started a worker
    if ended := _end_all(_Processes(_live_groups(lines), b"\0GMG_SESSION_ID=%s\0" % session_id)):
        moment = time.strftime("%Y-%m-%d %H:%M:%S")
        pids = ", ".join(map(str, ended))
        print(f"{moment} WATCHDOG: the engine is gone or hangs; its processes were ended: {pids}", file=sys.stderr)


if __name__ == "__main__":
    main()
