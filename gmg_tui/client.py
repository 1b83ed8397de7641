"""The connection to one engine: requests and their answers, and the messages that the engine sends by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Self

import msgspec

import gmg_tui
from gmg_tui import protocol
from gmg_tui.errors import GmgError
from gmg_tui.protocol import Answer, Bye, FromAgent, Lines, Request, Update, Welcome
from gmg_tui.source import Source

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
ANSWER_S = 10.0
"""How long an engine may take to answer a request, which takes it milliseconds; a stopped one (SIGSTOP) never does."""
_CLOSE_S = 1.0
"""How long what was sent last may take to reach the engine when the connection is closed."""
_HELLO_S = 10.0
"""How long an engine may take to answer the hello; a stopped one (SIGSTOP) never does."""


class EngineClient(Source):
    """A connection to an engine's socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, welcome: Welcome) -> None:
        super().__init__(welcome)
        self._reader = reader
        self._writer = writer
        self._answers: dict[int, asyncio.Future[Answer]] = {}
        self._gone: str | None = None
        self.heard_agent: Callable[[msgspec.Raw], None] = lambda _: None
        """Called with each message of an agent."""

    @classmethod
    async def connect(cls, path: Path, session_id: str = "", *, readonly: bool = False) -> Self:
        """Say hello to the engine at `path`; with an id, only to that session's.

        With `readonly` the engine is to refuse all that would change something.

        Raises:
            GmgError: None answers, or one of another version or session.
        """
        connecting = partial(asyncio.open_unix_connection, str(path))
        return await cls._greet(connecting, str(path), session_id, readonly=readonly)

    @classmethod
    async def over(cls, streams: Streams, name: str, session_id: str = "") -> Self:
        """Say hello over a connection that stands, to the engine called `name`. Raises `GmgError` as `connect` does."""

        async def standing() -> Streams:
            return streams

        return await cls._greet(standing, name, session_id)

    @classmethod
    async def _greet(
        cls, connect: Callable[[], Awaitable[Streams]], path: str, session_id: str, *, readonly: bool = False
    ) -> Self:
        writer = None
        try:
            async with asyncio.timeout(_HELLO_S):
                reader, writer = await connect()
                hello = protocol.Hello(protocol.VERSION, gmg_tui.__version__, session_id, readonly)
                writer.write(protocol.frame(hello))
                await writer.drain()
                first = await protocol.read_message(reader)
            if isinstance(first, Welcome) and (first.readonly or not readonly):
                return cls(reader, writer, first)
            text = f"the engine at {path} speaks another protocol; update gmg-tui and try again"
            problem = GmgError(first.reason if isinstance(first, Bye) else text, 1)
        except TimeoutError:
            problem = GmgError(f"the engine at {path} does not answer; is it stopped (SIGSTOP)?", 1)
        except (OSError, EOFError, protocol.ProtocolError) as error:
            problem = GmgError(f"no engine answers at {path}: {_broken(error)}", 1)
        if writer is not None:
            writer.close()
        raise problem

    async def events(self) -> AsyncIterator[Update | Lines | Bye]:
        """What the engine sends by itself; ends with `Bye`, also when the connection breaks.

        Exactly one task must iterate over it for answers to arrive.
        """
        try:
            while True:
                try:
                    message = await protocol.read_message(self._reader)
                except (OSError, EOFError, protocol.ProtocolError) as error:
                    message = Bye(_broken(error))
                match message:
                    case Answer(id=number):
                        waiting = self._answers.pop(number, None)
                        if waiting is not None and not waiting.done():
                            waiting.set_result(message)
                    case Bye(reason=reason):
                        self._fail(reason)
                        yield message
                        return
                    case FromAgent(body=body):
                        self.heard_agent(body)
                    case Update() | Lines():
                        yield message
                    case Welcome():
                        pass  # only ever the first message, which connect() reads
        finally:
            self._fail("the connection to the engine was closed")

    async def follow(self, *slots: str, tail: int, telling: bool = False) -> None:
        """Receive the lines of these workers from now on, starting with the newest `tail` that exist.

        With `telling` earlier ones that say more than progress come before them, as far as they are kept.
        """
        await self._send(protocol.Follow(slots, tail, telling))

    async def tell_agent(self, body: msgspec.Raw) -> None:
        """Send a message of `gmg_tui.engine.nodes` to an agent. Raises `GmgError` when it is not taken."""
        await self._ask(protocol.ToAgent, body)

    async def share(self, group: int | None, group_name: str = "", address: str = "") -> None:
        """Let a group look at the session, or (None) nobody else. Raises `GmgError` when that cannot be done."""
        await self._ask(protocol.ShareWith, group, group_name, address)

    async def close(self) -> None:
        """Disconnect; the engine keeps running."""
        self._fail("this client has disconnected")
        self._writer.close()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._writer.wait_closed()
        except TimeoutError:
            self._writer.transport.abort()  # the engine does not read
        except OSError:
            return  # the engine closed it first

    async def _send(self, request: Request) -> None:
        if self._gone is not None:
            raise GmgError(self._gone, 1)
        try:
            self._writer.write(protocol.frame(request))
            await self._writer.drain()
        except OSError as error:
            raise GmgError(f"the engine is gone: {_broken(error)}", 1) from error

    async def _answer(self, number: int, request: Request) -> Answer:
        """Send a request, and wait for its answer.

        Raises:
            GmgError: The connection broke, or no answer came in time.
        """
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._answers[number] = future
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._send(request)
                return await future
        except TimeoutError as error:
            text = f"the engine has not answered for {ANSWER_S:.0f} s; it may still do this when it goes on"
            raise GmgError(text, 1) from error
        finally:
            self._answers.pop(number, None)

    def _fail(self, reason: str) -> None:
        self._gone = self._gone or reason
        for future in self._answers.values():
            if not future.done():
                future.set_exception(GmgError(reason, 1))
        self._answers.clear()


def _broken(error: Exception) -> str:
    """Why there is no connection to an engine, in plain words."""
    match error:
        case ConnectionRefusedError():
            return "nobody listens there any more"
        case EOFError() | ConnectionError():
            return "it ended without a word, as when it is killed"
        case OSError():
            return error.strerror or type(error).__name__
        case _:
            return f"it sent something that is no message ({error})"
