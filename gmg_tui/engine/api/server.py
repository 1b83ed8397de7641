"""Serves clients; the engine waits for none of them."""

import asyncio
import logging
import os

from gmg_tui import session as sessions
from gmg_tui.engine.api.client import Client, Updates
from gmg_tui.engine.api.listener import Listener
from gmg_tui.engine.observer import Observer
from gmg_tui.engine.records.session_files import NOT_ENDED
from gmg_tui.engine.supervisor import Supervisor
from gmg_tui.model import Snapshot
from gmg_tui.session import protocol
from gmg_tui.session.protocol import Bye, Hello, Update

_log = logging.getLogger(__name__)

_SNAPSHOT_DELAY_S = 0.1
"""Delay of a snapshot after a change, so that it includes further changes."""
_MIN_LINES_GAP_S = 0.25
"""Minimum time between two messages with lines."""
_HELLO_TIMEOUT_S = 5.0
_MAX_CLIENTS = 64
"""Limits the clients with control, and the read-only ones."""
_BUFFER_BYTES = 1 << 18


class Server:
    """Serves the connections of `listener`, which it closes."""

    def __init__(self, supervisor: Supervisor, observer: Observer, listener: Listener) -> None:
        self.supervisor, self.observer = supervisor, observer
        self.idle = asyncio.Event()
        """Set while no client is connected."""
        self.idle.set()
        self.busy = asyncio.Event()
        """Set while a client is connected."""
        self.visited = asyncio.Event()
        """Set once a client has connected."""
        self.watched = asyncio.Event()
        """Set once a client has followed a worker."""
        self._updates = Updates(observer.snapshot)
        self._clients: set[Client] = set()
        self._soon = asyncio.Event()
        self._lines_due = 0.0
        """When lines may be sent again, by the loop's clock."""
        self._listener = listener

    def soon(self) -> None:
        """Schedules a snapshot after a change of state."""
        self._soon.set()

    async def run(self) -> None:
        """Serves clients until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listener.run(self._connected))
            tasks.create_task(self._send_soon())

    async def _send_soon(self) -> None:
        while True:
            await self._soon.wait()
            await asyncio.sleep(_SNAPSHOT_DELAY_S)
            self._soon.clear()
            self.send()

    def send(self, snapshot: Snapshot | None = None) -> None:
        """Sends all clients a snapshot, the given or a new one, and the lines that they follow."""
        self._updates.expire(snapshot)
        for client in self._clients:
            client.snapshot_due = True
            client.wake.set()

    def send_lines(self) -> None:
        """Sends new lines to the clients that follow them, at most every `_MIN_LINES_GAP_S`."""
        now = asyncio.get_running_loop().time()
        if self._clients and now >= self._lines_due:
            self._lines_due = now + _MIN_LINES_GAP_S
            for client in self._clients:
                if client.has_lines:
                    client.wake.set()

    def close(self, reason: str) -> None:
        """Sends all clients the final snapshot and `Bye`, and stops listening."""
        self._listener.close()
        snapshot = self.observer.snapshot().after_loss(NOT_ENDED)
        last = protocol.frame(Update(snapshot)) + protocol.frame(Bye(reason))
        for client in self._clients:
            client.writer.write(last)
            client.writer.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            stranger = sessions.peer_user(writer.get_extra_info("socket")) != os.getuid()
            hello = None if stranger else await self._hello(reader)
        except (OSError, EOFError) as error:
            _log.debug("a connection was closed before its hello: %s", error or type(error).__name__)
            return
        refusal = "this session belongs to another user" if hello is None else self._misfit(hello)
        if refusal is not None or hello is None:
            await _turn_away(reader, writer, refusal or "")
            return
        self._listener.identified(writer)
        watched = None if hello.readonly else self.watched
        await self._serve(Client(self.supervisor, self.observer, self._updates, (reader, writer), watched))

    @staticmethod
    async def _hello(reader: asyncio.StreamReader) -> Hello:
        async with asyncio.timeout(_HELLO_TIMEOUT_S):
            hello = await protocol.read_request(reader)
        if not isinstance(hello, Hello):
            raise protocol.ProtocolError("no hello")
        return hello

    def _misfit(self, hello: Hello) -> str | None:
        """Returns the reason to refuse a client; None to accept it."""
        # Read-only clients have a limit of their own.
        if sum(client.readonly is hello.readonly for client in self._clients) >= _MAX_CLIENTS:
            return f"the engine has {_MAX_CLIENTS} {'read-only ' if hello.readonly else ''}clients already"
        if hello.session not in ("", self.supervisor.session.id):
            return "the engine that listens here is another session's"
        if hello.version != protocol.VERSION:
            ours = self.supervisor.session.version
            if hello.program == ours:
                end = f"to end it and its workers: kill {os.getpid()}"
                return f"gmg-tui {ours} has been changed since the session's engine was started; {end}"
            return f"the session's engine is gmg-tui {ours}, this is {hello.program}; use that version for this session"
        return None

    async def _serve(self, client: Client) -> None:
        client.writer.transport.set_write_buffer_limits(high=_BUFFER_BYTES)
        self._clients.add(client)
        self._count()
        try:
            await client.serve()
        except* (OSError, EOFError) as group:
            _log.debug("a client has gone: %s", group.exceptions[0] or type(group.exceptions[0]).__name__)
        finally:
            self._clients.discard(client)
            self._count()

    def _count(self) -> None:
        """Counts the clients that start and end wait for: all but read-only ones."""
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
    """Sends a client the reason for the refusal, and lets it close the connection.

    Closing a UNIX socket with unread data resets the connection, and the client might see that instead of the reason
    (Linux, net/unix/af_unix.c, `unix_release_sock`).
    """
    writer.write(protocol.frame(Bye(refusal)))
    try:
        writer.write_eof()
        async with asyncio.timeout(_HELLO_TIMEOUT_S):
            while await reader.read(_BUFFER_BYTES):
                pass  # it does not matter
    except (OSError, TimeoutError):
        return
