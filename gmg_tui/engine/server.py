"""The engine's socket: any number of clients, none of which the engine waits for."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections import deque
from itertools import accumulate
from pathlib import Path

from gmg_tui import protocol
from gmg_tui.engine.listener import Listener
from gmg_tui.engine.supervisor import Supervisor
from gmg_tui.errors import GmgError
from gmg_tui.protocol import Answer, Bye, Follow, Hello, Lines, Request, Update, Welcome
from gmg_tui.text import clean

_log = logging.getLogger(__name__)

SNAPSHOT_S = 1.0
_SOON_S = 0.1
"""A change of state is sent this soon; changes in between go along."""
_LINES_S = 0.25
_HELLO_S = 5.0
_MAX_CLIENTS = 64
_MAX_ANSWERS = 256
_MAX_LINES = 1000
"""Lines in one message; of more than that the oldest are left out."""
_MAX_LINES_BYTES = 1 << 20
"""The same for their bytes."""
_BUFFER_BYTES = 1 << 18
_CREDENTIALS = struct.Struct("3i")


class _Client:
    """One connection. Its writer takes what is newest when the last message has gone out; there is no queue."""

    def __init__(
        self,
        supervisor: Supervisor,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        watched: asyncio.Event,
    ) -> None:
        self.wake = asyncio.Event()
        self.snapshot_due = False
        self._supervisor = supervisor
        self._watched = watched
        self._reader = reader
        self._writer = writer
        self._answers: deque[Answer] = deque()
        self._next_line: dict[str, int] = {}

    @property
    def has_lines(self) -> bool:
        """Whether a followed worker has lines that were not sent."""
        rings = self._supervisor.rings
        return any(rings[slot].end > number for slot, number in self._next_line.items())

    async def serve(self) -> None:
        """Answer and report until the client goes."""
        supervisor = self._supervisor
        self._writer.write(
            protocol.frame(
                Welcome(protocol.VERSION, supervisor.session, supervisor.snapshot(), supervisor.recent()),
            )
        )
        async with asyncio.TaskGroup() as tasks:
            reporting = tasks.create_task(self._report())
            try:
                await self._listen()
            finally:
                reporting.cancel()

    async def _listen(self) -> None:
        while True:
            request = await protocol.read_request(self._reader)
            if isinstance(request, Hello):
                raise protocol.ProtocolError("a second hello")
            if isinstance(request, Follow):
                self._follow(request)
            else:
                self._answers.append(await self._answer(request))
                if len(self._answers) > _MAX_ANSWERS:
                    raise protocol.ProtocolError("more requests than answers read")
            self.wake.set()

    def _follow(self, request: Follow) -> None:
        rings = self._supervisor.rings
        slots = [slot for slot in request.slots if slot in rings]
        self._next_line = {slot: max(rings[slot].end - request.tail, 0) for slot in slots}
        self._watched.set()

    async def _answer(self, request: Request) -> Answer:
        supervisor = self._supervisor
        try:
            match request:
                case protocol.Act(id=number, action=action, slots=slots):
                    supervisor.act(action, slots)
                case protocol.Edit(id=number, slots=slots, args=args, env=env):
                    supervisor.edit(slots, args, env)
                case protocol.AskDetails(id=number, slot=slot):
                    return Answer(number, details=await supervisor.details(slot))
                case protocol.AskSeries(id=number, slot=slot):
                    return Answer(number, series=supervisor.series(slot))
                case protocol.EndProcess(id=number, slot=slot, pid=pid, kill=kill):
                    await supervisor.end_process(slot, pid, kill=kill)
                case protocol.AskQueue(id=number, first=first, count=count):
                    return Answer(number, queue=supervisor.queue_view(first, count))
                case protocol.ActOnJobs(id=number, action=queue_action, jobs=jobs):
                    supervisor.act_on_jobs(queue_action, jobs)
                case protocol.UseSlot(id=number, slot=slot, used=used):
                    supervisor.use_slot(slot, used=used)
                case protocol.End(id=number, kill=kill):
                    supervisor.end(kill=kill)
                case Hello() | Follow():
                    raise AssertionError("handled before")
        except GmgError as error:
            return Answer(number, error=str(error))
        return Answer(number)

    async def _report(self) -> None:
        while True:
            await self.wake.wait()
            self.wake.clear()
            while self._answers:
                self._writer.write(protocol.frame(self._answers.popleft()))
            if self.snapshot_due:
                self.snapshot_due = False
                self._writer.write(protocol.frame(Update(self._supervisor.snapshot())))
            await self._writer.drain()
            for slot, number in list(self._next_line.items()):
                await self._send_lines(slot, number)

    async def _send_lines(self, slot: str, number: int) -> None:
        first, raw = self._supervisor.rings[slot].since(number, _MAX_LINES if number else _MAX_LINES * 8)
        if not raw or self._next_line.get(slot) != number:
            return  # nothing, or another Follow came in between
        fitting = _newest(raw, _MAX_LINES_BYTES)
        first, raw = first + len(raw) - len(fitting), fitting
        self._next_line[slot] = first + len(raw)
        self._writer.write(protocol.frame(Lines(slot, first, tuple(map(clean, raw)))))
        await self._writer.drain()


class Server:
    """Listens at a path.

    Attributes:
        idle: Set while there is no client.
        busy: Set while there is one.
        visited: Set once there has been one.
        watched: Set once one has followed a worker.
    """

    def __init__(self, supervisor: Supervisor, path: Path) -> None:
        self.idle = asyncio.Event()
        self.idle.set()
        self.busy = asyncio.Event()
        self.visited = asyncio.Event()
        self.watched = asyncio.Event()
        self._supervisor = supervisor
        self._clients: set[_Client] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._soon = asyncio.Event()
        self._listener = Listener(path, self._connected)

    def start(self) -> None:
        """Begin to listen. Raises `OSError`."""
        self._listener.open()

    def soon(self) -> None:
        """A state has changed: clients are to hear of it soon."""
        self._soon.set()

    async def run(self) -> None:
        """Report to the clients until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listener.run())
            tasks.create_task(self._send_snapshots())
            tasks.create_task(self._send_lines())

    async def _send_snapshots(self) -> None:
        while True:
            await self.busy.wait()
            try:
                async with asyncio.timeout(SNAPSHOT_S):
                    await self._soon.wait()
                    await asyncio.sleep(_SOON_S)
            except TimeoutError:
                pass  # nothing has changed its state: the regular snapshot
            self._soon.clear()
            for client in self._clients:
                client.snapshot_due = True
                client.wake.set()

    async def _send_lines(self) -> None:
        while True:
            await self.busy.wait()
            for client in self._clients:
                if client.has_lines:
                    client.wake.set()
            await asyncio.sleep(_LINES_S)

    def close(self, reason: str) -> None:
        """Say goodbye to all clients and stop listening."""
        self._listener.close()
        for writer in self._writers:
            writer.write(protocol.frame(Bye(reason)))
            writer.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            refusal = await self._greet(reader, writer)
        except (OSError, EOFError, TimeoutError, protocol.ProtocolError) as error:
            _log.debug("a connection went before its hello: %s", error or type(error).__name__)
            return
        if refusal is not None:
            await _turn_away(reader, writer, refusal)
            return
        self._listener.known(writer)
        await self._serve(reader, writer)

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str | None:
        """Hear a client's hello. Why it is refused, or None."""
        connection: socket.socket = writer.get_extra_info("socket")
        _, user, _ = _CREDENTIALS.unpack(
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        if user != os.getuid():
            return "this session belongs to another user"
        if len(self._writers) >= _MAX_CLIENTS:
            return f"the engine has {_MAX_CLIENTS} clients already"
        async with asyncio.timeout(_HELLO_S):
            hello = await protocol.read_request(reader)
        if not isinstance(hello, Hello):
            raise protocol.ProtocolError("no hello")
        if hello.version != protocol.VERSION:
            ours = self._supervisor.session.version
            return f"the session's engine is gmg-tui {ours}, this is {hello.program}; use that version for this session"
        return None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(high=_BUFFER_BYTES)
        client = _Client(self._supervisor, reader, writer, self.watched)
        self._clients.add(client)
        self._writers.add(writer)
        self._count()
        try:
            await client.serve()
        except* (OSError, EOFError, protocol.ProtocolError) as group:
            _log.info("a client went: %s", group.exceptions[0] or type(group.exceptions[0]).__name__)
        finally:
            self._clients.discard(client)
            self._writers.discard(writer)
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


async def _turn_away(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, refusal: str) -> None:
    """Tell a client why it is not served, and let it close the connection.

    A UNIX socket that is closed with something unread in it resets the connection, and the client may find that in
    place of what was said to it (Linux, net/unix/af_unix.c, `unix_release_sock`).
    """
    writer.write(protocol.frame(Bye(refusal)))
    try:
        writer.write_eof()
        async with asyncio.timeout(_HELLO_S):
            while await reader.read(_BUFFER_BYTES):
                pass  # nothing of it matters
    except (OSError, TimeoutError):
        return


def _newest(lines: list[bytes], most_bytes: int) -> list[bytes]:
    """The newest of `lines` that have no more than `most_bytes` together, at least one."""
    sizes = accumulate(len(line) for line in reversed(lines))
    return lines[-max(1, sum(1 for size in sizes if size <= most_bytes)) :]
