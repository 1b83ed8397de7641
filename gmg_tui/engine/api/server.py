"""Serves any number of clients; the engine waits for none of them."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from gmg_tui import protocol
from gmg_tui.engine.api import peers
from gmg_tui.engine.api.frames import framed, newest
from gmg_tui.engine.api.listener import Listener
from gmg_tui.engine.api.sharing import Sharing
from gmg_tui.engine.supervisor import Supervisor
from gmg_tui.errors import GmgError
from gmg_tui.protocol import Answer, Bye, Follow, Hello, Lines, Request, Update, Welcome
from gmg_tui.text import clean

_log = logging.getLogger(__name__)

_SOON_S = 0.1
"""A change of state is sent this soon, together with others meanwhile."""
_LINES_S = 0.25
"""Between two messages of lines at least."""
_HELLO_S = 5.0
_MAX_CLIENTS = 64
_MAX_GUESTS = 16
"""Clients of other users, which do not count among those."""
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
        self,
        supervisor: Supervisor,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        watched: asyncio.Event,
        share: Callable[[protocol.ShareWith], None],
        *,
        readonly: bool,
        foreign: bool,
    ) -> None:
        self.writer = writer
        self.readonly = readonly
        self.foreign = foreign
        """Whether it is another user's."""
        self._share = share
        self.wake = asyncio.Event()
        self.snapshot_due = False
        self._supervisor = supervisor
        self._watched = watched
        self._reader = reader
        self._answers: deque[Answer] = deque()
        self._next_line: dict[str, int] = {}
        self._led = supervisor.agent.connection() if supervisor.agent is not None else None
        self._from_start: set[str] = set()
        """The slots whose earlier telling lines have not been sent yet."""

    @property
    def has_lines(self) -> bool:
        """Whether a followed worker has unsent lines."""
        rings = self._supervisor.rings
        return any(rings[slot].end > number for slot, number in self._next_line.items())

    async def serve(self) -> None:
        """Answer requests and send updates until the client goes."""
        supervisor = self._supervisor
        session = supervisor.session
        welcome = Welcome(protocol.VERSION, session, supervisor.snapshot(), supervisor.recent(), self.readonly)
        self.writer.write(protocol.frame(peers.without_values(welcome) if self.foreign else welcome))
        async with asyncio.TaskGroup() as tasks:
            reporting = tasks.create_task(self._report())
            asking: set[asyncio.Task[None]] = set()
            try:
                await self._listen(tasks, asking)
            finally:
                if self._led is not None:
                    self._led.close()
                self._look_at(())
                for task in (reporting, *asking):
                    task.cancel()

    async def _listen(self, tasks: asyncio.TaskGroup, asking: set[asyncio.Task[None]]) -> None:
        while True:
            request = await protocol.read_request(self._reader)
            if isinstance(request, Hello):
                raise protocol.ProtocolError("a second hello")
            if self._led is not None:
                self._led.heard()
            if isinstance(request, Follow):
                self._follow(request)
            elif self.readonly and not isinstance(request, protocol.LOOKING):
                self._answers.append(Answer(request.id, error=_READ_ONLY))
            elif isinstance(request, protocol.ToAgent):
                refused = Answer(request.id, error="this engine is no agent of another")
                self._answers.append(self._led.take(request) if self._led is not None else refused)
            elif isinstance(request, protocol.AskStacks | protocol.BringLog):  # others are answered meanwhile
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

    async def _at_length(self, request: protocol.AskStacks | protocol.BringLog) -> None:
        """Answer a request that may take seconds."""
        try:
            if isinstance(request, protocol.AskStacks):
                answer = Answer(request.id, stacks=await self._supervisor.stacks(request.slot))
            else:
                fleet = self._supervisor.fleet
                brought = await fleet.bring_log(request.path) if fleet is not None else protocol.Brought()
                answer = Answer(request.id, brought=brought)
            self._answers.append(answer)
        except GmgError as error:
            self._answers.append(Answer(request.id, error=str(error)))
        self.wake.set()

    def _follow(self, request: Follow) -> None:
        rings = self._supervisor.rings
        slots = [slot for slot in request.slots if slot in rings]
        self._next_line = {slot: max(rings[slot].end - request.tail, 0) for slot in slots}
        self._from_start = set(slots) if request.telling else set()
        if not self.readonly:
            self._watched.set()
        self._look_at(slots)

    def _look_at(self, slots: Sequence[str]) -> None:
        """Have the lines of slots on other machines come here, which they do only while somebody looks at them."""
        if self._supervisor.fleet is not None:
            self._supervisor.fleet.look(self, slots)

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
                    await supervisor.end_process(slot, process, kill=kill)
                case protocol.ActOnJobs(id=number, action=queue_action, jobs=jobs):
                    supervisor.act_on_jobs(queue_action, jobs)
                case protocol.UseSlot(id=number, slot=slot, used=used):
                    supervisor.use_slot(slot, used=used)
                case protocol.End(id=number, kill=kill):
                    supervisor.end(kill=kill)
                case protocol.ShareWith(id=number):
                    self._share(request)
                case Hello() | Follow() | protocol.AskStacks() | protocol.BringLog() | protocol.ToAgent():
                    raise AssertionError("handled before")
        except GmgError as error:
            return Answer(number, error=str(error))
        return Answer(number)

    async def _told(
        self, request: protocol.AskDetails | protocol.AskSeries | protocol.AskQueue | protocol.AskTried
    ) -> Answer:
        """The answer to a question. Raises `GmgError`."""
        supervisor = self._supervisor
        match request:
            case protocol.AskDetails(id=number, slot=slot):
                return Answer(number, details=await supervisor.details(slot))
            case protocol.AskSeries(id=number, slot=slot, start=start):
                return Answer(number, series=supervisor.series(slot, start))
            case protocol.AskQueue(id=number, first=first, count=count):
                return Answer(number, queue=supervisor.queue_view(first, count))
            case protocol.AskTried(id=number):
                return Answer(number, tried=supervisor.tried())

    async def _report(self) -> None:
        while True:
            await self.wake.wait()
            self.wake.clear()
            if self._led is not None:
                self.writer.write(self._led.said())
            while self._answers:
                answer = self._answers.popleft()
                self.writer.write(framed(peers.without_values(answer) if self.foreign else answer))
            for slot, number in list(self._next_line.items()):
                await self._send_lines(slot, number)
            if self.snapshot_due:
                self.snapshot_due = False
                snapshot = self._supervisor.snapshot()
                update = self._led.update(snapshot) if self._led is not None else protocol.frame(Update(snapshot))
                self.writer.write(update)
            await self.writer.drain()

    async def _send_lines(self, slot: str, number: int) -> None:
        ring = self._supervisor.rings[slot]
        first, raw = ring.since(number, _MAX_LINES if number else _MAX_LINES * 8)
        if not raw or self._next_line.get(slot) != number:
            return  # nothing, or another Follow came in between
        end, fitting = first + len(raw), newest(raw, _MAX_LINES_BYTES)
        self._next_line[slot] = end
        since = 0 if slot in self._from_start else number
        self._from_start.discard(slot)
        # Lines that are left out of the message are sent where they say more than progress.
        for at, telling, after_progress in ring.telling.between(since, end - len(fitting)):
            lines = tuple(map(clean, telling or fitting))
            self.writer.write(protocol.frame(Lines(slot, at, lines, after_progress=after_progress)))
        await self.writer.drain()


class Server:
    """Serves the connections of `listener`, which it closes."""

    def __init__(self, supervisor: Supervisor, listener: Listener) -> None:
        self.idle = asyncio.Event()
        """Set while there is no client."""
        self.idle.set()
        self.busy = asyncio.Event()
        """Set while there is one."""
        self.visited = asyncio.Event()
        """Set once there has been one."""
        self.watched = asyncio.Event()
        """Set once one has followed a worker."""
        self._supervisor = supervisor
        self._clients: set[_Client] = set()
        self._soon = asyncio.Event()
        self._lines_due = 0.0
        """When lines may be sent again, by the loop's clock."""
        self._listener = listener
        self._sharing = Sharing(self._connected)

    def soon(self) -> None:
        """A state has changed: clients are told soon."""
        self._soon.set()

    async def run(self) -> None:
        """Report to the clients until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listener.run(partial(self._connected, self._listener)))
            tasks.create_task(self._tell_soon())

    async def _tell_soon(self) -> None:
        while True:
            await self._soon.wait()
            await asyncio.sleep(_SOON_S)
            self._soon.clear()
            self.tell()

    def tell(self) -> None:
        """Send all clients a snapshot, and the lines that they follow."""
        for client in self._clients:
            client.snapshot_due = True
            client.wake.set()

    def tell_lines(self) -> None:
        """Workers have printed: send the lines to those that follow them, unless some were sent just now."""
        now = asyncio.get_running_loop().time()
        if self._clients and now >= self._lines_due:
            self._lines_due = now + _LINES_S
            for client in self._clients:
                if client.has_lines:
                    client.wake.set()

    def close(self, reason: str) -> None:
        """Send all clients a last snapshot, say goodbye, and stop listening."""
        self._listener.close()
        self._sharing.close()
        last = protocol.frame(Update(self._supervisor.snapshot())) + protocol.frame(Bye(reason))
        for client in self._clients:
            client.writer.write(last)
            client.writer.close()

    def _share(self, request: protocol.ShareWith) -> None:
        """Let a group look, or no other user any more. Raises `GmgError`."""
        if request.group is None:
            self._sharing.stop(self._supervisor.session.spec.name)
        else:
            self._sharing.close()
        for client in self._clients:
            if client.foreign:
                client.writer.write(protocol.frame(Bye("its owner does not share it any more")))
                client.writer.close()
        self._supervisor.note("share", None)
        if request.group is not None:
            self._sharing.start(self._supervisor.session.spec.name, request)
            text = f"shared with the group {clean(request.group_name.encode())}, who may look: gmg-tui attach"
            self._supervisor.note("share", f"{text} {clean(request.address.encode())}")
        self.soon()

    async def _connected(self, listener: Listener, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            foreign = peers.user_of(writer) != os.getuid()
            refusal = self._refusal(foreign=foreign, shared=listener is not self._listener)
            hello = None if refusal else await self._hello(reader)
        except (OSError, EOFError, TimeoutError, protocol.ProtocolError) as error:
            _log.debug("a connection was closed before its hello: %s", error or type(error).__name__)
            return
        if hello is not None:
            refusal = self._misfit(hello)
        if refusal is not None or hello is None:
            await _turn_away(reader, writer, refusal or "")
            return
        listener.known(writer)
        client = _Client(
            self._supervisor,
            reader,
            writer,
            self.watched,
            self._share,
            readonly=foreign or hello.readonly,
            foreign=foreign,
        )
        await self._serve(client)

    def _refusal(self, *, foreign: bool, shared: bool) -> str | None:
        """Why nobody is welcome who comes this way; None where they are."""
        if foreign and not shared:
            return "this session belongs to another user"
        here = sum(client.foreign == foreign for client in self._clients)
        most = _MAX_GUESTS if foreign else _MAX_CLIENTS
        return f"the engine has {most} {'guests' if foreign else 'clients'} already" if here >= most else None

    @staticmethod
    async def _hello(reader: asyncio.StreamReader) -> Hello:
        async with asyncio.timeout(_HELLO_S):
            hello = await protocol.read_request(reader)
        if not isinstance(hello, Hello):
            raise protocol.ProtocolError("no hello")
        return hello

    def _misfit(self, hello: Hello) -> str | None:
        """Why the client is not one of this engine's; None where it is."""
        if hello.session not in ("", self._supervisor.session.id):
            return "the engine that listens here is another session's"
        if hello.version != protocol.VERSION:
            ours = self._supervisor.session.version
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
        """Who only looks is not waited for: not at the start, and not at the end."""
        steering = sum(not client.readonly for client in self._clients)
        self._supervisor.clients, self._supervisor.watched = steering, bool(self._clients)
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
