"""Serves any number of clients; the engine waits for none of them."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Sequence

from msgspec import structs

from gmg_tui import protocol
from gmg_tui.engine.api.frames import framed, newest
from gmg_tui.engine.api.listener import Listener, user_of
from gmg_tui.engine.observer import Observer
from gmg_tui.engine.supervisor import Supervisor
from gmg_tui.errors import GmgError
from gmg_tui.model import Snapshot, Worker
from gmg_tui.protocol import Answer, Bye, Follow, Hello, Lines, Request, Update, Welcome
from gmg_tui.text import clean

_log = logging.getLogger(__name__)

_SOON_S = 0.1
"""A change of state is sent this soon, together with others meanwhile."""
_LINES_S = 0.25
"""Between two messages of lines at least."""
_HELLO_S = 5.0
_MAX_CLIENTS = 64
_MAX_ANSWERS = 256
_MAX_LINES = 1000
"""Lines in one message; beyond this the oldest are left out."""
_MAX_LINES_BYTES = 1 << 20
"""The same for their bytes."""
_BUFFER_BYTES = 1 << 18
_READ_ONLY = "this connection is read-only"


class _Client:
    """One connection. Once a message has gone out, the newest state follows; there is no queue."""

    def __init__(
        self, server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, readonly: bool
    ) -> None:
        self.writer = writer
        self.readonly = readonly
        """Whether it is read-only."""
        self.wake = asyncio.Event()
        self.snapshot_due = False
        self._has = 0
        """The number of the last snapshot that was sent; 0 before the first."""
        self._server = server
        self._supervisor, self._observer = server.supervisor, server.observer
        self._reader = reader
        self._answers: deque[Answer] = deque()
        self._next_line: dict[str, int] = {}
        self._agent = self._supervisor.agent

    @property
    def has_lines(self) -> bool:
        """Whether a followed worker has unsent lines."""
        rings = self._supervisor.rings
        return any(rings[slot].end > number for slot, number in self._next_line.items())

    async def serve(self) -> None:
        """Answer requests and send updates until the client goes."""
        session, observer = self._supervisor.session, self._observer
        welcome = Welcome(protocol.VERSION, session, observer.snapshot(), observer.recent(), self.readonly)
        self.writer.write(protocol.frame(welcome))
        async with asyncio.TaskGroup() as tasks:
            reporting = tasks.create_task(self._report())
            asking: set[asyncio.Task[None]] = set()
            try:
                await self._listen(tasks, asking)
            finally:
                if self._agent is not None:
                    self._agent.left(self)
                self._follow_on_nodes(())
                for task in (reporting, *asking):
                    task.cancel()

    async def _listen(self, tasks: asyncio.TaskGroup, asking: set[asyncio.Task[None]]) -> None:
        while True:
            request = await protocol.read_request(self._reader)
            if isinstance(request, Hello):
                raise protocol.ProtocolError("a second hello")
            if self._agent is not None:
                self._agent.received(self)
            if isinstance(request, Follow):
                self._follow(request)
            elif self.readonly and not isinstance(request, protocol.LOOKING):
                self._answers.append(Answer(request.id, error=_READ_ONLY))
            elif isinstance(request, protocol.AskStacks | protocol.ReadLog):  # others are answered meanwhile
                task = tasks.create_task(self._at_length(request))
                asking.add(task)
                task.add_done_callback(asking.discard)
                if len(asking) > _MAX_ANSWERS:
                    raise protocol.ProtocolError("more requests than can be answered")
            else:
                self._answers.append(await self._answer(request))
                if len(self._answers) > _MAX_ANSWERS:
                    raise protocol.ProtocolError("more requests than answers read")
            self.wake.set()

    async def _at_length(self, request: protocol.AskStacks | protocol.ReadLog) -> None:
        """Answer a request that may take seconds."""
        try:
            if isinstance(request, protocol.AskStacks):
                answer = Answer(request.id, stacks=await self._observer.stacks(request.slot))
            else:
                log = await self._agent.logs.read(request.path, request.offset) if self._agent is not None else None
                answer = Answer(request.id, log=log)
            self._answers.append(answer)
        except GmgError as error:
            self._answers.append(Answer(request.id, error=str(error)))
        self.wake.set()

    def _follow(self, request: Follow) -> None:
        rings = self._supervisor.rings
        slots = [slot for slot in request.slots if slot in rings]
        self._next_line = {slot: max(rings[slot].end - request.tail, 0) for slot in slots}
        if not self.readonly:
            self._server.watched.set()
        self._follow_on_nodes(slots)

    def _follow_on_nodes(self, slots: Sequence[str]) -> None:
        """Have the lines of slots on other machines come here, which nodes send only while a client follows them."""
        if self._supervisor.fleet is not None:
            self._supervisor.fleet.follow(self, slots)

    async def _answer(self, request: Request) -> Answer:
        supervisor = self._supervisor
        try:
            match request:
                case protocol.Act(id=number, action=action, slots=slots, seen=seen):
                    supervisor.act(action, slots, seen)
                case protocol.Edit(id=number, slots=slots, args=args, env=env, seen=seen):
                    supervisor.edit(slots, args, env, seen)
                case protocol.AskDetails() | protocol.AskSeries() | protocol.AskQueue() | protocol.AskTried():
                    number = request.id
                    return await self._told(request)
                case protocol.EndProcess(id=number, slot=slot, process=process, kill=kill):
                    await self._observer.end_process(slot, process, kill=kill)
                case protocol.ActOnJobs(id=number, action=queue_action, jobs=jobs):
                    supervisor.act_on_jobs(queue_action, jobs)
                case protocol.UseSlot(id=number, slot=slot, used=used):
                    supervisor.use_slot(slot, used=used)
                case protocol.SetSlot(id=number):
                    if self._agent is None:
                        raise GmgError("this engine is no agent of another", 1)
                    self._agent.assign(self, request)
                case protocol.End(id=number, kill=kill):
                    supervisor.end(kill=kill)
                case Hello() | Follow() | protocol.AskStacks() | protocol.ReadLog():
                    raise AssertionError("handled before")
        except GmgError as error:
            return Answer(number, error=str(error))
        return Answer(number)

    async def _told(
        self, request: protocol.AskDetails | protocol.AskSeries | protocol.AskQueue | protocol.AskTried
    ) -> Answer:
        """The answer to a question. Raises `GmgError`."""
        observer = self._observer
        match request:
            case protocol.AskDetails(id=number, slot=slot):
                return Answer(number, details=await observer.details(slot))
            case protocol.AskSeries(id=number, slot=slot):
                return Answer(number, series=observer.series(slot))
            case protocol.AskQueue(id=number, first=first, count=count):
                return Answer(number, queue=self._supervisor.queue_view(first, count))
            case protocol.AskTried(id=number):
                return Answer(number, tried=observer.tried())

    async def _report(self) -> None:
        while True:
            await self.wake.wait()
            self.wake.clear()
            while self._answers:
                answer = self._answers.popleft()
                self.writer.write(framed(answer))
            for slot, number in list(self._next_line.items()):
                await self._send_lines(slot, number)
            if self.snapshot_due:
                self.snapshot_due = False
                frames = self._agent.frames(self, self._server.snapshot) if self._agent is not None else None
                if frames is None:
                    frames, self._has = self._server.frame(self._has)
                self.writer.write(frames)
            await self.writer.drain()

    async def _send_lines(self, slot: str, number: int) -> None:
        ring = self._supervisor.rings[slot]
        first, raw = ring.since(number, _MAX_LINES if number else _MAX_LINES * 8)
        if not raw or self._next_line.get(slot) != number:
            return  # nothing, or another Follow came in between
        end, fitting = first + len(raw), newest(raw, _MAX_LINES_BYTES)
        self._next_line[slot] = end
        self.writer.write(protocol.frame(Lines(slot, end - len(fitting), tuple(map(clean, fitting)))))
        await self.writer.drain()


class Server:
    """Serves the connections of `listener`, which it closes."""

    def __init__(self, supervisor: Supervisor, observer: Observer, listener: Listener) -> None:
        self.supervisor, self.observer = supervisor, observer
        self.idle = asyncio.Event()
        """Set while there is no client."""
        self.idle.set()
        self.busy = asyncio.Event()
        """Set while there is one."""
        self.visited = asyncio.Event()
        """Set once there has been one."""
        self.watched = asyncio.Event()
        """Set once one has followed a worker."""
        self._snapshot: Snapshot | None = None
        """The newest since the last `send`; None before a client has asked."""
        self._frames: dict[int, bytes] = {}
        """Its frames, by the number of the snapshot that the client has."""
        self._number = 0
        """Of the snapshot, from 1."""
        self._workers: dict[str, Worker] = {}
        """Those of the newest snapshot that was made, by slot."""
        self._changed: dict[str, int] = {}
        """The number of the snapshot in which each of them changed."""
        self._complete = 0
        """The number of the first snapshot with the same slots: older ones are followed by all workers."""
        self._clients: set[_Client] = set()
        self._soon = asyncio.Event()
        self._lines_due = 0.0
        """When lines may be sent again, by the loop's clock."""
        self._listener = listener

    def soon(self) -> None:
        """A state has changed: clients get a snapshot soon."""
        self._soon.set()

    async def run(self) -> None:
        """Report to the clients until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listener.run(self._connected))
            tasks.create_task(self._send_soon())

    async def _send_soon(self) -> None:
        while True:
            await self._soon.wait()
            await asyncio.sleep(_SOON_S)
            self._soon.clear()
            self.send()

    def send(self) -> None:
        """Send all clients a snapshot, and the lines that they follow."""
        self._snapshot = None
        self._frames.clear()
        for client in self._clients:
            client.snapshot_due = True
            client.wake.set()

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot of this beat, made once for all clients."""
        if self._snapshot is None:
            self._snapshot = self.observer.snapshot()
            self._number += 1
            workers = {worker.slot: worker for worker in self._snapshot.workers}
            if workers.keys() != self._workers.keys():
                self._complete = self._number
            changed = [slot for slot, worker in workers.items() if worker != self._workers.get(slot)]
            self._changed.update(dict.fromkeys(changed, self._number))
            self._workers = workers
        return self._snapshot

    def frame(self, has: int) -> tuple[bytes, int]:
        """The frame with what has changed since the snapshot with the number `has`, and the number of this one."""
        snapshot = self.snapshot
        partial = has >= self._complete
        if not partial:
            has = 0
        if has not in self._frames:
            workers = tuple(worker for worker in snapshot.workers if self._changed[worker.slot] > has)
            update = Update(structs.replace(snapshot, workers=workers), partial)
            self._frames[has] = protocol.frame(update)
        return self._frames[has], self._number

    def send_lines(self) -> None:
        """Workers have printed: send the lines to those that follow them, unless some were sent just now."""
        now = asyncio.get_running_loop().time()
        if self._clients and now >= self._lines_due:
            self._lines_due = now + _LINES_S
            for client in self._clients:
                if client.has_lines:
                    client.wake.set()

    def close(self, reason: str) -> None:
        """Send all clients a last snapshot and `Bye`, and stop listening."""
        self._listener.close()
        last = protocol.frame(Update(self.observer.snapshot())) + protocol.frame(Bye(reason))
        for client in self._clients:
            client.writer.write(last)
            client.writer.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            refusal = self._refusal(user_of(writer))
            hello = None if refusal else await self._hello(reader)
        except (OSError, EOFError, TimeoutError, protocol.ProtocolError) as error:
            _log.debug("a connection was closed before its hello: %s", error or type(error).__name__)
            return
        if hello is not None:
            refusal = self._misfit(hello)
        if refusal is not None or hello is None:
            await _turn_away(reader, writer, refusal or "")
            return
        self._listener.identified(writer)
        await self._serve(_Client(self, reader, writer, readonly=hello.readonly))

    def _refusal(self, user: int) -> str | None:
        """Why a connection of this user is not accepted; None where it is."""
        if user != os.getuid():
            return "this session belongs to another user"
        return f"the engine has {_MAX_CLIENTS} clients already" if len(self._clients) >= _MAX_CLIENTS else None

    @staticmethod
    async def _hello(reader: asyncio.StreamReader) -> Hello:
        async with asyncio.timeout(_HELLO_S):
            hello = await protocol.read_request(reader)
        if not isinstance(hello, Hello):
            raise protocol.ProtocolError("no hello")
        return hello

    def _misfit(self, hello: Hello) -> str | None:
        """Why the client is not one of this engine's; None where it is."""
        if hello.session not in ("", self.supervisor.session.id):
            return "the engine that listens here is another session's"
        if hello.version != protocol.VERSION:
            ours = self.supervisor.session.version
            return f"the session's engine is gmg-tui {ours}, this is {hello.program}; use that version for this session"
        return None

    async def _serve(self, client: _Client) -> None:
        client.writer.transport.set_write_buffer_limits(high=_BUFFER_BYTES)
        self._clients.add(client)
        self._count()
        try:
            await client.serve()
        except* (OSError, EOFError, protocol.ProtocolError) as group:
            _log.info("a client has gone: %s", group.exceptions[0] or type(group.exceptions[0]).__name__)
        finally:
            self._clients.discard(client)
            self._count()

    def _count(self) -> None:
        """Count the clients that are waited for, at the start and at the end: read-only ones are not."""
        steering = sum(not client.readonly for client in self._clients)
        self.observer.clients, self.observer.watched = steering, bool(self._clients)
        if steering:
            self.visited.set()
            self.busy.set()
            self.idle.clear()
        else:
            self.busy.clear()
            self.idle.set()


async def _turn_away(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, refusal: str) -> None:
    """Tell a client why it is refused, and let it close the connection.

    Closing a UNIX socket with unread data resets the connection, and the client might see that instead of the reason
    (Linux, net/unix/af_unix.c, `unix_release_sock`).
    """
    writer.write(protocol.frame(Bye(refusal)))
    try:
        writer.write_eof()
        async with asyncio.timeout(_HELLO_S):
            while await reader.read(_BUFFER_BYTES):
                pass  # it does not matter
    except (OSError, TimeoutError):
        return
