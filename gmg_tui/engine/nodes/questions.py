"""What the session's engine asks of an agent, and is answered."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from itertools import count

from gmg_tui.client import EngineClient
from gmg_tui.engine.nodes import messages
from gmg_tui.engine.nodes.messages import Piece, Port
from gmg_tui.errors import GmgError

_ANSWER_S = 30.0
_PIECE_S = 5.0
"""Less than a client waits that has asked for a log."""


class Questions:
    """Asks the agent of the node called `name`; `client` gives its connection, and raises `GmgError` without one."""

    def __init__(self, name: str, client: Callable[[], EngineClient]) -> None:
        self._name, self._client = name, client
        self._asks = count(1)
        self._waiting: dict[int, asyncio.Future[Port | Piece]] = {}

    def heard(self, answer: Port | Piece) -> None:
        """The agent has answered."""
        waiting = self._waiting.pop(answer.ask, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    async def _ask(self, ask: int, message: messages.ToAgent, answer_s: float = _ANSWER_S) -> Port | Piece:
        waiting: asyncio.Future[Port | Piece] = asyncio.get_running_loop().create_future()
        self._waiting[ask] = waiting
        try:
            async with asyncio.timeout(answer_s):
                await self._client().tell_agent(messages.encode(message))
                return await waiting
        except TimeoutError as error:
            raise GmgError(f"{self._name} has not answered for {answer_s:.0f} s", 1) from error
        finally:
            self._waiting.pop(ask, None)

    async def free_port(self) -> Port:
        """An address and a port of the node for a group's store. Raises `GmgError`."""
        ask = next(self._asks)
        found = await self._ask(ask, messages.Numbered(0, messages.FreePort(ask)))
        assert isinstance(found, Port)
        return found

    async def piece(self, path: str, offset: int) -> Piece:
        """A part of a log. Raises `GmgError`."""
        ask = next(self._asks)
        found = await self._ask(ask, messages.Fetch(ask, path, offset), _PIECE_S)
        assert isinstance(found, Piece)
        return found

    async def collected(self) -> None:
        """Tell the agent that all of its logs are here. Raises `GmgError`."""
        await self._client().tell_agent(messages.encode(messages.Collected()))


async def dismiss(client: EngineClient) -> None:
    """Have an agent end that cannot be used."""
    reading = asyncio.create_task(_read_on(client))
    with contextlib.suppress(GmgError, OSError):
        await client.end(kill=True)
    reading.cancel()


async def _read_on(client: EngineClient) -> None:
    async for _ in client.events():
        pass  # only answers matter
