"""One attempt's process: started in its own group, and signalled with all its descendants."""

import asyncio
import contextlib
import ctypes
import errno
import logging
import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from typing import Any

from gmg_tui.engine.attempts.attempt import Report
from gmg_tui.engine.clock import any_of
from gmg_tui.engine.output.pipes import Pipe, Pipes
from gmg_tui.machine import numa, processes
from gmg_tui.machine.processes import MIN_SCAN_INTERVAL_S, Proc, Scans
from gmg_tui.model import units
from gmg_tui.model.states import SUSPENDED_S

_log = logging.getLogger(__name__)

Step = tuple[signal.Signals, float]
"""A signal, and the seconds to wait before the next."""
SIGTERM_EXIT_CODES = (-signal.SIGTERM, 128 + signal.SIGTERM)
"""Exit codes of a process ended by SIGTERM, and of a shell whose command was."""
KILL_STEPS: tuple[Step, ...] = ((signal.SIGKILL, 5.0),)
LEFTOVER_STEPS: tuple[Step, ...] = ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))
"""Signals for processes that have outlived the script."""
_ENV = shutil.which("env")
"""The path of env(1), looked up early: a folder of PATH may be on a disk that hangs later."""
ENV_EXIT_CODES = range(125, 128)
"""Exit codes of env(1) when it cannot enter the working directory or execute the command."""
ENV_ERROR_PREFIX = b"env: "
"""Prefix of env(1)'s error message."""
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Makes this process the parent of its descendants' orphans (prctl(2), `PR_SET_CHILD_SUBREAPER`).

    It can then also reap a grandchild that starts its own session and outlives its parent.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def command_in(cwd: str, command: Sequence[str]) -> tuple[Sequence[str], dict[str, Any]]:
    """Returns a command that itself changes to `cwd`, and keyword arguments for `create_subprocess_exec`.

    The engine waits for the child to call `exec`: changing to a directory on a hung network disk before that would
    block it. env(1) changes to the directory afterwards.
    """
    if _ENV is None or "=" in command[0]:  # env would read it as a variable
        return command, {"cwd": cwd}
    return ("env", f"--chdir={cwd}", *command), {"executable": _ENV}


class Process:
    """A process and its descendants, which carry `mark` as `GMG_ATTEMPT_ID` unless they clear it.

    `feed` is called for each chunk of output, with a flag (True for standard error) and the chunk; `changed` is called
    when an attribute has changed.

    Attributes:
        sent: Description of the last signal and the wait after it; None before the first.
        survivors: Description of the processes that survived SIGKILL; None if there are none.
        unkillable: Set together with `survivors`.
    """

    def __init__(
        self,
        pipes: Pipes,
        scans: Scans,
        mark: str,
        feed: Callable[[bool, bytes], None],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.sent: str | None = None
        self.survivors: str | None = None
        self.unkillable = asyncio.Event()
        self._pipes, self._scans, self.mark, self._feed, self._changed = pipes, scans, mark, feed, changed
        self._ending: asyncio.Task[None] | None = None
        self._is_killing = False
        self._found_pids: set[int] = set()
        """PIDs found alive after the first signal."""
        self.anothers: set[tuple[int, int]] = set()
        """Keys of processes that refuse signals, as they have become another user's, for example with sudo."""
        self._open_pipes: list[Pipe] = []
        self._process: asyncio.subprocess.Process | None = None

    @property
    def started(self) -> bool:
        """True once a process has been started."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """The PID of the first process, which is also the ID of its process group and session."""
        assert self._process is not None
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The first process's exit code, negative for a signal; None until it has ended."""
        return None if self._process is None else self._process.returncode

    async def start(
        self, command: Sequence[str], *, cwd: str, env: Mapping[str, str], cores: Set[int] | None = None
    ) -> None:
        """Starts the process with `/dev/null` as standard input, pinned to `cores` (None: not pinned).

        Raises `OSError`, or `RuntimeError` if no thread can wait for its end (old kernels).
        """
        write_ends: list[int] = []
        command, options = command_in(cwd, command)
        try:
            for is_error in (False, True):
                pipe, write_end = self._pipes.open(partial(self._feed, is_error))
                self._open_pipes.append(pipe)
                write_ends.append(write_end)
            self._process = await asyncio.create_subprocess_exec(
                *command,
                env={**env, "GMG_ATTEMPT_ID": self.mark},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=write_ends[0],
                stderr=write_ends[1],
                start_new_session=True,
                **options,
            )
            if cores is not None:
                numa.pin(self.pid, cores)
        except ValueError as error:  # a NUL character, or a variable with `=` in its name
            raise OSError(errno.EINVAL, str(error)) from error
        except RuntimeError:  # asyncio has started the process anyway
            await self._kill_untracked()
            raise
        finally:
            if self._process is None:
                self.close_pipes()
            for write_end in write_ends:
                os.close(write_end)

    async def _kill_untracked(self) -> None:
        """Kills a process that `start` started but cannot wait for."""
        ((number, wait_s),) = KILL_STEPS
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while remaining := (await self._scans.table()).members(None, self.mark):
                    for proc in remaining:
                        self._signal(proc, number)

    async def wait(self) -> int:
        """Waits for the first process to end. Returns its exit code, negative for a signal."""
        assert self._process is not None
        return await self._process.wait()

    def close_pipes(self) -> None:
        """Reads the remaining output, then closes the pipes, even if a surviving process holds one open."""
        for pipe in self._open_pipes:
            self._pipes.close(pipe)
        self._open_pipes.clear()

    @property
    def is_entering(self) -> bool:
        """True until env(1) executes the command: the disk of the working directory or interpreter may hang."""
        return self.exit_code is None and processes.command_name(self.pid) == "env"

    @property
    def has_ended(self) -> bool:
        """True once the first process has ended, even if not yet reaped."""
        if self._process is None or self.exit_code is not None:
            return self.started
        try:
            _refuses_signals(self.pid)
        except ProcessLookupError:
            return True  # reaped; asyncio is about to report it
        proc = processes.read(self.pid)
        return proc is not None and not proc.is_alive

    def members(self, table: processes.Table) -> list[Proc]:
        """Returns the live processes of this attempt."""
        if self._process is None:
            return []
        # Once the first process is reaped, its PID may belong to another.
        leader = self.pid if self.exit_code is None or self.pid not in table.by_pid else None
        return [proc for proc in table.members(leader, self.mark) if proc.key not in self.anothers]

    async def remaining(self) -> list[Proc] | None:
        """Returns this attempt's live processes from a fresh scan; None if too many files are open."""
        try:
            return self.members(await self._scans.table())
        except OSError as error:
            _log.warning("/proc cannot be read: %s", error.strerror)
            return None

    @property
    def is_ending(self) -> bool:
        """True once `end` has been called."""
        return self._ending is not None

    def end(self, steps: Sequence[Step]) -> None:
        """Sends the signals of `steps` in order until no process is left; only `KILL_STEPS` replaces earlier steps.

        While the first process lives, SIGINT goes only to the process group, like a terminal's ctrl+c; other
        signals also reach processes that have left the group. SIGCONT lets stopped processes handle them.
        The group is signalled before the scan, because signalling needs no memory, thread or descriptor.
        """
        if self._process is None or self.unkillable.is_set():
            return
        if self._ending is not None:
            if steps is not KILL_STEPS or self._is_killing:  # a second kill must not restart the wait
                return
            self._ending.cancel()
        self._is_killing = steps is KILL_STEPS
        self._ending = asyncio.create_task(self._end(steps))

    async def wait_for_end(self) -> None:
        """Waits until all processes have ended or prove unkillable; returns at once if `end` has not been called."""
        while self._ending is not None and not self._ending.done():
            await asyncio.wait([self._ending])  # a kill may have replaced it

    async def _end(self, steps: Sequence[Step]) -> None:
        remaining: list[Proc] | None = None
        for number, wait_s in steps:
            if self.exit_code is None:
                self._signal_group(number)
            self.sent = f"{number.name} sent, waiting up to {units.span(wait_s)}"
            self._changed()
            remaining = await self._signal_others(number, wait_s)
            if remaining == [] and self.exit_code is not None:
                self._reap()
                return
        if not remaining and self.exit_code is None and (leader := processes.read(self.pid)) is not None:
            remaining = [leader]
        is_anothers = False
        with contextlib.suppress(ProcessLookupError):  # another user's may not be readable (hidepid, proc(5))
            is_anothers = self.exit_code is None and _refuses_signals(self.pid)
        if remaining or is_anothers:
            pids = ", ".join(f"{proc.pid} (state {proc.state})" for proc in remaining or ()) or str(self.pid)
            where = "stuck in the kernel" if any(proc.is_alive for proc in remaining or ()) else "held by a debugger"
            where = "another user's" if is_anothers else where
            self.survivors = f"survives SIGKILL: process {pids}; {where}"
            _log.warning("%s", self.survivors)
            self.unkillable.set()
            self._changed()

    async def _signal_others(self, number: signal.Signals, wait_s: float) -> list[Proc] | None:
        """Signals processes that the group's signal did not reach, and waits. Returns those alive; None if unknown."""
        loop, reached = asyncio.get_running_loop(), set[tuple[int, int]]()
        checked_at = loop.time()
        deadline = checked_at + wait_s
        while True:
            if loop.time() - checked_at > SUSPENDED_S:  # the processes were suspended, too
                deadline += loop.time() - checked_at
            checked_at = loop.time()
            had_exited = self.exit_code is not None  # else it may fork during the scan
            remaining = await self.remaining()
            self._found_pids.update(proc.pid for proc in remaining or ())
            if had_exited and remaining == []:
                return []
            for proc in remaining or ():
                if proc.key not in reached and self._needs_signal(proc, number):
                    reached.add(proc.key)
                    self._signal(proc, number)
            if loop.time() >= deadline:
                return remaining
            if remaining is None:
                await asyncio.sleep(MIN_SCAN_INTERVAL_S)

    def _reap(self) -> None:
        """Reaps ended orphans: zombies count against process limits."""
        for pid in (-self.pid, *self._found_pids - {self.pid}):
            with contextlib.suppress(ChildProcessError):  # not our child, or already reaped
                while os.waitpid(pid, os.WNOHANG)[0]:
                    pass

    def _needs_signal(self, proc: Proc, number: signal.Signals) -> bool:
        """Returns True if the signal to the group did not reach a process that should get it."""
        if self.exit_code is not None:
            return True
        return proc.group != self.pid and number is not signal.SIGINT

    def _signal_group(self, number: signal.Signals) -> None:
        for signum in (number, signal.SIGCONT):
            with contextlib.suppress(ProcessLookupError, PermissionError):  # just ended, or another user's
                os.killpg(self.pid, signum)

    def _signal(self, proc: Proc, number: signal.Signals) -> None:
        for signum in (number, signal.SIGCONT):
            try:
                processes.send_signal(proc, signum)
            except PermissionError:
                _log.info("process %d is another user's, and is left alone", proc.pid)
                self.anothers.add(proc.key)
            except OSError as error:
                _log.debug("process %d cannot be signalled: %s", proc.pid, error.strerror)  # too many open files

    def forward_signal(self, number: signal.Signals) -> bool:
        """Forwards a signal that the first process handles; an unhandled one would kill it. Returns True if sent."""
        if self._process is None or self.exit_code is not None or not processes.handles_signal(self.pid, number):
            return False
        try:
            self._process.send_signal(number)
        except PermissionError:  # it has become another user's, as with sudo
            return False
        return True


def _refuses_signals(pid: int) -> bool:
    """True for another user's process, such as one that has become root's with sudo. Raises `ProcessLookupError`."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    return False


MAX_LEFTOVER_IDLE_S = 10.0
"""Seconds a leftover process may be idle before it is ended."""
MAX_LEFTOVER_BUSY_S = 120.0
"""Seconds a leftover process may live while it uses the CPU or the network."""
_CHECK_INTERVAL_S = 0.5
_MIN_CPU_S = 0.005
"""CPU time between two checks that shows a process to be busy: 1 % of a core."""
_MIN_SWITCHES = 5
"""Voluntary context switches between two checks, such as for packets sent, that show a process to be busy."""


async def wait_for_leftovers(process: Process, skipped: asyncio.Event, report: Report) -> str | None:
    """Waits for leftover processes to exit, within the limits above or until `skipped`.

    Returns a description of the processes to end; None if none are left, or if `/proc` cannot be read.
    """
    started_at = busy_at = now = time.monotonic()
    usage: tuple[float, int] | None = None
    while (remaining := await process.remaining()) != []:
        checked_at, now = now, time.monotonic()
        if now - checked_at > SUSPENDED_S:
            started_at, busy_at = started_at + now - checked_at, now
        if remaining is None:  # too many open files: try again
            if skipped.is_set() or now - started_at >= MAX_LEFTOVER_BUSY_S:
                return None
            await asyncio.sleep(_CHECK_INTERVAL_S)
            continue
        description = f"{units.count(len(remaining), 'process')} that the script left behind"
        last, usage = usage, _usage(remaining)
        is_waiting = any(proc.state in "RD" for proc in remaining)  # for a CPU that others use, or a slow disk
        if is_waiting or (
            last is not None and (usage[0] - last[0] >= _MIN_CPU_S or usage[1] - last[1] >= _MIN_SWITCHES)
        ):
            busy_at = now
        if skipped.is_set() or now - busy_at >= MAX_LEFTOVER_IDLE_S or now - started_at >= MAX_LEFTOVER_BUSY_S:
            return description
        report(f"for {description} ({processes.command_name(remaining[0].pid)})")
        await any_of(skipped, timeout_s=_CHECK_INTERVAL_S)
    return None


def _usage(procs: Sequence[Proc]) -> tuple[float, int]:
    """Returns the CPU seconds and voluntary context switches of processes."""
    return sum(proc.cpu_s for proc in procs), sum(processes.wait_count(proc.pid) for proc in procs)
