"""What a screen shows: a session, of which it asks more than the snapshots that come by themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from itertools import count as numbers_from
from types import MappingProxyType
from typing import Concatenate, ParamSpec

from gmg_tui import protocol
from gmg_tui.errors import GmgError
from gmg_tui.model import Details, GpuProcess, QueueAction, QueueView, Series, Stacks, TriedView
from gmg_tui.protocol import Action, Answer, Bye, Lines, Request, Seen, Update, Welcome

P = ParamSpec("P")

_ANY: Mapping[str, Seen] = MappingProxyType({})
"""Whatever is on the slots is meant."""


class Source(ABC):
    """A session that runs, or what is kept of it: what can be asked of it, and what it sends by itself.

    Attributes:
        welcome: The session, and how it was when the source was opened.
    """

    def __init__(self, welcome: Welcome) -> None:
        self.welcome = welcome
        self._numbers = numbers_from(1)

    @abstractmethod
    def events(self) -> AsyncIterator[Update | Lines | Bye]:
        """What it sends by itself; ends with `Bye`. Exactly one task must iterate over it."""

    @abstractmethod
    async def follow(self, *slots: str, tail: int, telling: bool = False) -> None:
        """Receive the lines of these workers from now on, starting with the newest `tail` that exist.

        With `telling` earlier ones that say more than progress come before them, as far as they are kept.
        """

    @abstractmethod
    async def close(self) -> None:
        """Leave it; a session goes on."""

    @abstractmethod
    async def _answer(self, number: int, request: Request) -> Answer:
        """What is answered to the request with this number. Raises `GmgError` when no answer came."""

    async def _ask(self, kind: Callable[Concatenate[int, P], Request], *fields: P.args, **named: P.kwargs) -> Answer:
        """Ask with a request of a `kind`; the `fields` are those after its number.

        Raises:
            GmgError: It was refused, or no answer came.
        """
        number = next(self._numbers)
        answer = await self._answer(number, kind(number, *fields, **named))
        if answer.error is not None:
            raise GmgError(answer.error, 1)
        return answer

    async def act(self, action: Action, *slots: str, seen: Mapping[str, Seen] = _ANY) -> None:
        """Do something to workers; `seen` is what is meant, by slot. Raises `GmgError` when it cannot be done."""
        await self._ask(protocol.Act, action, slots, dict(seen))

    async def edit(
        self, slots: tuple[str, ...], args: tuple[str, ...], env: dict[str, str], seen: Mapping[str, Seen] = _ANY
    ) -> None:
        """Change arguments and environment and restart. Raises `GmgError` when it cannot be done."""
        await self._ask(protocol.Edit, slots, args, env, dict(seen))

    async def details(self, slot: str) -> Details:
        """What a details screen shows of the worker. Raises `GmgError` when there is none."""
        answer = await self._ask(protocol.AskDetails, slot)
        if answer.details is None:
            raise GmgError(f"the engine gave no details of {slot}", 1)
        return answer.details

    async def series(self, slot: str, start: float | None = None) -> Series:
        """The worker's metrics since `start` (Unix time), without it over its whole life.

        Raises `GmgError` when there are none.
        """
        answer = await self._ask(protocol.AskSeries, slot, start)
        if answer.series is None:
            raise GmgError(f"the engine gave no history of {slot}", 1)
        return answer.series

    async def end_process(self, slot: str, process: GpuProcess, *, kill: bool = False) -> None:
        """Send SIGTERM (or SIGKILL) to a process on the slot's GPU. Raises `GmgError` when that cannot be done."""
        await self._ask(protocol.EndProcess, slot, process, kill)

    async def queue(self, first: int, count: int) -> QueueView:
        """A part of the queue: `count` jobs from position `first` on. Raises `GmgError` in a plain run."""
        answer = await self._ask(protocol.AskQueue, first, count)
        if answer.queue is None:
            raise GmgError("the engine gave no queue", 1)
        return answer.queue

    async def act_on_jobs(self, action: QueueAction, *jobs: int) -> None:
        """Do something to jobs of the queue. Raises `GmgError` when it cannot be done."""
        await self._ask(protocol.ActOnJobs, action, jobs)

    async def use_slot(self, slot: str, *, used: bool) -> None:
        """Let jobs start on a slot, or stop letting them. Raises `GmgError` when that cannot be done."""
        await self._ask(protocol.UseSlot, slot, used)

    async def tried(self) -> TriedView:
        """All that was tried in the session. Raises `GmgError` when the engine does not answer."""
        answer = await self._ask(protocol.AskTried)
        if answer.tried is None:
            raise GmgError("the engine did not say what was tried", 1)
        return answer.tried

    async def stacks(self, slot: str) -> tuple[Stacks, ...]:
        """The Python stacks of the worker, or of all ranks of its group. Raises `GmgError` when there is no worker."""
        answer = await self._ask(protocol.AskStacks, slot)
        if answer.stacks is None:
            raise GmgError(f"the engine gave no stacks of {slot}", 1)
        return answer.stacks

    async def bring_log(self, path: str, say: Callable[[int], None]) -> None:
        """Have a log, at this path of the session's folder, come whole from its node, where the node keeps it.

        `say` is told now and then how many bytes have come. Raises `GmgError` when it cannot come.
        """
        while True:
            answer = await self._ask(protocol.BringLog, path)
            if answer.brought is None or not answer.brought.more:
                return
            say(answer.brought.size_bytes)

    async def end(self, *, kill: bool = False) -> None:
        """Stop (or kill) all workers. Returns when the engine has accepted that, not when they have ended."""
        await self._ask(protocol.End, kill)
