"""What the session's engine asks of an agent, and is answered."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path

from gmg_tui.client import EngineClient
from gmg_tui.engine.daemon_thread import in_daemon_thread
from gmg_tui.engine.nodes import messages
from gmg_tui.engine.nodes.messages import Piece, Port
from gmg_tui.errors import GmgError
from gmg_tui.files import make_private

_ANSWER_S = 30.0


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

    async def _ask(self, ask: int, message: messages.ToAgent) -> Port | Piece:
        waiting: asyncio.Future[Port | Piece] = asyncio.get_running_loop().create_future()
        self._waiting[ask] = waiting
        try:
            await self._client().tell_agent(messages.encode(message))
            async with asyncio.timeout(_ANSWER_S):
                return await waiting
        except TimeoutError as error:
            raise GmgError(f"{self._name} has not answered for {_ANSWER_S:.0f} s", 1) from error
        finally:
            self._waiting.pop(ask, None)

    async def free_port(self) -> Port:
        """An address and a port of the node for a group's store. Raises `GmgError`."""
        ask = next(self._asks)
        found = await self._ask(ask, messages.Numbered(0, messages.FreePort(ask)))
        assert isinstance(found, Port)
        return found

    async def collect(self, paths: Iterable[str], folder: Path) -> None:
        """Append these files of the agent's folder to those in `folder`. Raises `GmgError`, `OSError`."""
        for path in paths:
            offset = 0
            while data := await self._part(path, offset):
                await in_daemon_thread(_append, folder / path, data)
                offset += len(data)
        await self._client().tell_agent(messages.encode(messages.Collected()))

    async def _part(self, path: str, offset: int) -> bytes:
        ask = next(self._asks)
        found = await self._ask(ask, messages.Fetch(ask, path, offset))
        assert isinstance(found, Piece)
        return found.data


def _append(path: Path, data: bytes) -> None:
    make_private(path.parent)
    with path.open("ab") as file:
        file.write(data)


async def dismiss(client: EngineClient) -> None:
    """Have an agent end that cannot be used."""
    reading = asyncio.create_task(_read_on(client))
    with contextlib.suppress(GmgError, OSError):
        await client.end(kill=True)
    reading.cancel()


async def _read_on(client: EngineClient) -> None:
    async for _ in client.events():
        pass  # only answers matter
