"""Stands in for an engine: a screen shows a session's past as it shows one that runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from gmg_tui import protocol
from gmg_tui.errors import GmgError
from gmg_tui.model import Session
from gmg_tui.past.record import Look, Past
from gmg_tui.protocol import Answer, Bye, Lines, Request, Update, Welcome
from gmg_tui.source import Source
from gmg_tui.store.records import StoreError

T = TypeVar("T")


class PastSource(Source):
    """What is kept of a session, at the moment that is looked at. All that would change something is refused.

    A thread of its own reads it, so that a slow disk does not stop the screen.

    Attributes:
        look: What is looked at.
        loss: How the session was lost, in one line; empty where it was not.
    """

    def __init__(self, past: Past, look: Look, thread: ThreadPoolExecutor, loss: str) -> None:
        super().__init__(Welcome(protocol.VERSION, past.session, look.snapshot, look.recent, readonly=True))
        self.look = look
        self.loss = loss
        self._past = past
        self._thread = thread
        self._events: asyncio.Queue[Lines | Bye] = asyncio.Queue(maxsize=64)

    @classmethod
    async def open(cls, folder: Path, session: Session, *, away: bool = False, loss: str = "") -> Self:
        """The past of the session in `folder`, at its last moment; `loss` is how it was lost, if it was. Raises `GmgError` as `Past` does."""
        thread = ThreadPoolExecutor(1, thread_name_prefix="past")

        def opened() -> tuple[Past, Look]:
            with ExitStack() as unless_shown:
                past = Past(folder, session, away=away)
                unless_shown.callback(past.close)
                look = past.look(past.last)
                unless_shown.pop_all()
            return past, look

        try:
            past, look = await _in(thread, opened)
        except BaseException:
            thread.shutdown(wait=False)
            raise
        return cls(past, look, thread, loss)

    async def _read(self, reading: Callable[[], T]) -> T:
        return await _in(self._thread, reading)

    # The time

    async def step(self, steps: int) -> Look:
        """Look at the moment so many later, or (negative) earlier. Raises `StoreError`."""
        return await self._look(lambda: self.look.place + steps)

    async def jump(self, share: float) -> Look:
        """Look at the moment at a share of the session's life: 0 its beginning, 1 its end. Raises `StoreError`."""
        return await self._look(lambda: self._past.place_of(self._past.time_of(share)))

    async def move(self, share: float) -> Look:
        """Look at a moment that is later by a share of the session's life, or earlier. Raises `StoreError`."""

        def place() -> int:
            here, past = self.look, self._past
            there = past.place_of(here.time + share * (here.last - here.first))
            return max(there, here.place + 1) if share > 0 else min(there, here.place - 1)

        return await self._look(place)

    async def enter(self) -> None:
        """Come from the present, which is after all that is kept by now. Raises `StoreError`."""

        def newest() -> Look:
            self._past.renew()
            return self._past.look(self._past.last)

        look = await self._read(newest)
        self.look = look._replace(place=look.kept)

    async def _look(self, place: Callable[[], int]) -> Look:
        self.look = await self._read(lambda: self._past.look(place()))
        return self.look

    # As an engine

    async def events(self) -> AsyncIterator[Update | Lines | Bye]:
        """The lines that are asked for; nothing else happens any more."""
        while True:
            event = await self._events.get()
            yield event
            if isinstance(event, Bye):
                return

    async def follow(self, *slots: str, tail: int, telling: bool = False) -> None:
        """Receive the last lines of these workers' logs."""
        look = self.look
        for slot in slots:
            end = await self._read(partial(self._past.log, look, slot))
            await self._events.put(Lines(slot, end.first, end.lines))

    async def _answer(self, number: int, request: Request) -> Answer:
        past, snapshot = self._past, self.look.snapshot
        match request:
            case protocol.AskDetails(slot=slot):
                return Answer(number, details=await self._read(lambda: past.details(snapshot, slot)))
            case protocol.AskSeries(slot=slot, start=start):
                return Answer(number, series=await self._read(lambda: past.series(slot, start)))
            case protocol.AskQueue(first=first, count=count):
                return Answer(number, queue=await self._read(lambda: past.queue(snapshot, first, count)))
            case protocol.AskTried():
                return Answer(number, tried=await self._read(lambda: past.tried(snapshot.time)))
            case protocol.BringLog():
                return Answer(number, brought=protocol.Brought())
            case _:
                raise GmgError(f"this is the past of {past.session.spec.name}: it cannot be changed", 1)

    async def close(self) -> None:
        """Close the store."""
        await self._read(self._past.close)
        self._thread.shutdown(wait=False)


async def _in(thread: ThreadPoolExecutor, reading: Callable[[], T]) -> T:
    """Read in a thread.

    Raises:
        StoreError: The store holds what no engine writes: SQLite takes any value in any column.
    """
    try:
        return await asyncio.get_running_loop().run_in_executor(thread, reading)
    except (ValueError, TypeError, OverflowError) as error:
        raise StoreError(f"the store holds a value that this gmg-tui does not know: {error}") from error
