"""One attempt's process: started in its own group, and ended with everything that it started."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
from collections.abc import Callable, Mapping, Sequence

from gmg_tui.engine.children import Children
from gmg_tui.engine.output.pump import Pump
from gmg_tui.engine.processes import process_tree
from gmg_tui.engine.processes.scans import Scans

Step = tuple[signal.Signals, float]
"""A signal, and how many seconds to wait before the next one."""

_FORK_S = 1.0
"""How long a daemon may take to leave the session of the first process, which may have ended before."""
_DRAIN_S = 2.0
"""How long a pipe may stay open after the end of all its processes."""
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Make this process the parent of its descendants' orphans (prctl(2), `PR_SET_CHILD_SUBREAPER`).

    A grandchild that starts a session of its own and outlives its parent is then still found, and reaped.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Process:
    """A process and its descendants, which carry its worker's slot in `GMG_SLOT` unless they have cleared that.

    `take` is called with each chunk of output and whether it is from standard error.
    """

    def __init__(
        self, pump: Pump, children: Children, scans: Scans, slot: str, take: Callable[[bytes, bool], None]
    ) -> None:
        self._pump = pump
        self._children = children
        self._scans = scans
        self._slot = slot
        self._take = take
        self._pipes: set[int] = set()
        self._inodes: set[int] = set()
        """Of its pipes, also of those that have ended."""
        self._drained = asyncio.Event()
        self._seen: dict[int, int] = {}
        """PID and start time of the processes known to belong to it."""
        self._process: asyncio.subprocess.Process | None = None
        self._since_ticks = 0
        """When it was about to be started, in clock ticks since boot."""
        self._tried = asyncio.Event()
        """Set once there is a process, or starting one has failed."""
        self._successor: process_tree.Proc | None = None
        """The process in a session of its own that goes on with the work of the first, which has ended."""

    @property
    def started(self) -> bool:
        """Whether there is or was a process."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """The PID of the first process, which is also its process group and session."""
        assert self._process is not None
        return self._process.pid

    @property
    def current_pid(self) -> int:
        """The PID of the first process, or of the daemon that goes on with its work."""
        return self.pid if self._successor is None else self._successor.pid

    @property
    def exit_code(self) -> int | None:
        """The first process's exit code, negative for a signal; None while it lives."""
        return None if self._process is None else self._process.returncode

    async def start(self, command: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> None:
        """Start the process, with standard input from `/dev/null`. Raises `OSError`."""
        writing: list[int] = []
        self._since_ticks = self._children.begin(self)
        try:
            for is_error in (False, True):
                reading, writing_end = self._pump.open(self._taker(is_error), self._pipe_ended)
                self._pipes.add(reading)
                self._inodes.add(os.fstat(reading).st_ino)
                writing.append(writing_end)
            self._process = await self._children.start(
                *command,
                cwd=cwd,
                env=env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing[0],
                stderr=writing[1],
                start_new_session=True,
            )
        except BaseException:
            self._close()
            self._children.end(self)
            raise
        finally:
            for writing_end in writing:
                os.close(writing_end)
            self._tried.set()

    async def wait(self) -> int:
        """Wait for the first process to end. Returns its exit code, negative for a signal."""
        assert self._process is not None
        return await self._process.wait()

    def members(self, table: process_tree.Table) -> list[process_tree.Proc]:
        """The live processes of this attempt."""
        if self._process is None:
            return []
        # Once the first process has been waited for, a process with its PID is another one.
        leader = self.pid if self.exit_code is None or self.pid not in table.by_pid else None
        known = [pid for pid, started_ticks in self._seen.items() if table.holds(pid, started_ticks)]
        known += [proc.pid for proc in table.unmarked if self._may_have_started(proc)]
        found = table.members(leader, self._slot, known)
        self._seen = {proc.pid: proc.started_ticks for proc in found}
        return found

    def _may_have_started(self, child: process_tree.Proc) -> bool:
        """Whether a child of the engine that names no slot is this attempt's.

        It is if no other attempt can have started it, or if it can write to this one's pipes.
        """
        if child.started_ticks < self._since_ticks or not self._children.adopted(child.pid):
            return False
        alone = not self._children.others_possible(self, child.started_ticks)
        return alone or process_tree.holds(child.pid, self._inodes)

    async def left(self) -> list[process_tree.Proc]:
        """The live processes of this attempt, by a fresh scan. Raises `OSError` with too many open files."""
        table = await self._scans.table()
        while self._children.starting:
            table = await self._scans.table()
        return self.members(table)

    def starts_no_more(self) -> None:
        """Its script has ended: daemons that nobody else can have started are its own."""
        self._children.end(self)

    async def succeeded(self) -> process_tree.Proc | None:
        """The process that goes on with the work of the first, which has ended.

        A daemon that has left the first one's session and can write to its pipes: of several, the oldest. None if there
        is none. Raises `OSError` with too many open files.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _FORK_S
        self._successor = None
        self._pump.read_rest(list(self._pipes))  # what comes from now on is not the first one's
        while self._successor is None and self._pipes and loop.time() < deadline:
            away = [proc for proc in await self.left() if proc.session != self.pid]
            writing = [proc for proc in away if process_tree.holds(proc.pid, self._inodes)]
            self._successor = min(writing, key=lambda proc: proc.started_ticks, default=None)
        return self._successor

    async def end(
        self, steps: Sequence[Step], told: Callable[[signal.Signals, float], None]
    ) -> list[process_tree.Proc]:
        """Send the signals of `steps` in order, until no process is left; `told` is called before each wait.

        SIGINT goes to the process group alone, as the terminal's ctrl+c does, while the first process lives; the others
        also reach processes that have left the group. Stopped processes are continued, or they could not obey. Returns
        the processes that survived the last step, stuck in the kernel.
        """
        await self._tried.wait()
        if self._process is None:
            return []
        left = await self.left()
        for number, wait_s in steps:
            if not left and self.exit_code is not None:
                break
            self._signal(number, left)
            told(number, wait_s)
            left = await self._gone(wait_s)
        if self.exit_code is not None:
            self.starts_no_more()
        return left

    def pause(self) -> None:
        """Stop its group, or its successor (SIGSTOP), until `resume`."""
        self._send_first(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue its group, or its successor (SIGCONT)."""
        self._send_first(signal.SIGCONT)

    def _send_first(self, number: signal.Signals) -> None:
        if self.exit_code is None:
            self._send_group(number)
        elif self._successor is not None:
            self._send(self._successor, number)

    def pass_on(self, number: signal.Signals) -> bool:
        """Send a signal to the first process, or its successor, if it has a handler for it; whether it has.

        Without one it would die.
        """
        if self._process is None:
            return False
        if self.exit_code is None and process_tree.handles(self.pid, number):
            self._process.send_signal(number)
            return True
        successor = self._successor if self.exit_code is not None else None
        return successor is not None and process_tree.handles(successor.pid, number) and self._send(successor, number)

    def _signal(self, number: signal.Signals, left: list[process_tree.Proc]) -> None:
        ended = self.exit_code is not None
        outside = [] if number is signal.SIGINT and not ended else [proc for proc in left if proc.group != self.pid]
        # Once the first process has been waited for, another one may have its PID and lead a group of its own.
        is_group_left = not ended or any(proc.group == self.pid for proc in left)
        for sent in (number, signal.SIGCONT):
            if is_group_left:
                self._send_group(sent)
            for proc in outside:
                self._send(proc, sent)

    @staticmethod
    def _send(proc: process_tree.Proc, number: signal.Signals) -> bool:
        try:
            return process_tree.send(proc, number)
        except PermissionError:  # another user's by now
            return False

    def _send_group(self, number: signal.Signals) -> None:
        # It has just ended, or belongs to another user now.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    async def _gone(self, wait_s: float) -> list[process_tree.Proc]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        while True:
            left = await self.left()
            if not left and self.exit_code is not None:
                return []
            if loop.time() >= deadline:
                return left

    def hold_output(self, held: bool) -> None:
        """Stop reading its output, or go on: it waits once its pipes are full."""
        for pipe in self._pipes:
            (self._pump.pause if held else self._pump.resume)(pipe)

    async def drain(self) -> None:
        """Wait until all output has been read, then close the pipes, even if a surviving process keeps one open."""
        self._pump.read_rest(list(self._pipes))
        if self._pipes:
            with contextlib.suppress(TimeoutError):  # _close reads what is in the pipe by now
                async with asyncio.timeout(_DRAIN_S):
                    await self._drained.wait()
        self._close()

    def _taker(self, is_error: bool) -> Callable[[bytes], None]:
        return lambda data: self._take(data, is_error)

    def _pipe_ended(self, reading: int) -> None:
        self._pipes.discard(reading)
        if not self._pipes:
            self._drained.set()

    def _close(self) -> None:
        for reading in list(self._pipes):  # one found at its end leaves the set meanwhile
            self._pump.drop(reading)
        self._pipes.clear()
