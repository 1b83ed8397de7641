"""A node of the session: the connection to its agent, its orders, and whether it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from pathlib import Path

import msgspec

from gmg_tui import units
from gmg_tui.client import EngineClient
from gmg_tui.engine.launchers.launcher import Connection, Launcher
from gmg_tui.engine.nodes import messages
from gmg_tui.engine.nodes.logs_kept import LogsKept
from gmg_tui.engine.nodes.messages import Lead, Numbered, Order, Piece, Port, Ready, Report, WorkerReport
from gmg_tui.engine.nodes.outbox import Outbox
from gmg_tui.engine.nodes.place import Guest
from gmg_tui.engine.nodes.questions import Questions
from gmg_tui.engine.nodes.reaching import reach
from gmg_tui.errors import GmgError
from gmg_tui.model import Details, GpuProcess, NodeView, RunSpec, Slot, Snapshot, Stacks
from gmg_tui.protocol import Bye, Lines, Update

_log = logging.getLogger(__name__)

_AGAIN_S = 2.0
_LONGEST_PAUSE_S = 15.0
_LATE_S = 5.0
"""After how long without a word a node is said to be silent; its agent reports each second."""
_STALL_S = 60.0
"""How much longer than an orphan waits a silent connection is waited for, as the agent does too."""
_SKEW_S = 2.0
"""A clock that is further off is allowed for."""
_NOTED_SKEW_S = 10.0
_BEAT_S = 10.0
_keys = count(1)

MayStart = Callable[[str, Callable[[str], None]], Awaitable[None]]
"""Waits until the workers of a node may start; given its name and what is told what it waits for."""


class Node:
    """One node.

    Args:
        name: Its name.
        spec: What its agent is started with.
        launcher: Starts the agent, and connects to it.
        changed: Called when something that is displayed has changed.
        lines: Called with lines of a worker's output that are followed.
        may_start: Its workers wait for this.

    Attributes:
        ready: What its agent has said of itself.
        snapshot: The last one of its agent; without workers.
        logs: Those of its workers.
        slots: As the session has them.
        lost_since: Unix time since which it counts as lost; None while it does not.
        gone: Why it will not be back; None while it may.
        gate_opened: Set once a worker of the node has written the mesh caches, or nobody has to wait for that.
    """

    slots: tuple[Slot, ...]
    ready: Ready
    snapshot: Snapshot

    def __init__(
        self,
        name: str,
        spec: RunSpec,
        launcher: Launcher,
        changed: Callable[[], None],
        lines: Callable[[Lines], None],
        may_start: MayStart,
    ) -> None:
        assert spec.agent is not None
        self.name = name
        self.skew_s = 0.0
        self.lost_since: float | None = None
        self.gone: str | None = None
        self.gate_opened = asyncio.Event()
        self._spec, self._about, self._launcher = spec, spec.agent, launcher
        self._changed, self._lines, self._may_start = changed, lines, may_start
        self._workers: dict[int, Guest] = {}
        """By key."""
        self._outbox = Outbox(self._tell)
        self._connection: Connection | None = None
        self._client: EngineClient | None = None
        self._heard_at = time.monotonic()
        self._trouble: str | None = None
        self._questions = Questions(name, lambda: self._asked)
        self.logs = LogsKept(self._questions.piece, Path(spec.folder))
        self._readied: asyncio.Future[Ready] | None = None
        self._follows: tuple[str, ...] = ()
        self._ending = False

    # The connection

    async def connect(self) -> EngineClient:
        """Start the agent, or find it. Raises `GmgError`."""
        self._connection, client = await reach(self.name, self._launcher, self._spec)
        self._heard_at = time.monotonic()
        return client

    async def lead(self, client: EngineClient) -> Ready:
        """Take the lead of the agent; one task must read the client's events meanwhile. Raises `GmgError`."""
        self._readied = asyncio.get_running_loop().create_future()
        await client.tell_agent(messages.encode(Lead(self._about.session_id)))
        ready = await self._readied
        skew_s = ready.clock_s - time.time()
        self.skew_s = skew_s if abs(skew_s) > _SKEW_S else 0.0
        return ready

    async def _disconnect(self) -> None:
        self._client = None
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await connection.close()

    async def begin(self) -> None:
        """Connect for the first time. Raises `GmgError`."""
        client = await self.connect()
        self.snapshot = client.welcome.snapshot
        self.slots = client.welcome.session.slots
        client.heard_agent = self._heard
        self._reading = asyncio.create_task(self._read(client))
        self.ready = await self.lead(client)
        self._client = client

    async def run(self) -> None:
        """Keep it connected until cancelled."""
        pause_s = _AGAIN_S
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._outbox.run())
            tasks.create_task(self._watch())
            tasks.create_task(self._beat())
            while True:
                await asyncio.wait([self._reading])  # it goes on when this is cancelled, to hear the agent's end
                trouble = self._reading.result()
                await self._disconnect()
                self._trouble = f"the connection was lost: {trouble}"
                if not self._ending:
                    _log.warning("%s: %s", self.name, self._trouble)
                self._changed()
                while not await self._reconnect():
                    await self._look_if_gone()
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                pause_s = _AGAIN_S

    async def _reconnect(self) -> bool:
        if self._ending or self.gone is not None:
            return False
        try:
            client = await self.connect()
        except GmgError as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                _log.warning("%s", error)
                self._changed()
            return False
        client.heard_agent = self._heard
        self._reading = asyncio.create_task(self._read(client))
        try:
            ready = await self.lead(client)
        except GmgError as error:
            self._trouble = f"{self.name}: {error}"
            self._reading.cancel()
            return False
        another, self.ready, self._trouble = ready.agent_id != self.ready.agent_id, ready, None
        if another:
            self._outbox.restart()
            self.lose("its agent is another one now")
        _log.info("%s is connected again%s", self.name, ", by another agent" if another else "")
        if self.lost_since is not None:
            self._return()
        self._client = client
        self._outbox.repeat(ready.taken)
        if self._follows:
            with contextlib.suppress(GmgError, OSError):
                await client.follow(*self._follows, tail=_TAIL, telling=True)
        self._changed()
        return True

    async def _look_if_gone(self) -> None:
        """Lose it at once where its launcher says that nobody will reach it any more."""
        if self.gone is None and (why := await self._launcher.gone()) is not None:
            self.gone = why
            self.lose(why)

    async def _beat(self) -> None:
        """Let the agent hear that its session's engine lives, and hear how late it is there."""
        while True:
            await asyncio.sleep(_BEAT_S)
            if self._client is not None:
                with contextlib.suppress(GmgError, OSError):
                    await self._client.tell_agent(messages.encode(Lead(self._about.session_id)))

    async def _read(self, client: EngineClient) -> str:
        """Read what the agent says until the connection ends; why it has."""
        async for event in client.events():
            self._heard_at = time.monotonic()
            match event:
                case Update(snapshot=snapshot):
                    self.snapshot = snapshot
                case Lines():
                    self._lines(event)
                case Bye(reason=reason):
                    return reason
        return "it ended without a word"

    def _heard(self, body: msgspec.Raw) -> None:
        message = messages.from_agent(body)
        match message:
            case Ready():
                if self._readied is not None and not self._readied.done():
                    self._readied.set_result(message)
            case Report():
                if message.gate_open:
                    self.gate_opened.set()
                ahead_s = time.monotonic() - message.now
                self._outbox.taken(message.taken)
                for report in message.workers:
                    worker = self._workers.get(report.key)
                    if worker is not None:
                        self._take(worker, report, ahead_s)
            case Port() | Piece():
                self._questions.heard(message)

    def _take(self, worker: Guest, report: WorkerReport, ahead_s: float) -> None:
        try:
            worker.take(report, ahead_s)
        except Exception:  # an internal error in one worker must not take down the node
            _log.exception("%s: a report cannot be taken", report.view.slot)

    # Orders

    def order(self, order: Order) -> None:
        """Send an order; later, if the node is not connected."""
        if isinstance(order, messages.Assign):
            self.logs.add(order.log)
        self._outbox.add(order)

    async def _tell(self, order: Numbered) -> bool:
        """Send an order; False where the node is not connected."""
        if self._client is None:
            return False
        try:
            await self._client.tell_agent(messages.encode(order))
        except (GmgError, OSError) as error:
            _log.warning("%s: an order was not answered: %s", self.name, error)
        return True

    def next_key(self) -> int:
        """A key that no other worker of the session has."""
        return next(_keys)

    def took(self, worker: Guest) -> None:
        """The worker was assigned to a slot of the node."""
        self._workers = {key: one for key, one in self._workers.items() if one is not worker}
        self._workers[worker.key] = worker

    def left(self, worker: Guest) -> None:
        """The worker is on the node no more."""
        self._workers.pop(worker.key, None)

    async def may_start(self, say: Callable[[str], None]) -> None:
        """Wait until the node's workers may start."""
        await self._may_start(self.name, say)

    # Lost, and found again

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            silent_s = time.monotonic() - self._heard_at
            waits_s = self._about.orphan_wait_s + (_STALL_S if self._client is not None else 0.0)
            waits_s += self._spec.sigint_wait_s + self._spec.sigterm_wait_s
            if self.lost_since is None and silent_s >= waits_s and not self._ending:
                self.lost_since = time.time() - silent_s
                self.lose(f"it has been silent for {units.span(silent_s)}")
            elif silent_s >= _LATE_S:
                self._changed()

    def lose(self, why: str) -> None:
        """Its workers are gone."""
        _log.warning("%s is lost: %s", self.name, why)
        if self.lost_since is None:
            self.lost_since = time.time()
        self.gate_opened.set()  # nobody waits for it
        for worker in list(self._workers.values()):
            worker.lose(for_good=self.gone is not None)
        self._changed()

    def _return(self) -> None:
        """It is there again; what its agent still runs is not wanted any more."""
        self.lost_since = None
        for worker in list(self._workers.values()):
            worker.come_back()
        self._changed()

    # Look

    def view(self, now: float) -> NodeView:
        """It at this moment; `now` is monotonic seconds."""
        silent_s = now - self._heard_at
        trouble = self.gone or self._trouble
        if trouble is None and abs(self.skew_s) >= _NOTED_SKEW_S:
            ahead = "ahead of" if self.skew_s > 0 else "behind"
            trouble = f"its clock is {units.span(abs(self.skew_s))} {ahead} this machine's"
        elif trouble is not None:
            trouble = trouble.removeprefix(f"{self.name}: ")
        late_s = silent_s if silent_s >= _LATE_S else None
        return NodeView(self.name, self._client is not None, late_s, self.lost_since, trouble)

    async def follow(self, slots: Sequence[str]) -> None:
        """Have the lines of these slots come from now on."""
        slots = tuple(slots)
        if slots == self._follows:
            return
        self._follows = slots
        if self._client is not None:
            with contextlib.suppress(GmgError, OSError):  # the connection may break; the next one follows them
                await self._client.follow(*slots, tail=_TAIL, telling=True)

    async def details(self, slot: str) -> Details:
        """What the agent says of a slot. Raises `GmgError`."""
        return await self._asked.details(slot)

    async def stacks(self, slot: str) -> Stacks:
        """The stacks of what runs on a slot. Raises `GmgError`."""
        return (await self._asked.stacks(slot))[0]

    async def end_process(self, slot: str, process: GpuProcess, *, kill: bool) -> None:
        """As `EngineClient.end_process`. Raises `GmgError`."""
        await self._asked.end_process(slot, process, kill=kill)

    async def free_port(self) -> Port:
        """An address and a port of the node for a group's store. Raises `GmgError`."""
        return await self._questions.free_port()

    async def collect(self) -> None:
        """Bring its logs to the session's folder, where the node does not see that. Raises `GmgError`, `OSError`."""
        if self.ready.keeps_logs and self._client is not None:
            await self.logs.bring_all()
            await self._questions.collected()

    @property
    def _asked(self) -> EngineClient:
        if self._client is None:
            raise GmgError(f"{self.name} is not connected: {self._trouble or 'it is being started'}", 1)
        return self._client

    # The end

    async def end(self, *, kill: bool, within_s: float) -> None:
        """Have the agent end its workers and itself, and wait for that at most `within_s`."""
        self._ending = True
        client = self._client
        if client is not None:
            with contextlib.suppress(GmgError, OSError):
                await client.end(kill=kill)
                async with asyncio.timeout(within_s):
                    await asyncio.wait([self._reading])
        await self._disconnect()


_TAIL = 1000
"""Lines of a worker that come when it is first looked at."""
