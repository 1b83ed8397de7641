"""Talks to one engine: requests and their answers, and what the engine sends by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol, Self

import gmg_tui
from gmg_tui import protocol
from gmg_tui.errors import GmgError
from gmg_tui.model import Details, QueueAction, QueueView, Series
from gmg_tui.protocol import Action, Answer, Bye, Lines, Request, Update, Welcome

_Asking = (
    protocol.Act
    | protocol.Edit
    | protocol.AskDetails
    | protocol.AskSeries
    | protocol.EndProcess
    | protocol.End
    | protocol.AskQueue
    | protocol.ActOnJobs
    | protocol.UseSlot
)
"""The requests that are answered."""

_HELLO_S = 10.0
"""How long an engine may take to say welcome; a stopped one (SIGSTOP) never does."""


class Engine(Protocol):
    """What a user interface needs of an engine; `EngineClient` is the real one."""

    welcome: Welcome

    def events(self) -> AsyncIterator[Update | Lines | Bye]:
        """What the engine sends by itself; ends with `Bye`, also when the connection breaks."""
        ...

    async def follow(self, *slots: str, tail: int) -> None:
        """Receive the lines of these workers from now on, beginning with the newest `tail` that are there."""
        ...

    async def act(self, action: Action, *slots: str) -> None:
        """Do something to workers. Raises `GmgError` when it cannot be done."""
        ...

    async def edit(self, slots: tuple[str, ...], args: tuple[str, ...], env: dict[str, str]) -> None:
        """Change arguments and environment and restart. Raises `GmgError` when it cannot be done."""
        ...

    async def details(self, slot: str) -> Details:
        """What a details screen shows of the worker. Raises `GmgError` when there is none."""
        ...

    async def series(self, slot: str) -> Series:
        """The worker's figures over its whole life. Raises `GmgError` when there are none."""
        ...

    async def end_process(self, slot: str, pid: int, *, kill: bool = False) -> None:
        """Send SIGTERM (or SIGKILL) to a process on the slot's card. Raises `GmgError` when that cannot be done."""
        ...

    async def queue(self, first: int, count: int) -> QueueView:
        """A part of the queue: `count` jobs from place `first` on. Raises `GmgError` in a plain run."""
        ...

    async def act_on_jobs(self, action: QueueAction, *jobs: int) -> None:
        """Do something to jobs of the queue. Raises `GmgError` when it cannot be done."""
        ...

    async def use_slot(self, slot: str, *, used: bool) -> None:
        """Let jobs start on a slot, or on it no more. Raises `GmgError` when that cannot be done."""
        ...

    async def end(self, *, kill: bool = False) -> None:
        """Stop (or kill) all workers. Returns when the engine has heard it, not when they have ended."""
        ...

    async def close(self) -> None:
        """Leave; the engine goes on."""
        ...


class EngineClient:
    """A connection to an engine's socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, welcome: Welcome) -> None:
        self.welcome = welcome
        self._reader = reader
        self._writer = writer
        self._answers: dict[int, asyncio.Future[Answer]] = {}
        self._next_id = 0
        self._gone: str | None = None

    @classmethod
    async def connect(cls, path: Path) -> Self:
        """Say hello to the engine that listens at `path`.

        Raises:
            GmgError: Nobody listens there, the engine is another version's, or it does not answer.
        """
        writer = None
        try:
            async with asyncio.timeout(_HELLO_S):
                reader, writer = await asyncio.open_unix_connection(str(path))
                writer.write(protocol.frame(protocol.Hello(protocol.VERSION, gmg_tui.__version__)))
                await writer.drain()
                first = await protocol.read_message(reader)
        except TimeoutError:
            if writer is not None:
                writer.close()
            raise GmgError(f"the engine at {path} does not answer; is it stopped (SIGSTOP)?", 1) from None
        except (OSError, EOFError, protocol.ProtocolError) as error:
            if writer is not None:
                writer.close()
            raise GmgError(f"no engine answers at {path}: {error}", 1) from error
        if isinstance(first, Bye):
            writer.close()
            raise GmgError(first.reason, 1)
        if not isinstance(first, Welcome):
            writer.close()
            raise GmgError(f"the engine at {path} speaks another protocol; update gmg-tui and try again", 1)
        return cls(reader, writer, first)

    async def events(self) -> AsyncIterator[Update | Lines | Bye]:
        """What the engine sends by itself; ends with `Bye`, also when the connection breaks.

        Exactly one task must iterate over it for answers to arrive.
        """
        try:
            while True:
                try:
                    message = await protocol.read_message(self._reader)
                except (OSError, EOFError, protocol.ProtocolError) as error:
                    message = Bye(f"the connection to the engine broke: {error or type(error).__name__}")
                match message:
                    case Answer(id=number):
                        waiting = self._answers.pop(number, None)
                        if waiting is not None and not waiting.done():
                            waiting.set_result(message)
                    case Bye(reason=reason):
                        self._fail(reason)
                        yield message
                        return
                    case Update() | Lines():
                        yield message
                    case Welcome():
                        pass  # only ever the first message, which connect() has read
        finally:
            self._fail("the connection to the engine was closed")

    async def follow(self, *slots: str, tail: int) -> None:
        """Receive the lines of these workers from now on, beginning with the newest `tail` that are there."""
        await self._send(protocol.Follow(slots, tail))

    async def act(self, action: Action, *slots: str) -> None:
        """Do something to workers. Raises `GmgError` when it cannot be done."""
        await self._ask(protocol.Act(self._number(), action, slots))

    async def edit(self, slots: tuple[str, ...], args: tuple[str, ...], env: dict[str, str]) -> None:
        """Change arguments and environment and restart. Raises `GmgError` when it cannot be done."""
        await self._ask(protocol.Edit(self._number(), slots, args, env))

    async def details(self, slot: str) -> Details:
        """What a details screen shows of the worker. Raises `GmgError` when there is none."""
        answer = await self._ask(protocol.AskDetails(self._number(), slot))
        if answer.details is None:
            raise GmgError(f"the engine gave no details of {slot}", 1)
        return answer.details

    async def series(self, slot: str) -> Series:
        """The worker's figures over its whole life. Raises `GmgError` when there are none."""
        answer = await self._ask(protocol.AskSeries(self._number(), slot))
        if answer.series is None:
            raise GmgError(f"the engine gave no history of {slot}", 1)
        return answer.series

    async def end_process(self, slot: str, pid: int, *, kill: bool = False) -> None:
        """Send SIGTERM (or SIGKILL) to a process on the slot's card. Raises `GmgError` when that cannot be done."""
        await self._ask(protocol.EndProcess(self._number(), slot, pid, kill))

    async def queue(self, first: int, count: int) -> QueueView:
        """A part of the queue: `count` jobs from place `first` on. Raises `GmgError` in a plain run."""
        answer = await self._ask(protocol.AskQueue(self._number(), first, count))
        if answer.queue is None:
            raise GmgError("the engine gave no queue", 1)
        return answer.queue

    async def act_on_jobs(self, action: QueueAction, *jobs: int) -> None:
        """Do something to jobs of the queue. Raises `GmgError` when it cannot be done."""
        await self._ask(protocol.ActOnJobs(self._number(), action, jobs))

    async def use_slot(self, slot: str, *, used: bool) -> None:
        """Let jobs start on a slot, or on it no more. Raises `GmgError` when that cannot be done."""
        await self._ask(protocol.UseSlot(self._number(), slot, used))

    async def end(self, *, kill: bool = False) -> None:
        """Stop (or kill) all workers. Returns when the engine has heard it, not when they have ended."""
        await self._ask(protocol.End(self._number(), kill))

    async def close(self) -> None:
        """Leave; the engine goes on."""
        self._fail("this client has left")
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            return  # the other side was quicker

    def _number(self) -> int:
        self._next_id += 1
        return self._next_id

    async def _send(self, request: Request) -> None:
        if self._gone is not None:
            raise GmgError(self._gone, 1)
        try:
            self._writer.write(protocol.frame(request))
            await self._writer.drain()
        except OSError as error:
            raise GmgError(f"the connection to the engine broke: {error}", 1) from error

    async def _ask(self, request: _Asking) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._answers[request.id] = future
        try:
            await self._send(request)
            answer = await future
        finally:
            self._answers.pop(request.id, None)
        if answer.error is not None:
            raise GmgError(answer.error, 1)
        return answer

    def _fail(self, reason: str) -> None:
        self._gone = self._gone or reason
        for future in self._answers.values():
            if not future.done():
                future.set_exception(GmgError(reason, 1))
        self._answers.clear()
