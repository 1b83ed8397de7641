"""An engine that says what a test tells it to say, and remembers what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec

from gmg_tui.errors import GmgError
from gmg_tui.model import Details, JobRecord, Lane, QueueAction, QueueView, Series, Session, Snapshot
from gmg_tui.protocol import Action, Bye, Lines, Update, Welcome


class FakeEngine:
    """Implements `gmg_tui.client.Engine`.

    Attributes:
        asked: Every request, as its name and arguments, in order.
        refuse: When not empty, every request but `follow` is refused with this text.
        log: Lines that `follow` answers with, by slot.
        jobs: The queue, in its order; a session without any has no queue.
        lanes: Its slots.
    """

    def __init__(
        self,
        session: Session,
        snapshot: Snapshot,
        *,
        recent: tuple[Series, ...] = (),
        log: dict[str, list[str]] | None = None,
    ) -> None:
        self.welcome = Welcome(1, session, snapshot, recent)
        self.asked: list[tuple[object, ...]] = []
        self.refuse = ""
        self.log = log or {}
        self.snapshot = snapshot
        self.details_of: dict[str, Details] = {}
        self.jobs: list[JobRecord] = []
        self.lanes: list[Lane] = []
        self._events: asyncio.Queue[Update | Lines | Bye] = asyncio.Queue()

    def push(self, event: Update | Lines | Bye | Snapshot) -> None:
        """Send `event` to the interface."""
        if isinstance(event, Snapshot):
            self.snapshot = event
            event = Update(event)
        self._events.put_nowait(event)

    async def events(self) -> AsyncIterator[Update | Lines | Bye]:
        while True:
            event = await self._events.get()
            yield event
            if isinstance(event, Bye):
                return

    def _hear(self, *request: object) -> None:
        self.asked.append(request)
        if self.refuse and request[0] != "follow":
            raise GmgError(self.refuse, 1)

    async def follow(self, *slots: str, tail: int) -> None:
        self._hear("follow", *slots)
        for slot in slots:
            lines = self.log.get(slot, [])
            kept = lines[-tail:] if tail else []
            self.push(Lines(slot, len(lines) - len(kept), tuple(kept)))

    async def act(self, action: Action, *slots: str) -> None:
        self._hear(action, *slots)

    async def edit(self, slots: tuple[str, ...], args: tuple[str, ...], env: dict[str, str]) -> None:
        self._hear("edit", slots, args, env)

    async def details(self, slot: str) -> Details:
        self._hear("details", slot)
        worker = self.snapshot.worker(slot)
        args = worker.args if worker else ()
        return self.details_of.get(slot) or Details(
            slot=slot,
            command=("/opt/venv/bin/python", "franka.py", *args),
            cwd="/home/me/sim",
            env={"CUDA_VISIBLE_DEVICES": "0", "GMG_SLOT": slot},
            unset=(),
            egl="mapped by PCI bus ID",
            attempts=(),
            args=args,
        )

    async def series(self, slot: str) -> Series:
        self._hear("series", slot)
        return next((series for series in self.welcome.recent if series.slot == slot), Series(slot, 0.0, 1.0))

    async def end_process(self, slot: str, pid: int, *, kill: bool = False) -> None:
        self._hear("end_process", slot, pid, kill)

    async def queue(self, first: int, count: int) -> QueueView:
        self._hear("queue", first, count)
        queue = self.snapshot.queue
        if queue is None:
            raise GmgError("this session has no queue", 1)
        first = max(0, min(first, len(self.jobs)))
        part = tuple(self.jobs[first : first + count])
        return QueueView(queue.version, first, len(self.jobs), part, tuple(self.lanes), (queue.group,))

    async def act_on_jobs(self, action: QueueAction, *jobs: int) -> None:
        self._hear(action, *jobs)

    async def use_slot(self, slot: str, *, used: bool) -> None:
        self._hear("use_slot", slot, used)
        self.lanes = [msgspec.structs.replace(lane, used=used) if lane.slot == slot else lane for lane in self.lanes]

    async def end(self, *, kill: bool = False) -> None:
        self._hear("end", kill)

    async def close(self) -> None:
        self._hear("close")
