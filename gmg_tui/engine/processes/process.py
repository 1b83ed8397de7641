"""One attempt's process: started in its own group, and stopped with everything that it started."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from gmg_tui.engine.output.pipes import Pipe, Pipes
from gmg_tui.engine.processes import process_tree
from gmg_tui.engine.processes.process_tree import Proc, Scans
from gmg_tui.model import units

_log = logging.getLogger(__name__)

Step = tuple[signal.Signals, float]
"""A signal, and how many seconds to wait before the next one."""
TERMINATED = (-signal.SIGTERM, 128 + signal.SIGTERM)
"""Exit codes of a process that SIGTERM has ended, and of a shell whose command it has."""
KILL: tuple[Step, ...] = ((signal.SIGKILL, 5.0),)
LEFTOVERS: tuple[Step, ...] = ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))
"""For processes that outlive the script; they have had its whole run to end."""
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Make this process the parent of its descendants' orphans (prctl(2), `PR_SET_CHILD_SUBREAPER`).

    A grandchild that starts a session of its own and outlives its parent is then still reaped.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Process:
    """A process and its descendants, which have its worker's slot in `GMG_SLOT` unless they have cleared that.

    `take` is called with whether output is from standard error, and each chunk of it; `changed` when what follows has.

    Attributes:
        sent: The last signal and how long its effect is waited for; None before the first.
        survivors: The processes stuck in the kernel, in one line; None when none is left.
    """

    def __init__(
        self,
        pipes: Pipes,
        scans: Scans,
        slot: str,
        take: Callable[[bool, bytes], None],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.sent: str | None = None
        self.survivors: str | None = None
        self._pipes, self._scans, self._slot = pipes, scans, slot
        self._take, self._changed = take, changed
        self._open: list[Pipe] = []
        self._process: asyncio.subprocess.Process | None = None
        self._tried = asyncio.Event()
        """Set once there is a process, or starting one has failed."""
        self._stopping: asyncio.Task[None] | None = None

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
    def exit_code(self) -> int | None:
        """The first process's exit code, negative for a signal; None while it lives."""
        return None if self._process is None else self._process.returncode

    async def start(self, command: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> None:
        """Start the process, with standard input from `/dev/null`. Raises `OSError`."""
        writing: list[int] = []
        try:
            for is_error in (False, True):
                pipe, writing_end = self._pipes.open(partial(self._take, is_error))
                self._open.append(pipe)
                writing.append(writing_end)
            self._process = await asyncio.create_subprocess_exec(
                *command,
                cwd=cwd,
                env=env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing[0],
                stderr=writing[1],
                start_new_session=True,
            )
        finally:
            if self._process is None:
                self.close_pipes()
            for writing_end in writing:
                os.close(writing_end)
            self._tried.set()

    async def wait(self) -> int:
        """Wait for the first process to end. Returns its exit code, negative for a signal."""
        assert self._process is not None
        return await self._process.wait()

    def close_pipes(self) -> None:
        """Read all output that is left, then close the pipes, even if a surviving process keeps one open."""
        for pipe in self._open:
            self._pipes.close(pipe)
        self._open.clear()

    def members(self, table: process_tree.Table) -> list[Proc]:
        """The live processes of this attempt."""
        if self._process is None:
            return []
        # Once the first process has been waited for, a process with its PID is another one.
        leader = self.pid if self.exit_code is None or self.pid not in table.by_pid else None
        return table.members(leader, self._slot)

    async def left(self) -> list[Proc]:
        """The live processes of this attempt, by a fresh scan; none with too many open files."""
        try:
            return self.members(await self._scans.table())
        except OSError as error:
            _log.warning("/proc cannot be read: %s", error.strerror)
            return []

    # Stopping

    @property
    def is_stopping(self) -> bool:
        """Whether it is being, or was stopped."""
        return self._stopping is not None

    def stop(self, steps: Sequence[Step]) -> None:
        """Send the signals of `steps` in order until no process is left; only `KILL` replaces others that are being sent.

        SIGINT goes to the process group alone, as the terminal's ctrl+c does, while the first process lives; the others
        also reach processes that have left the group. Stopped processes are continued, or they could not obey.
        """
        if self._stopping is not None:
            if steps is not KILL:
                return
            self._stopping.cancel()
        self._stopping = asyncio.create_task(self._stop(steps))

    async def wait_stopped(self) -> None:
        """Wait until all processes have ended, or are stuck in the kernel."""
        while self._stopping is not None and not self._stopping.done():
            await asyncio.wait([self._stopping])  # a kill may have replaced it

    async def _stop(self, steps: Sequence[Step]) -> None:
        await self._tried.wait()
        if self._process is None:
            return
        left = await self.left()
        for number, wait_s in steps:
            if not left and self.exit_code is not None:
                return
            self._signal(number, left)
            self.sent = f"{number.name} sent, waiting up to {units.span(wait_s)}"
            self._changed()
            left = await self._gone(wait_s)
        if left:
            pids = ", ".join(f"{proc.pid} (state {proc.state})" for proc in left)
            self.survivors = f"survives SIGKILL: process {pids}; the kernel does not let it go"
            self._changed()

    async def _gone(self, wait_s: float) -> list[Proc]:
        """Wait until no process is left, for `wait_s` at most. Returns those that are."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        while True:
            left = await self.left()
            if (not left and self.exit_code is not None) or loop.time() >= deadline:
                return left

    def _signal(self, number: signal.Signals, left: Sequence[Proc]) -> None:
        ended = self.exit_code is not None
        outside = [] if number is signal.SIGINT and not ended else [proc for proc in left if proc.group != self.pid]
        # Once the first process has been waited for, another one may have its PID and lead a group of its own.
        is_group_left = not ended or any(proc.group == self.pid for proc in left)
        for sent in (number, signal.SIGCONT):
            with contextlib.suppress(
                ProcessLookupError, PermissionError
            ):  # it has just ended, or is another user's now
                if is_group_left:
                    os.killpg(self.pid, sent)
            for proc in outside:
                with contextlib.suppress(PermissionError):
                    process_tree.send(proc, sent)

    def pass_on(self, number: signal.Signals) -> bool:
        """Send a signal to the first process if it has a handler for it, without which it would die; whether it has."""
        if self._process is None or self.exit_code is not None or not process_tree.handles(self.pid, number):
            return False
        self._process.send_signal(number)
        return True
