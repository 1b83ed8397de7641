"""The processes of a worker, detached ones included, from one pass over `/proc`; their signals and open files.

psutil is too slow for a pass every two seconds: with 400 processes `psutil.process_iter` takes 25 ms instead of 5.5 ms, and
`Process.children` takes 57 ms for the trees of 8 workers alone.
"""

import asyncio
import os
import signal
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from gmg_tui.machine import procfs
from gmg_tui.machine.blocking_calls import begin
from gmg_tui.model.text import one_line

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / (1 << 20)
_MAX_ENVIRON_BYTES = 8 << 20
"""Bytes to read of an environment: execve(2) allows 6 MiB, but prctl(2) lets a process declare any memory as its own."""
_MAX_COMMAND_BYTES = 8192
MIN_SCAN_INTERVAL_S = 0.1
"""Seconds between the starts of two scans, which take 10 to 20 microseconds per process."""
_ENVIRON_TIMEOUT_S = 0.5
"""Seconds that a scan waits for a child's environment; a late answer serves the next scan."""
_ENVIRON_RETRY_S = 0.05
_MAX_ENVIRON_READS = 8
"""Attempts to read an environment that is empty, as during an `exec`."""
MAX_FILES, MAX_PROCESS_FILES = 2048, 256
"""Maximum descriptors to read in total, and per process."""
_MAX_PATH_CHARS = 1024
_NON_RESULT_PREFIXES = ("/dev/", "/proc/", "/memfd:", "/tmp/.X", "/run/")  # noqa: S108 - prefixes

_CREDENTIALS = struct.Struct("3i")
_Key = tuple[int, int]


class Proc(NamedTuple):
    """One line of `/proc/PID/stat` (proc(5))."""

    pid: int
    parent: int
    group: int
    session: int
    state: str
    """`R`, `S`, `D`, `T`, `Z` …, of a thread that has not ended if there is one."""
    cpu_s: float
    """User and system time, without children."""
    rss_mib: float
    started_ticks: int
    """Start, in clock ticks since boot."""

    @property
    def key(self) -> _Key:
        """PID and start, which together are unique."""
        return self.pid, self.started_ticks

    @property
    def is_alive(self) -> bool:
        """True unless all of its threads have ended."""
        return self.state not in procfs.DEAD_STATES

    @property
    def stopped(self) -> str | None:
        """The reason why it is stopped, with any remedy; None if it is not."""
        if self.state == "T":
            return f"stopped by a signal; kill -CONT {self.pid}"
        return f"stopped by a debugger (process {self.pid})" if self.state == "t" else None


def read(pid: int) -> Proc | None:
    """Returns the process `pid`; None if it does not exist or cannot be read."""
    try:
        fields = procfs.read_stat(pid)
    except OSError:
        return None
    return Proc(
        pid=pid,
        state=fields[0],
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        cpu_s=(int(fields[11]) + int(fields[12])) / TICKS_PER_S,
        started_ticks=int(fields[procfs.START]),
        rss_mib=int(fields[21]) * PAGE_MIB,
    )


def command_name(pid: int) -> str:
    """Returns the first 15 characters of a process's name; empty if the process is gone."""
    try:
        return one_line(procfs.read_file(pid, "comm").strip().decode("utf-8", "replace"))
    except OSError:
        return ""


def command_line(pid: int) -> str:
    """Returns the beginning of a process's command line. Raises `OSError` if the process is gone."""
    words = procfs.read_file(pid, "cmdline", _MAX_COMMAND_BYTES)
    return words.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")


def read_variable(pid: int, name: str) -> str | None:
    """Returns a variable in the initial environment of a process, empty if unset; None if there are none.

    May block. Raises `OSError` if the process is gone, or another user's.
    """
    variables = procfs.read_file(pid, "environ", _MAX_ENVIRON_BYTES)
    value = (b"\0" + variables).partition(f"\0{name}=".encode())[2].partition(b"\0")[0]
    return value.decode("utf-8", "replace") if variables else None


def handles_signal(pid: int, number: int) -> bool:
    """True if a process handles a signal, or if the kernel does not report that (`SigCgt` in proc(5))."""
    caught = _status(pid, b"SigCgt:")
    return caught is not None and (not caught or bool(int(caught, 16) >> (number - 1) & 1))


def wait_count(pid: int) -> int:
    """Returns the number of times that a process has waited (`voluntary_ctxt_switches` in proc(5)); 0 if it is gone."""
    return int(_status(pid, b"voluntary_ctxt_switches:") or 0)


def is_own(pid: int) -> bool:
    """True if a process has only this user's IDs; a set-user-ID program may do what another user wants."""
    user_ids = _status(pid, b"Uid:")
    return user_ids is not None and {*user_ids.split()} == {b"%d" % os.getuid()}


def _status(pid: int, name: bytes) -> bytes | None:
    """Returns a field of `/proc/PID/status`, empty if missing; None if the process is gone."""
    try:
        return (b"\n" + procfs.read_file(pid, "status")).partition(b"\n" + name)[2].partition(b"\n")[0].strip()
    except OSError:
        return None


def send_signal(proc: Proc, number: int) -> bool:
    """Sends a signal to exactly this process, never to another that now has its PID. Returns False if it is gone.

    An open pidfd keeps identifying the same process. Kernels before 5.3, some sandboxes (seccomp, gVisor) and some builds of
    Python (conda's) lack pidfds: comparing the start time right before the signal then leaves a gap of microseconds.
    Raises `PermissionError` for another user's process, and `OSError` if `/proc` cannot be read.
    """
    try:
        handle = os.pidfd_open(proc.pid)
    except (AttributeError, OSError):
        handle = None
    try:
        if int(procfs.read_stat(proc.pid)[procfs.START]) != proc.started_ticks:
            return False
        if handle is None or not _send_by_pidfd(handle, number):
            os.kill(proc.pid, number)
    except (FileNotFoundError, ProcessLookupError):
        return False
    finally:
        if handle is not None:
            os.close(handle)
    return True


def kill_group(leader: int, *, reaped: bool) -> None:
    """Kills a process group. If its leader was `reaped` and another process now has the PID, the group is gone."""
    if not reaped or read(leader) is None:
        with suppress(ProcessLookupError, PermissionError):  # it may be another user's by now
            os.killpg(leader, signal.SIGKILL)


def _send_by_pidfd(handle: int, number: int) -> bool:
    """Sends a signal through a pidfd. Returns False if refused; raises `ProcessLookupError` if the process is gone."""
    try:
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):
        return False
    return True


def peer_credentials(connection: socket.socket) -> tuple[int, int]:
    """Returns the PID and user ID of the peer of a UNIX socket (`SO_PEERCRED`, unix(7)). Raises `OSError`."""
    pid, user, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return pid, user


def pidfd_trouble() -> str | None:
    """Returns the reason why pidfds cannot be used here; None if they can."""
    if not hasattr(os, "pidfd_open"):
        return "this Python was built without pidfd_open"
    try:
        handle = os.pidfd_open(os.getpid())
        try:
            signal.pidfd_send_signal(handle, 0)
        finally:
            os.close(handle)
    except OSError as error:
        return f"pidfd_open: {error.strerror} (a kernel before 5.3, or a sandbox)"
    return None


class Table:
    """All processes at one moment, by PID, by parent, and by group or session."""

    def __init__(self, procs: Iterable[Proc]) -> None:
        self.by_pid = {proc.pid: proc for proc in procs}
        self._children: dict[int, list[Proc]] = {}
        self._by_leader: dict[int, list[Proc]] = {}
        for proc in self.by_pid.values():
            self._children.setdefault(proc.parent, []).append(proc)
            for leader in {proc.group, proc.session}:
                self._by_leader.setdefault(leader, []).append(proc)
        self._by_mark: dict[str, list[Proc]] = {}

    def set_marks(self, marks: Mapping[_Key, str]) -> None:
        """Sets the marks (`GMG_ATTEMPT_ID`) of this process's children."""
        self._by_mark = {}
        for proc in self.children(os.getpid()):
            if mark := marks.get(proc.key):
                self._by_mark.setdefault(mark, []).append(proc)

    def children(self, pid: int) -> list[Proc]:
        """Returns the processes whose parent is `pid`."""
        return self._children.get(pid, [])

    def members(self, leader: int | None, mark: str) -> list[Proc]:
        """Returns the live processes of the attempt whose first process is or was `leader`.

        They are its descendants, the members of its session and group, and the engine's children with the attempt's mark, as
        the engine adopts orphans (`PR_SET_CHILD_SUBREAPER`). `leader` is None if another process now has that PID. If
        no process has it, one may have had it and left a session behind: then only the engine's descendants count.
        """
        todo = {proc.pid for proc in self._by_mark.get(mark, ())}
        if leader is not None:
            group = {leader, *(proc.pid for proc in self._by_leader.get(leader, ()))}
            todo |= group if leader in self.by_pid else group & self._own
        return [proc for proc in self._with_descendants(todo) if proc.is_alive]

    @cached_property
    def _own(self) -> set[int]:
        """PIDs of this process and its descendants."""
        return {proc.pid for proc in self._with_descendants({os.getpid()})}

    def inherited_marks(self) -> dict[_Key, str]:
        """Returns the marks of marked processes and of their descendants, which may have cleared their own."""
        marked = ((mark, {proc.pid for proc in procs}) for mark, procs in self._by_mark.items())
        return {proc.key: mark for mark, pids in marked for proc in self._with_descendants(pids)}

    def _with_descendants(self, todo: set[int]) -> Iterable[Proc]:
        found: dict[int, Proc] = {}
        while todo:
            proc = self.by_pid.get(todo.pop())
            if proc is not None and proc.pid not in found:
                found[proc.pid] = proc
                todo.update(child.pid for child in self.children(proc.pid))
        return found.values()


def scan() -> Table:
    """Scans all processes."""
    names = os.listdir("/proc")  # noqa: PTH208 - pathlib is slower
    procs = {int(name): read(int(name)) for name in names if name.isdigit()}
    for pid, proc in procs.items():
        if proc is not None and procs.get(proc.parent) is None:  # the parent has ended: read again for the new one
            procs[pid] = read(pid)
    return Table(proc for proc in procs.values() if proc is not None)


def mark_of(pid: int) -> str | None:
    """Returns `GMG_ATTEMPT_ID` in the initial environment of a process; empty if unset, or if the process is gone.

    None if it has no variables at all, as during an `exec`. Blocks while the process's memory map is locked, perhaps
    forever if the process is stuck in a driver.
    """
    try:
        return read_variable(pid, "GMG_ATTEMPT_ID")
    except OSError:
        return ""


class Scans:
    """Scans of all processes, at least `MIN_SCAN_INTERVAL_S` apart, each shared by the callers that wait for it."""

    def __init__(self) -> None:
        self._next: asyncio.Task[Table] | None = None
        self._due = 0.0
        """The earliest start of the next scan, by the loop's clock."""
        self._marks: dict[_Key, str] = {}
        """Marks of the engine's own children: workers and adopted orphans."""
        self._inherited_marks: dict[_Key, str] = {}
        """Marks of workers and their descendants at the last scan, for orphans that have cleared their own."""
        self._pending_reads: dict[_Key, asyncio.Task[None]] = {}

    async def table(self) -> Table:
        """Returns all processes from a scan that begins after the call. Raises `OSError` if too many files are open."""
        if self._next is None:
            self._next = asyncio.create_task(self._scan())
        return await asyncio.shield(self._next)

    async def _scan(self) -> Table:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._due - loop.time())
        self._next = None  # this scan may miss what later callers need
        self._due = loop.time() + MIN_SCAN_INTERVAL_S
        try:
            table = await asyncio.wrap_future(begin(scan))
        except RuntimeError:  # no thread can be started: better to block the loop for milliseconds than not to kill
            table = scan()
        children = {proc.key: proc for proc in table.children(os.getpid()) if proc.is_alive}
        self._marks = {key: mark for key, mark in self._marks.items() if key in children}
        new = children.keys() - self._marks.keys() - self._pending_reads.keys()
        # Recorded before the tasks run, as another scan may start.
        self._pending_reads |= {key: asyncio.create_task(self._read_mark(children[key])) for key in new}
        if new:
            await asyncio.wait([self._pending_reads[key] for key in new], timeout=_ENVIRON_TIMEOUT_S)
        table.set_marks({key: self._marks.get(key) or self._inherited_marks.get(key, "") for key in children})
        self._inherited_marks = table.inherited_marks()
        return table

    async def _read_mark(self, proc: Proc) -> None:
        """Reads a child's mark. If its environment blocks the reader, only one thread hangs."""
        try:
            for _ in range(_MAX_ENVIRON_READS):
                mark = await self._mark_of(proc)
                if mark is not None:
                    break
                await asyncio.sleep(_ENVIRON_RETRY_S)
            self._marks[proc.key] = mark or ""
        finally:
            del self._pending_reads[proc.key]

    @staticmethod
    async def _mark_of(proc: Proc) -> str | None:
        try:
            return await asyncio.wrap_future(begin(mark_of, proc.pid))
        except RuntimeError:  # no thread can be started: read it here unless that may block
            return mark_of(proc.pid) if proc.state != "D" else None


def files_open_for_writing(pids: Iterable[int]) -> set[str]:
    """Returns the paths of files that processes have open for writing only, but not for appending.

    Omits devices and other `_NON_RESULT_PREFIXES`. Reads only `/proc`, which a hung disk does not block.
    """
    paths, seen = set[str](), set[tuple[int, str]]()
    for pid, number in islice(_descriptors(pids), MAX_FILES):
        with suppress(OSError):
            path = os.readlink(f"/proc/{pid}/fd/{number}")  # noqa: PTH115
            is_result = (
                path[:1] == "/"
                and len(path) <= _MAX_PATH_CHARS
                and not path.startswith(_NON_RESULT_PREFIXES)
                and not path.endswith(" (deleted)")
            )
            if is_result and (pid, path) not in seen:
                seen.add((pid, path))  # the kernel lists all locks of the file, perhaps thousands, each time
                flags = procfs.read_file(pid, f"fdinfo/{number}", 256).split(b"flags:", 1)[1].split()[0]
                if int(flags, 8) & (os.O_ACCMODE | os.O_APPEND) == os.O_WRONLY:
                    paths.add(path)
    return paths


def _descriptors(pids: Iterable[int]) -> Iterator[tuple[int, str]]:
    for pid in sorted(pids):
        # The process may be gone, or another user's. It may have a million: only the first ones are read.
        with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
            yield from ((pid, entry.name) for entry in islice(entries, MAX_PROCESS_FILES))


def absolute_paths(paths: Iterable[str], pids: Iterable[int]) -> set[str]:
    """Makes paths printed by processes absolute. Drops relative ones unless all share a working directory."""
    folders = set[str]()
    for pid in islice(pids, MAX_FILES):
        with suppress(OSError):  # the process is gone, or another user's
            folders.add(os.readlink(f"/proc/{pid}/cwd"))  # noqa: PTH115
    cwd = folders.pop() if len(folders) == 1 else ""
    return {os.path.normpath(f"{cwd}/{path}" if path[0] != "/" else path) for path in paths if cwd or path[0] == "/"}
