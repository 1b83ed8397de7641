"""One attempt's process: started in a group of its own, and ended with everything that it started."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
from collections.abc import Callable, Mapping, Sequence

from gmg_tui.engine import proctree
from gmg_tui.engine.pump import Pump

Step = tuple[signal.Signals, float]
"""A signal, and how long to wait in seconds before the next one."""

_LOOK_S = 0.1
"""How often the remains of a process group are looked for while it ends; nothing tells when a group is empty."""
_DRAIN_S = 2.0
"""How long after the end of all its processes a pipe may take to be at its end."""
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Make this process the parent of its descendants' orphans (prctl(2), `PR_SET_CHILD_SUBREAPER`).

    A grandchild that starts a session of its own and outlives its parent is then still found, and reaped.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Process:
    """A running attempt.

    Args:
        pump: Reads its pipes.
        slot: Its worker's slot, which its processes carry in `GMG_SLOT`.
        take: Called with a chunk of its output and whether that is standard error's.
    """

    def __init__(self, pump: Pump, slot: str, take: Callable[[bytes, bool], None]) -> None:
        self._pump = pump
        self._slot = slot
        self._take = take
        self._pipes: set[int] = set()
        self._drained = asyncio.Event()
        self._seen: dict[int, int] = {}
        """PID and start time of the processes that were seen to belong to it."""
        self._process: asyncio.subprocess.Process | None = None
        self._tried = asyncio.Event()
        """Set once there is a process, or it is known that there will be none."""

    @property
    def started(self) -> bool:
        """Whether there is or was a process."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """The PID of the first process, which is also its group's and its session's number."""
        assert self._process is not None
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The first process's exit code, negative for a signal; None while it lives."""
        return None if self._process is None else self._process.returncode

    async def start(self, command: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> None:
        """Start the process, with standard input from nowhere.

        Raises:
            OSError: It could not be started.
        """
        writing: list[int] = []
        try:
            for is_error in (False, True):
                reading, end = self._pump.open(self._taker(is_error), self._pipe_ended)
                self._pipes.add(reading)
                writing.append(end)
            self._process = await asyncio.create_subprocess_exec(
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
            raise
        finally:
            for end in writing:
                os.close(end)
            self._tried.set()

    async def wait(self) -> int:
        """Wait for the first process to end. Returns its exit code, negative for a signal."""
        assert self._process is not None
        return await self._process.wait()

    def members(self, table: proctree.Table) -> list[proctree.Proc]:
        """The live processes of this attempt."""
        if self._process is None:
            return []
        # Once the first process has been waited for, whoever has its PID is a stranger.
        leader = self.pid if self.exit_code is None or self.pid not in table.by_pid else None
        known = [pid for pid, started_ticks in self._seen.items() if table.holds(pid, started_ticks)]
        found = table.members(leader, self._slot, known)
        self._seen = {proc.pid: proc.started_ticks for proc in found}
        return found

    async def end(self, steps: Sequence[Step], told: Callable[[signal.Signals, float], None]) -> list[proctree.Proc]:
        """Send the signals of `steps` in order, each to all that is left, until nothing is.

        SIGINT goes to the process group alone, as the terminal's ctrl+c does; the others also reach processes that
        have left the group. A process that is stopped is told to go on, or it could not obey.

        Args:
            steps: The signals and their waits.
            told: Called before each wait.

        Returns:
            What survived the last step: processes that the kernel does not let go.
        """
        await self._tried.wait()
        if self._process is None:
            return []
        left = self.members(proctree.scan())
        for number, wait_s in steps:
            if not left and self.exit_code is not None:
                break
            self._signal(number, left)
            told(number, wait_s)
            left = await self._gone(wait_s)
        return left

    def pause(self) -> None:
        """Stop its group (SIGSTOP): it does nothing until `resume`."""
        if self.exit_code is None:
            self._send_group(signal.SIGSTOP)

    def resume(self) -> None:
        """Let its group go on."""
        if self.exit_code is None:
            self._send_group(signal.SIGCONT)

    def _signal(self, number: signal.Signals, left: list[proctree.Proc]) -> None:
        outside = [] if number is signal.SIGINT else [proc.pid for proc in left if proc.group != self.pid]
        for sent in (number, signal.SIGCONT):
            self._send_group(sent)
            for pid in outside:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, sent)

    def _send_group(self, number: signal.Signals) -> None:
        # Who ended this moment, or has become another user's, cannot be signalled and need not be.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    async def _gone(self, wait_s: float) -> list[proctree.Proc]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        while True:
            left = self.members(proctree.scan())
            if not left and self.exit_code is not None:
                return []
            if loop.time() >= deadline:
                return left
            await asyncio.sleep(_LOOK_S)

    async def drain(self) -> None:
        """Wait until all output has been read, then close the pipes; a process that holds one open is not waited for."""
        self._pump.look(list(self._pipes))
        if self._pipes:
            try:
                async with asyncio.timeout(_DRAIN_S):
                    await self._drained.wait()
            except TimeoutError:
                pass  # what is in the pipe by now is read by _close
        self._close()

    def _taker(self, is_error: bool) -> Callable[[bytes], None]:
        return lambda data: self._take(data, is_error)

    def _pipe_ended(self, reading: int) -> None:
        self._pipes.discard(reading)
        if not self._pipes:
            self._drained.set()

    def _close(self) -> None:
        for reading in self._pipes:
            self._pump.drop(reading)
        self._pipes.clear()
