"""Serves any number of clients; the engine waits for none of them."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections import deque
from collections.abc import Sequence
from itertools import accumulate

from msgspec import structs

from gmg_tui import protocol
from gmg_tui.engine.api.led import Led
from gmg_tui.engine.api.listener import Listener
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
_MAX_ANSWERS = 256
_MAX_LINES = 1000
"""Lines in one message; beyond this the oldest are left out."""
_MAX_LINES_BYTES = 1 << 20
"""The same for their bytes."""
_MAX_LIST_BYTES = 4 << 20
"""A part of the queue, or what was tried, unless it is a single row."""
_BUFFER_BYTES = 1 << 18
_CREDENTIALS = struct.Struct("3i")


class _Client:
    """One connection. Once a message has gone out, the newest state follows; there is no queue."""

    def __init__(
        self, supervisor: Supervisor, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, watched: asyncio.Event
    ) -> None:
        self.writer = writer
        self.wake = asyncio.Event()
        self.snapshot_due = False
        self._supervisor = supervisor
        self._watched = watched
        self._reader = reader
        self._answers: deque[Answer] = deque()
        self._next_line: dict[str, int] = {}
        self._led = Led(supervisor.agent)
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
        welcome = Welcome(protocol.VERSION, supervisor.session, supervisor.snapshot(), supervisor.recent())
        self.writer.write(protocol.frame(welcome))
        async with asyncio.TaskGroup() as tasks:
            reporting = tasks.create_task(self._report())
            asking: set[asyncio.Task[None]] = set()
            try:
                await self._listen(tasks, asking)
            finally:
                self._led.close()
                self._look_at(())
                for task in (reporting, *asking):
                    task.cancel()

    async def _listen(self, tasks: asyncio.TaskGroup, asking: set[asyncio.Task[None]]) -> None:
        while True:
            request = await protocol.read_request(self._reader)
            if isinstance(request, Hello):
                raise protocol.ProtocolError("a second hello")
            self._led.heard()
            if isinstance(request, Follow):
                self._follow(request)
            elif isinstance(request, protocol.ToAgent):
                self._answers.append(self._led.take(request))
            elif isinstance(request, protocol.AskStacks):  # other requests are answered meanwhile
                task = tasks.create_task(self._stacks(request))
                asking.add(task)
                task.add_done_callback(asking.discard)
                if len(asking) > _MAX_ANSWERS:
                    raise protocol.ProtocolError("more requests than can be answered")
            else:
                self._answers.append(await self._answer(request))
                if len(self._answers) > _MAX_ANSWERS:
                    raise protocol.ProtocolError("more requests than answers read")
            self.wake.set()

    async def _stacks(self, request: protocol.AskStacks) -> None:
        try:
            self._answers.append(Answer(request.id, stacks=await self._supervisor.stacks(request.slot)))
        except GmgError as error:
            self._answers.append(Answer(request.id, error=str(error)))
        self.wake.set()

    def _follow(self, request: Follow) -> None:
        rings = self._supervisor.rings
        slots = [slot for slot in request.slots if slot in rings]
        self._next_line = {slot: max(rings[slot].end - request.tail, 0) for slot in slots}
        self._from_start = set(slots) if request.telling else set()
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
                case Hello() | Follow() | protocol.AskStacks() | protocol.ToAgent():
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
            self.writer.write(self._led.said())
            while self._answers:
                self.writer.write(_framed(self._answers.popleft()))
            for slot, number in list(self._next_line.items()):
                await self._send_lines(slot, number)
            if self.snapshot_due:
                self.snapshot_due = False
                self.writer.write(self._led.update(self._supervisor.snapshot()))
            await self.writer.drain()

    async def _send_lines(self, slot: str, number: int) -> None:
        ring = self._supervisor.rings[slot]
        first, raw = ring.since(number, _MAX_LINES if number else _MAX_LINES * 8)
        if not raw or self._next_line.get(slot) != number:
            return  # nothing, or another Follow came in between
        end, fitting = first + len(raw), _newest(raw, _MAX_LINES_BYTES)
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

    def soon(self) -> None:
        """A state has changed: clients are told soon."""
        self._soon.set()

    async def run(self) -> None:
        """Report to the clients until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listener.run(self._connected))
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
        last = protocol.frame(Update(self._supervisor.snapshot())) + protocol.frame(Bye(reason))
        for client in self._clients:
            client.writer.write(last)
            client.writer.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            refusal = await self._greet(reader, writer)
        except (OSError, EOFError, TimeoutError, protocol.ProtocolError) as error:
            _log.debug("a connection was closed before its hello: %s", error or type(error).__name__)
            return
        if refusal is not None:
            await _turn_away(reader, writer, refusal)
            return
        self._listener.known(writer)
        await self._serve(reader, writer)

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str | None:
        """Hear a client's hello. Why it is refused, or None."""
        connection: socket.socket = writer.get_extra_info("socket")
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, user, _ = _CREDENTIALS.unpack(credentials)
        if user != os.getuid():
            return "this session belongs to another user"
        if len(self._clients) >= _MAX_CLIENTS:
            return f"the engine has {_MAX_CLIENTS} clients already"
        async with asyncio.timeout(_HELLO_S):
            hello = await protocol.read_request(reader)
        if not isinstance(hello, Hello):
            raise protocol.ProtocolError("no hello")
        if hello.session not in ("", self._supervisor.session.id):
            return "the engine that listens here is another session's"
        if hello.version != protocol.VERSION:
            ours = self._supervisor.session.version
            return f"the session's engine is gmg-tui {ours}, this is {hello.program}; use that version for this session"
        return None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(high=_BUFFER_BYTES)
        client = _Client(self._supervisor, reader, writer, self.watched)
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
        self._supervisor.clients = len(self._clients)
        if self._clients:
            self.visited.set()
            self.busy.set()
            self.idle.clear()
        else:
            self.busy.clear()
            self.idle.set()


def _framed(answer: Answer) -> bytes:
    """The frame of an answer: a long list is cut to its first rows, and what cannot be sent is an error."""
    try:
        data = protocol.frame(answer)
        while len(data) > _MAX_LIST_BYTES and (shorter := _halved(answer)) is not None:
            answer = shorter
            data = protocol.frame(answer)
    except (ValueError, OverflowError, RecursionError, TypeError) as error:
        _log.exception("an answer cannot be encoded")
        return protocol.frame(Answer(answer.id, error=f"the engine cannot send its answer: {type(error).__name__}"))
    if len(data) > protocol.MAX_MESSAGE_BYTES:
        return protocol.frame(Answer(answer.id, error=f"the engine's answer is too long: {len(data):,} bytes"))
    return data


def _halved(answer: Answer) -> Answer | None:
    """The answer with half of its list; None where it has none of several rows."""
    queue, tried = answer.queue, answer.tried
    if queue is not None and len(queue.jobs) > 1:
        return structs.replace(answer, queue=structs.replace(queue, jobs=queue.jobs[: len(queue.jobs) // 2]))
    if tried is not None and len(tried.rows) > 1:
        rows = tried.rows[: len(tried.rows) // 2]
        left_out = tried.left_out + len(tried.rows) - len(rows)
        return structs.replace(answer, tried=structs.replace(tried, rows=rows, left_out=left_out))
    return None


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


def _newest(lines: list[bytes], most_bytes: int) -> list[bytes]:
    """The newest of `lines` with no more than `most_bytes` together, at least one."""
    sizes = accumulate(len(line) for line in reversed(lines))
    return lines[-max(1, sum(1 for size in sizes if size <= most_bytes)) :]
