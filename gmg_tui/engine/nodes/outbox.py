"""The orders to a node's agent, each of which reaches it once, however often the connection breaks."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from gmg_tui.engine.nodes.messages import Numbered, Order


class Outbox:
    """Numbers orders from 1 and sends them in their order; `tell` sends one, and returns False where nobody listens."""

    def __init__(self, tell: Callable[[Numbered], Awaitable[bool]]) -> None:
        self._tell = tell
        self._number = 0
        self._kept: deque[Numbered] = deque()
        """Those that the agent has not said it has taken."""
        self._unsent: deque[Numbered] = deque()
        self._news = asyncio.Event()

    def add(self, order: Order) -> None:
        """Send an order."""
        self._number += 1
        numbered = Numbered(self._number, order)
        self._kept.append(numbered)
        self._unsent.append(numbered)
        self._news.set()

    def taken(self, number: int) -> None:
        """The agent has taken all orders up to this one."""
        while self._kept and self._kept[0].number <= number:
            self._kept.popleft()

    def repeat(self, taken: int) -> None:
        """There is a connection again, and the agent has taken all orders up to `taken`: send the others."""
        self.taken(taken)
        self._unsent = deque(self._kept)
        self._news.set()

    def restart(self) -> None:
        """The agent is another one, which knows of no order."""
        self._kept.clear()
        self._unsent.clear()
        self._number = 0

    async def run(self) -> None:
        """Send what there is until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._unsent:
                first = self._unsent[0]
                if not await self._tell(first):
                    break  # `repeat` comes with the next connection
                if self._unsent and self._unsent[0] is first:
                    self._unsent.popleft()
