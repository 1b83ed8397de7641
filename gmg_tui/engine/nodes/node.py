"""A node of the session: the connection to its agent, what its slots are to run, and whether it is lost."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

import gmg_tui
from gmg_tui import units
from gmg_tui.client import EngineClient
from gmg_tui.ddp.variables import LOOPBACK
from gmg_tui.engine.launchers.launcher import Connection, Launcher
from gmg_tui.engine.nodes import states
from gmg_tui.engine.nodes.logs import Logs
from gmg_tui.engine.nodes.node_worker import NodeWorker
from gmg_tui.errors import GmgError
from gmg_tui.model import NodeView, RunSpec, Session, Snapshot
from gmg_tui.protocol import Bye, Lines, Update

_log = logging.getLogger(__name__)

_START_S = 75.0
"""How long a node may take to start its agent: an interpreter on a cold network disk, an actor of Ray's."""
_AGAIN_S = 0.5
_LONGEST_PAUSE_S = 15.0
_END_S = 2.0
"""How long a last attempt to connect may take when the session ends."""
_LOOK_S = 1.0
"""How often it is seen whether the node is silent."""
_TAIL = 1000
"""Lines of a worker that are sent when it is first followed."""


class Node:
    """One node, whose agent is started with `spec`. After `lost_after_s` seconds of silence it counts as lost.

    `changed` is called when something that is displayed has changed, `lines` with lines of output that are followed.

    Attributes:
        session: Its agent's; None before it has answered.
        snapshot: The last one of its agent; without workers.
        unfit: Says why its agent's session cannot be used, in one line, where that is so.
        lost_since: Unix time since which it counts as lost; None while it does not.
        gone: Why it will not be back; None while it may.
        workers: By slot.
        back: Set while it is not lost.
    """

    def __init__(
        self,
        name: str,
        spec: RunSpec,
        launcher: Launcher,
        changed: Callable[[], None],
        lines: Callable[[Lines], None],
        lost_after_s: float,
    ) -> None:
        self.name = name
        self.session: Session | None = None
        self.snapshot = Snapshot(0.0, 0.0, ())
        self.unfit: Callable[[Session], str | None] = _another_version
        self.lost_since: float | None = None
        self.gone: str | None = None
        self.spec, self._launcher, self._changed, self._lines = spec, launcher, changed, lines
        self._lost_after_s = lost_after_s
        self._late_s = lost_after_s / 3  # then it is called silent; its agent reports each second
        self.workers: dict[str, NodeWorker] = {}
        self._address = ("", 0)
        self._address_reported = asyncio.Event()
        self.back = asyncio.Event()
        self._unsent: set[str] = set()
        """Slots whose wanted state the agent has not confirmed."""
        self._news = asyncio.Event()
        self._connection: Connection | None = None
        self._client: EngineClient | None = None
        self._talking: asyncio.Task[str] | None = None
        self._heard_at = time.monotonic()
        self._trouble: str | None = None
        self._logs = Logs(Path(spec.folder))
        self._follows: tuple[str, ...] = ()
        self._ending = False
        self._over = asyncio.Event()
        """Set once the agent, which was asked to end, runs nothing more."""

    # The connection

    async def begin(self) -> None:
        """Connect for the first time. Raises `GmgError`."""
        try:
            self._talk(await self._connect())
        except GmgError as error:
            self._trouble = str(error)
            raise

    async def _connect(self) -> EngineClient:
        """Start the agent, or find it. Raises `GmgError`; then nothing is left of the attempt."""
        connection: Connection | None = None
        try:
            async with asyncio.timeout(_START_S):
                connection = await self._launcher.connect(self.name)
                await connection.greet(msgspec.json.encode(self.spec))
                client = await EngineClient.over((connection.reader, connection.writer), f"{self.name}'s agent")
                if (problem := self.unfit(client.welcome.session)) is not None:
                    await _dismiss(client)
                    raise GmgError(problem, 1)
            self._connection, connection = connection, None
            return client
        except TimeoutError:
            what = connection.trouble() if connection is not None else ""
            raise GmgError(f"{self.name}: no answer within {_START_S:.0f} s{f': {what}' if what else ''}", 1) from None
        except (GmgError, OSError, EOFError) as error:
            text = str(error) or type(error).__name__
            if connection is not None and not isinstance(error, GmgError):  # the launcher's message has more detail
                await connection.close()
                text = connection.trouble() or text
            raise GmgError(text if text.startswith(f"{self.name}: ") else f"{self.name}: {text}", 1) from error
        finally:
            if connection is not None:
                await connection.close()

    def _talk(self, client: EngineClient) -> None:
        """Exchange states with the agent; it goes on when `run` is cancelled, to hear the agent's end."""
        self.session, self._trouble, self.lost_since = client.welcome.session, None, None
        self.snapshot = client.welcome.snapshot
        self._heard_at = time.monotonic()
        self.back.set()
        self._client = client
        client.heard_agent = self._take
        self._unsent = {slot.name for slot in self.session.slots}
        self._talking = asyncio.create_task(self._exchange(client))

    async def _exchange(self, client: EngineClient) -> str:
        """Why the connection has ended."""
        tasks = [asyncio.create_task(self._send(client))]
        if self._keeps_logs:
            tasks.append(asyncio.create_task(self._logs.keep_up(client.read_log)))
        try:
            if self._follows:
                await client.follow(*self._follows, tail=_TAIL)
            return await self._read(client)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def run(self) -> None:
        """Keep it connected until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch())
            while True:
                if self._talking is not None:
                    await asyncio.wait([self._talking])
                    await self._disconnect(f"the connection was lost: {_ended(self._talking)}")
                pause_s = _AGAIN_S
                while not await self._reconnect():
                    if self.gone is None and (why := await self._launcher.gone()) is not None:
                        self.gone = why
                        self._lose(why)
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _disconnect(self, trouble: str) -> None:
        self._client = None
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
        self._note(trouble)

    def _note(self, trouble: str) -> None:
        if trouble != self._trouble and not self._ending:
            self._trouble = trouble
            _log.warning("%s: %s", self.name, trouble.removeprefix(f"{self.name}: "))
            self._changed()

    async def _reconnect(self) -> bool:
        if self._ending or self.gone is not None:
            return False
        try:
            client = await self._connect()
        except GmgError as error:
            self._note(str(error))
            return False
        before = self.session
        self._talk(client)
        if before is None:
            _log.warning("%s has joined", self.name)
        else:
            if client.welcome.session.id != before.id:
                self._over.clear()
                _log.warning("%s is lost: its agent is another one now", self.name)
                for worker in list(self.workers.values()):
                    worker.lose(f"{self.name} is lost", replaced=True)
            _log.warning("%s is connected again", self.name)
        self._changed()
        return True

    async def _read(self, client: EngineClient) -> str:
        """Take what the agent sends until the connection ends. Returns why."""
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

    def _take(self, body: msgspec.Raw) -> None:
        report = states.report_of(body)
        self._address = report.address
        self._address_reported.set()
        for each in report.workers:
            worker = self.workers.get(each.view.slot)
            if worker is None:
                continue
            try:
                worker.take(each)
            except Exception:  # an internal error in one worker must not take down the node
                _log.exception("%s: a report cannot be taken", each.view.slot)
            if self._keeps_logs:
                mark = each.key, each.turn, each.view.newest.output_bytes, each.view.state, each.outcome is not None
                self._logs.check(worker.log, mark)
        if report.ended:
            self._over.set()

    @property
    def _keeps_logs(self) -> bool:
        """Whether the workers' logs are on the node, as it does not see the session's folder."""
        about = self.session.spec.agent if self.session is not None else None
        return about is not None and not about.logs

    # What its slots are to run

    async def _send(self, client: EngineClient) -> None:
        """Send the state of each slot that has changed, and now and then one that has not: so that the agent keeps receiving messages."""
        beat = client.welcome.session.slots[0].name
        while True:
            self._news.clear()
            due, self._unsent = self._unsent or {beat}, set()
            errors = await asyncio.gather(*(self._set(client, slot) for slot in due))
            failed = {slot: error for slot, error in zip(due, errors, strict=True) if error is not None}
            if failed:
                self._unsent |= failed.keys()
                _log.warning("%s: a slot cannot be set: %s", self.name, next(iter(failed.values())))
                await asyncio.sleep(_AGAIN_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._late_s):
                    await self._news.wait()

    async def _set(self, client: EngineClient, slot: str) -> str | None:
        worker = self.workers.get(slot)
        try:
            await client.set_slot(slot, states.encode(worker.wanted if worker is not None else None))
        except (GmgError, OSError) as error:
            return str(error)
        return None

    def want(self, worker: NodeWorker) -> None:
        """Its slot is to run what this worker wants now."""
        self.workers[worker.slot.name] = worker
        self._unsent.add(worker.slot.name)
        self._news.set()

    def no_longer(self, worker: NodeWorker) -> None:
        """Its slot is to run nothing, unless it is another worker's by now."""
        if self.workers.get(worker.slot.name) is worker:
            del self.workers[worker.slot.name]
            self._unsent.add(worker.slot.name)
            self._news.set()

    async def meeting_place(self) -> tuple[str, int]:
        """Where ranks may meet: its address and a free port, each time another; port 0 where it does not report one."""
        try:
            async with asyncio.timeout(self._lost_after_s):
                await self._address_reported.wait()
        except TimeoutError:
            return LOOPBACK, 0
        self._address_reported.clear()
        return self._address

    # Lost, and connected again

    async def _watch(self) -> None:
        looked_at = time.monotonic()
        while True:
            await asyncio.sleep(_LOOK_S)
            now = time.monotonic()
            if now - looked_at >= _LOOK_S + self._late_s:  # this engine stood still: what the node sent is read now
                self._heard_at = now
            looked_at, silent_s = now, now - self._heard_at
            if silent_s >= self._lost_after_s and self.away is None and not self._ending:
                self.lost_since = time.time() - silent_s
                self._lose(f"it has been silent for {units.span(silent_s)}")
                if self._talking is not None:
                    self._talking.cancel()  # its messages are read again after another greeting
            elif silent_s >= self._late_s:
                self._changed()

    def _lose(self, why: str) -> None:
        """The states of its workers are unknown, or (with `gone`) they have ended."""
        _log.warning("%s is lost: %s", self.name, why)
        self.lost_since = self.lost_since or time.time()
        self.back.clear()
        for worker in list(self.workers.values()):
            worker.lose(f"{self.name} is lost", for_good=self.gone is not None)
        self._changed()

    # Look

    @property
    def away(self) -> str | None:
        """Why nothing can run on it, displayed after its name; None while it is connected."""
        if self.session is None:
            return "has not answered"
        since = self.lost_since
        return f"lost since {time.strftime('%H:%M:%S', time.localtime(since))}" if since is not None else None

    def view(self, now: float) -> NodeView:
        """It at this moment; `now` is monotonic seconds."""
        silent_s = now - self._heard_at
        trouble = (self.gone or self._trouble or "").removeprefix(f"{self.name}: ") or None
        late_s = silent_s if silent_s >= self._late_s and self.session is not None else None
        return NodeView(self.name, self._client is not None, late_s, self.lost_since, trouble)

    async def follow(self, slots: Sequence[str]) -> None:
        """Have the lines of these slots come from now on."""
        changed, self._follows = tuple(slots) != self._follows, tuple(slots)
        if changed and self._client is not None:
            with suppress(GmgError, OSError):  # the connection may break; the next one follows them
                await self._client.follow(*slots, tail=_TAIL)

    @property
    def client(self) -> EngineClient:
        """The connection to its agent. Raises `GmgError` where there is none."""
        if self._client is None:
            raise GmgError(f"{self.name} is not connected: {self._trouble or 'it is being started'}", 1)
        return self._client

    # The end

    async def end(self, *, kill: bool, within_s: float) -> None:
        """Have the agent end its workers, copy the logs that it keeps, and let it end; all of that within `within_s`."""
        self._ending = True
        if self._client is None and self.session is not None and self.gone is None:
            with suppress(GmgError, TimeoutError):
                async with asyncio.timeout(_END_S):
                    self._talk(await self._connect())
        client = self._client
        if client is not None and self._talking is not None:
            over = asyncio.create_task(self._over.wait())
            try:
                async with asyncio.timeout(within_s):
                    await client.end(kill=kill)
                    await asyncio.wait([self._talking, over], return_when=asyncio.FIRST_COMPLETED)
                    await self._logs.catch_up(client.read_log)
            except (GmgError, OSError, TimeoutError) as error:
                _log.warning("%s: it has not ended as it should: %s", self.name, error or "no answer")
            over.cancel()
            await client.close()
        if self._talking is not None:
            self._talking.cancel()
            await asyncio.gather(self._talking, return_exceptions=True)
        await self._disconnect("")


def _ended(talking: asyncio.Task[str]) -> str:
    """Why a connection has ended."""
    if talking.cancelled():
        return "it was silent"
    return talking.result() if (error := talking.exception()) is None else f"{type(error).__name__}: {error}"


def _another_version(session: Session) -> str | None:
    ours, theirs = gmg_tui.__version__, session.version
    return f"it has gmg-tui {theirs}, and here is {ours}; install the same" if theirs != ours else None


async def _dismiss(client: EngineClient) -> None:
    """End an agent that cannot be used."""

    async def read() -> None:
        async for _ in client.events():
            pass  # only the answer matters

    reading = asyncio.create_task(read())
    with suppress(GmgError, OSError):
        await client.end(kill=True)
    reading.cancel()
