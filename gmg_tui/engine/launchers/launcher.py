"""A launcher names the nodes, and starts a program for each that connects its standard streams to an agent."""

import asyncio
import contextlib
import os
import signal
import sys
from abc import ABC, abstractmethod
from asyncio.subprocess import SubprocessStreamProtocol
from collections.abc import Sequence
from typing import Any

import msgspec

from gmg_tui.model import units
from gmg_tui.model.errors import GmgError
from gmg_tui.model.text import clean, one_line
from gmg_tui.session import AGENT_MARK

PROGRAM = (sys.executable, "-P", "-m", "gmg_tui", "agent")
"""Starts or finds the node's agent; a node without this interpreter runs its own gmg-tui."""
_MAX_GREETING_BYTES = 1 << 20
"""Limit of output before the connection carries frames."""
_END_TIMEOUT_S = 2.0
MAX_TROUBLE_BYTES = 1000
_MAX_LOCAL_NODES = 4096


class Connection:
    """A program connected to a node's agent, written to by `writer` and read by `reader`.

    Attributes:
        trouble: The last line of its standard error.
    """

    def __init__(self, process: asyncio.subprocess.Process, transport: asyncio.SubprocessTransport) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process, self._transport = process, transport
        self.reader, self.writer = process.stdout, process.stdin
        self.trouble = ""
        self._reading = asyncio.create_task(self._read_errors(process.stderr))

    async def _read_errors(self, stream: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await stream.readline()
            except ValueError:  # longer than the limit
                continue
            if not line:
                return
            self.trouble = clean(line[:MAX_TROUBLE_BYTES].strip()) or self.trouble

    async def greet(self, order: bytes) -> dict[str, Any]:
        """Sends the agent's spec and waits for its answer. Raises `GmgError`, `OSError` or `EOFError`."""
        self.writer.write(order + b"\n")
        await self.writer.drain()
        mark, noise = AGENT_MARK.encode(), 0
        try:
            while line := await self.reader.readline():  # a shell may print anything first
                if line.startswith(mark):
                    answer = msgspec.json.decode(line[len(mark) :], type=dict[str, Any])
                    if answer.get("ok"):
                        return answer
                    raise GmgError(one_line(str(answer.get("error"))[:MAX_TROUBLE_BYTES]), 1)
                noise += len(line)
                if noise > _MAX_GREETING_BYTES:
                    raise ValueError
        except (ValueError, RecursionError):  # a line over the limit, or not JSON
            raise GmgError("its output is not an agent's answer", 1) from None
        raise EOFError("the connection was closed before its agent answered")

    def kill(self) -> None:
        """Kills the program. The agent keeps running."""
        if self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    async def close(self) -> None:
        """Ends the program, and waits for its end and the rest of its error output. The agent keeps running."""
        self.writer.close()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END_TIMEOUT_S):
                    await self._process.wait()
        finally:
            self.kill()
            # For asyncio it ends once its output is read, but a child may hold that open.
            draining = [asyncio.create_task(each) for each in (self._process.wait(), self._drain())]
            await asyncio.wait([*draining, self._reading], timeout=_END_TIMEOUT_S)
            for task in (*draining, self._reading):
                task.cancel()
            self._transport.close()

    async def _drain(self) -> None:
        with contextlib.suppress(OSError):
            while await self.reader.read(_MAX_GREETING_BYTES):
                pass


class Launcher(ABC):
    """Starts the agents of a session's nodes."""

    @abstractmethod
    async def nodes(self) -> tuple[str, ...]:
        """Returns the nodes' unique names. Raises `GmgError` if they cannot be listed or there are none."""

    @abstractmethod
    def command(self, node: str) -> Sequence[str]:
        """Returns the command that runs `PROGRAM` on a node."""

    async def connect(self, node: str) -> Connection:
        """Runs the command. Raises `GmgError` if it cannot be run."""
        command, loop = self.command(node), asyncio.get_running_loop()
        try:
            # Like `create_subprocess_exec`, but keeps the transport, which can close pipes held open by others.
            transport, protocol = await loop.subprocess_exec(
                lambda: SubprocessStreamProtocol(_MAX_GREETING_BYTES, loop),
                *command,
                start_new_session=True,  # ctrl+c is for the engine
            )
        except OSError as error:
            raise GmgError(f"cannot run {command[0]}: {error.strerror}", 1) from error
        return Connection(asyncio.subprocess.Process(transport, protocol, loop), transport)

    async def unreachable(self) -> str | None:
        """Returns why no node can be reached any more, such as the job's end; None if one may be. Never raises."""
        return None


class Local(Launcher):
    """A number of agents on this machine, for tests and simulations."""

    def __init__(self, where: str) -> None:
        self._count = units.natural(where) or 0
        if not 1 <= self._count <= _MAX_LOCAL_NODES:
            raise GmgError(f"--nodes local:{where}: give how many agents to start on this machine, as in local:2")

    async def nodes(self) -> tuple[str, ...]:
        """Returns `n1`, `n2` and so on."""
        return tuple(f"n{number}" for number in range(1, self._count + 1))

    def command(self, node: str) -> Sequence[str]:
        """Returns this program; a simulated driver shows different GPUs for each node."""
        return ("env", f"GMG_NODE={node}", *PROGRAM)
