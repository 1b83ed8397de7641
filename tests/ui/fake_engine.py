"""A scripted engine that records requests."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from gmg_tui.model import (
    ArgumentResults,
    Curve,
    Details,
    HotSpot,
    JobRecord,
    Occurrence,
    QueueAction,
    Series,
    Session,
    Snapshot,
    SpeedFacts,
    Stacks,
    WorkerState,
)
from gmg_tui.model.errors import GmgError
from gmg_tui.session.client import EngineClient
from gmg_tui.session.protocol import Action, Ask, Bye, Seen, Topic, Update, Welcome
from tests.workers import changed


class FakeEngine(EngineClient):
    """Answers without a connection.

    Attributes:
        asked: Every request, as its name and arguments, in order.
        seen: What the last request to do something with workers meant, by slot.
        refuse: When not empty, every request but `watch` is refused with this text.
        answers: While it is not set, no request is answered: late, or never.
        log: Lines in each worker's log file, by slot.
        jobs: The queue, in its order; a session without any has no queue.
        tried_so_far: What was tried.
        events_so_far: What has happened.
    """

    def __init__(
        self,
        session: Session,
        snapshot: Snapshot,
        *,
        recent: tuple[Series, ...] = (),
        log: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.log: dict[str, Sequence[str]] = dict(log or {})
        self._folder = TemporaryDirectory()
        self._written: dict[str, int] = {}
        self.welcome = Welcome(session, self._counted(snapshot), recent)
        self.asked: list[tuple[object, ...]] = []
        self.seen: dict[str, Seen] = {}
        self.refuse = ""
        self.answers = asyncio.Event()
        self.answers.set()
        self.snapshot = snapshot
        self.details_of: dict[str, Details] = {}
        self.curves_of: dict[str, dict[str, Curve]] = {}
        self.jobs: list[JobRecord] = []
        self.tried_so_far: tuple[ArgumentResults, ...] = ()
        self.events_so_far: tuple[Occurrence, ...] = ()
        self.stacks_of: tuple[Stacks, ...] = ()
        self.speed_of = SpeedFacts("gpu0", WorkerState.RUNNING)
        self._events: asyncio.Queue[Update | Bye] = asyncio.Queue()

    def push(self, event: Update | Bye | Snapshot) -> None:
        if isinstance(event, Snapshot):
            self.snapshot = event
            event = Update(self._counted(event))
        self._events.put_nowait(event)

    def print(self, slot: str, *lines: str) -> None:
        """Write lines to a worker's log, and say so in a snapshot."""
        self.log[slot] = (*self.log.get(slot, ()), *lines)
        self.push(self.snapshot)

    def _counted(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot with the number of lines in each log."""
        workers = (
            changed(each, log_lines=len(self.log[each.slot])) if each.slot in self.log else each
            for each in snapshot.workers
        )
        return changed(snapshot, workers=tuple(workers))

    def log_path(self, slot: str) -> Path:
        """The log file of a worker, with all of its lines."""
        path, lines, written = Path(self._folder.name, f"{slot}.log"), self.log[slot], self._written.get(slot, 0)
        path.parent.mkdir(exist_ok=True)
        with path.open("a", encoding="utf-8", errors="surrogateescape") as file:
            file.writelines(f"{line}\n" for line in lines[written:])
        self._written[slot] = len(lines)
        return path

    async def events(self) -> AsyncIterator[Update | Bye]:
        while True:
            event = await self._events.get()
            yield event
            if isinstance(event, Bye):
                return

    async def _hear(self, *request: object) -> None:
        self.asked.append(request)
        if request[0] not in {"watch", "close"}:  # nobody waits for these
            await self.answers.wait()
        if self.refuse and request[0] != "watch":
            raise GmgError(self.refuse, 1)

    async def watch(self, *, lines: bool = False) -> None:
        await self._hear("watch")

    async def act(self, action: Action, *slots: str, seen: Mapping[str, Seen] | None = None) -> None:
        self.seen = dict(seen or {})
        await self._hear(action, *slots)

    async def edit(
        self, slots: tuple[str, ...], args: tuple[str, ...], env: dict[str, str], seen: Mapping[str, Seen] | None = None
    ) -> None:
        self.seen = dict(seen or {})
        await self._hear("edit", slots, args, env)

    async def details(self, slot: str) -> Details:
        await self._hear("details", slot)
        worker = self.snapshot.worker(slot)
        args = worker.newest.args if worker else ()
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
        await self._hear("series", slot)
        return next((series for series in self.welcome.recent if series.slot == slot), Series(slot, 0.0, 1.0))

    async def curves(self, slot: str, name: str = "", count: int = 0) -> dict[str, Curve]:
        await self._hear("curves", slot, name, count)
        return Ask(Topic.CURVES, slot, count=count, name=name).select(self.curves_of.get(slot, {}))

    async def queue(self, first: int, count: int) -> tuple[JobRecord, ...]:
        await self._hear("queue", first, count)
        if self.snapshot.queue is None:
            raise GmgError("this session has no queue", 1)
        first = max(0, min(first, len(self.jobs)))
        return tuple(self.jobs[first : first + count])

    async def stacks(self, slot: str) -> tuple[Stacks, ...]:
        await self._hear("stacks", slot)
        return self.stacks_of

    async def speed(self, slot: str) -> SpeedFacts:
        await self._hear("speed", slot)
        return self.speed_of

    async def hot_spot(self, slot: str) -> HotSpot | None:
        await self._hear("hot_spot", slot)
        return HotSpot("compute_reward", "/home/me/train.py", 212, 44.0, 18, 10.0)

    async def act_on_jobs(self, action: QueueAction, *jobs: int) -> None:
        await self._hear(action, *jobs)

    async def use_slot(self, slot: str, *, used: bool) -> None:
        await self._hear("use_slot", slot, used)

    async def tried(self) -> tuple[ArgumentResults, ...]:
        await self._hear("tried")
        return self.tried_so_far

    async def occurrences(self) -> tuple[Occurrence, ...]:
        await self._hear("happened")
        return self.events_so_far

    async def end(self, *, kill: bool = False) -> None:
        await self._hear("end", kill)

    async def close(self) -> None:
        await self._hear("close")
