"""Runs the command of `--notify`: one at a time, each for a bounded time, whoever is attached."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from contextlib import suppress

from gmg_tui.engine.children import Children
from gmg_tui.engine.daemon_thread import in_daemon_thread
from gmg_tui.engine.processes import process_tree
from gmg_tui.model import TERMINAL_WAYS, Occurrence, OccurrenceKind, RunSpec
from gmg_tui.text import clean

_log = logging.getLogger(__name__)

TIMEOUT_S = 30.0
"""How long a command may take."""
_TERM_S = 2.0
"""How long it may take to end after SIGTERM."""
_LAST_S = 2 * (TIMEOUT_S + _TERM_S)
"""How long an engine that has nothing else to do stays for commands: for one that runs, and the last."""
_WAITING = 32
"""Occurrences that may wait; of further ones only their number is told."""
_NO_WORKER = "\0"
"""No slot's name."""
_READ_BYTES = 1 << 16
"""As much as a pipe holds."""
_SAID_BYTES = 400
"""How much of what a command writes to standard error is kept."""


class NotifyCommands:
    """The commands that are run for each occurrence of a session.

    `note` is called with what is wrong with them, or with None once they work.
    """

    def __init__(self, spec: RunSpec, children: Children, note: Callable[[str | None], None]) -> None:
        self._spec = spec
        self._children = children
        self._note = note
        self._commands = [one for one in spec.notify if one not in TERMINAL_WAYS]
        self._waiting: list[Occurrence] = []
        self._missed = 0
        self._task: asyncio.Task[None] | None = None

    def tell(self, occurrence: Occurrence) -> None:
        """Have the commands run for it, after those that wait."""
        if not self._commands:
            return
        if len(self._waiting) >= _WAITING and occurrence.kind is not OccurrenceKind.ENDED:
            self._missed += 1
            return
        self._waiting.append(occurrence)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run_all(), name="notify")

    def drop(self) -> None:
        """Run no more, and end the one that runs."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()

    async def finish(self) -> None:
        """Wait for those that run or wait, but not for ever."""
        if self._task is None or self._task.done():
            return
        await asyncio.wait([self._task], timeout=_LAST_S)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._waiting:
            _log.warning("--notify: %d occurrences were not told", len(self._waiting))

    async def _run_all(self) -> None:
        while self._waiting:
            one = self._waiting.pop(0)
            missed, self._missed = self._missed, 0
            wrong = [await self._run(command, self._variables(one, missed)) for command in self._commands]
            said = [f"--notify {command}: {why}" for command, why in zip(self._commands, wrong, strict=True) if why]
            self._note("; ".join(said) or None)

    def _variables(self, one: Occurrence, missed: int) -> dict[str, str]:
        """What the command gets in its environment, and nowhere else: nothing of it is read by the shell."""
        return {
            "GMG_EVENT": one.kind.value,
            "GMG_SESSION": self._spec.name,
            "GMG_FOLDER": self._spec.folder,
            "GMG_SLOT": one.slot,
            "GMG_JOB": "" if one.job is None else str(one.job),
            "GMG_JOB_NAME": one.job_name,
            "GMG_REASON": one.reason,
            "GMG_TEXT": one.text,
            "GMG_MISSED": str(missed),
        }

    async def _run(self, command: str, variables: dict[str, str]) -> str | None:
        """Run it to its end. What was wrong, in a few words, or None."""
        said = _LastWords()
        self._children.begin(self)
        try:
            # Of its own session: it is no worker's, and is ended with all that it has started.
            process = await self._children.start(
                "/bin/sh",
                "-c",
                command,
                env={**os.environ, **variables},
                cwd=self._spec.cwd,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=said.end,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            said.close()
            self._children.end(self)
            return f"cannot be run: {error}"
        said.listen()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                code = await process.wait()
        except TimeoutError:
            return f"ended after {TIMEOUT_S:.0f} s, which is as long as it may take"
        else:
            return None if code == 0 else f"exit code {code}{said.text and ': '}{said.text}"
        finally:
            said.close()
            await _end(process)
            self._children.end(self)


class _LastWords:
    """The last of what is written to `end`, a pipe that is read while the command runs.

    It is no stream of asyncio's: a process with such a one counts as running while anything holds the pipe open.
    """

    def __init__(self) -> None:
        self._read, self.end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(self.end, True)
        self._kept = b""
        self._ends = [self._read, self.end]

    def listen(self) -> None:
        """The command has its end of the pipe."""
        os.close(self._ends.pop())
        asyncio.get_running_loop().add_reader(self._read, self._take)

    def _take(self) -> None:
        with suppress(BlockingIOError):
            data = os.read(self._read, _READ_BYTES)
            self._kept = (self._kept + data)[-_SAID_BYTES:]
            if not data:
                asyncio.get_running_loop().remove_reader(self._read)

    @property
    def text(self) -> str:
        """The last line, with what has not been read yet."""
        self._take()
        lines = self._kept.strip().splitlines()
        return clean(lines[-1]) if lines else ""

    def close(self) -> None:
        """Read no more."""
        asyncio.get_running_loop().remove_reader(self._read)
        while self._ends:
            os.close(self._ends.pop())


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the command, gracefully and then not, and what it leaves in its group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is None:
            with suppress(ProcessLookupError):  # until it has been waited for, its number is no other group's
                os.killpg(process.pid, number)
            with suppress(TimeoutError):
                async with asyncio.timeout(_TERM_S):
                    await process.wait()
    table = await in_daemon_thread(process_tree.scan)
    if process.returncode is not None:
        for left in table.members(None if process.pid in table.by_pid else process.pid, _NO_WORKER):
            process_tree.send(left, signal.SIGKILL)
