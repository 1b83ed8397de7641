"""What a launcher does, and one whose connections are processes: a command that runs gmg-tui on a node."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gmg_tui.errors import GmgError

LIMIT_BYTES = 1 << 20
"""Of a line, before the connection carries frames."""
_KEPT_LINES = 5
_END_S = 5.0
_WORDS_S = 1.0
PROGRAM = (sys.executable, "-P", "-m", "gmg_tui")
"""This gmg-tui, which a node has at the same path, or another."""
AGENT = ("agent",)
"""The command of gmg-tui that starts a node's agent, or finds it, and speaks for it on its standard input and output."""


class Ran(NamedTuple):
    """What a command of gmg-tui has said on a node."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    said: float
    """Unix time, by this machine's clock, at which the last of its output came, seconds."""


class Connection(ABC):
    """A way to a node's agent; bytes go to `writer` and come from `reader`."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @abstractmethod
    def trouble(self) -> str:
        """What the launcher has said last, in one line; empty if nothing."""

    @abstractmethod
    async def close(self) -> None:
        """Give it up. The agent goes on."""


class Launcher(ABC):
    """Starts the agents of a session's nodes."""

    @abstractmethod
    async def nodes(self) -> tuple[str, ...]:
        """The names of the nodes, each another. Raises `GmgError` where that cannot be known, or there are none."""

    @abstractmethod
    async def connect(self, node: str) -> Connection:
        """Run `gmg-tui agent` on a node. Raises `GmgError`."""

    async def run(self, node: str, words: Sequence[str], within_s: float) -> Ran:
        """Run a command of gmg-tui on a node until it ends. Raises `GmgError` where that cannot be done in time."""
        raise GmgError(f"{node}: this launcher runs agents only", 1)

    @property
    def at_last(self) -> Sequence[str]:
        """The command that does what `close` does, where the engine is killed before that; empty for nothing."""
        return ()

    async def gone(self) -> str | None:
        """Why no node will be reached any more, as with a job that has ended; None where one may be. Never raises."""
        return None

    async def close(self) -> None:  # noqa: B027 - most have nothing to end
        """The session is over."""


class _Process(Connection):
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self.reader, self.writer = process.stdout, process.stdin
        self._said: deque[str] = deque(maxlen=_KEPT_LINES)
        self._listening = asyncio.create_task(self._listen(process.stderr))

    async def _listen(self, stream: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await stream.readline()
            except ValueError:  # longer than the limit
                continue
            if not line:
                return
            text = line.decode(errors="replace").strip()
            if text:
                self._said.append(text)

    def trouble(self) -> str:
        """What it has said last on its standard error."""
        return self._said[-1] if self._said else ""

    async def close(self) -> None:
        """End the process, and wait for it, and for its last words."""
        self.writer.close()
        try:
            async with asyncio.timeout(_END_S):
                await self._process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()
        finally:
            # What it has started may hold its standard error open.
            await asyncio.wait([self._listening], timeout=_WORDS_S)
            self._listening.cancel()


class CommandLauncher(Launcher):
    """A launcher whose connections are commands that run on this machine: `ssh`, `srun`."""

    @abstractmethod
    def command(self, node: str, words: Sequence[str] = AGENT) -> Sequence[str]:
        """The command that runs gmg-tui with `words` on a node."""

    def environ(self, node: str) -> Mapping[str, str]:
        """The environment of that command."""
        return os.environ

    async def connect(self, node: str) -> Connection:
        """Run the command. Raises `GmgError` where it cannot be run."""
        command = self.command(node)
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self.environ(node),
                limit=LIMIT_BYTES,
                start_new_session=True,  # ctrl+c is for the engine
            )
        except OSError as error:
            raise GmgError(f"cannot run {command[0]}: {error.strerror}", 1) from error
        return _Process(process)

    async def run(self, node: str, words: Sequence[str], within_s: float) -> Ran:
        """As `Launcher.run`; what takes longer is killed here."""
        command = self.command(node, words)
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self.environ(node),
                start_new_session=True,
            )
        except OSError as error:
            raise GmgError(f"cannot run {command[0]}: {error.strerror}", 1) from error
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            async with asyncio.timeout(within_s):
                (stdout, said), stderr = await asyncio.gather(all_of(process.stdout), process.stderr.read())
                exit_code = await process.wait()
        except TimeoutError as error:
            raise GmgError(f"no answer within {within_s:g} s", 1) from error
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        return Ran(exit_code, stdout, stderr, said)


async def all_of(stream: asyncio.StreamReader) -> tuple[bytes, float]:
    """All that comes, and when the last of it did."""
    found, moment = bytearray(), time.time()
    while part := await stream.read(LIMIT_BYTES):
        found += part
        moment = time.time()
    return bytes(found), moment
