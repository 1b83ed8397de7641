"""Serves clients; the engine waits for none of them."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path

from gmg_tui.engine.api.client import Client, Updates
from gmg_tui.engine.observer import Observer
from gmg_tui.engine.records.session_files import NOT_ENDED
from gmg_tui.engine.supervisor import Supervisor
from gmg_tui.machine.folders import make_own
from gmg_tui.machine.processes import peer_credentials
from gmg_tui.model import Snapshot
from gmg_tui.session import bind_socket, protocol
from gmg_tui.session.protocol import Bye, Hello, Update

_log = logging.getLogger(__name__)

_SNAPSHOT_DELAY_S = 0.1
"""Delay of a snapshot after a change, so that it includes further changes."""
_MIN_LINES_GAP_S = 0.25
_HELLO_TIMEOUT_S = 5.0
_MAX_CLIENTS = 64
"""Limit on clients with control, and separately on read-only clients."""
_BUFFER_BYTES = 1 << 18


class Server:
    """Serves the connections of `listener`, which it closes."""

    def __init__(self, supervisor: Supervisor, observer: Observer, listener: Listener) -> None:
        self.supervisor, self.observer = supervisor, observer
        self.idle = asyncio.Event()
        """Set while no client with control is connected."""
        self.idle.set()
        self.busy = asyncio.Event()
        """Set while a client with control is connected."""
        self.visited = asyncio.Event()
        """Set once a client with control has connected."""
        self.watched = asyncio.Event()
        """Set once a client with control has sent `Watch`."""
        self._updates = Updates(observer.snapshot)
        self._clients: set[Client] = set()
        self._snapshot_requested = asyncio.Event()
        self._lines_due = 0.0
        """Time at which lines may be sent again, by the loop's clock."""
        self._listener = listener
        self._pending: dict[asyncio.StreamWriter, None] = {}
        """Connections without a `Hello` yet, oldest first."""

    def request_snapshot(self) -> None:
        """Schedules a snapshot after a change of state."""
        self._snapshot_requested.set()

    async def run(self) -> None:
        """Serves clients until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listener.run(self._handle_connection))
            tasks.create_task(self._send_requested())

    async def _send_requested(self) -> None:
        while True:
            await self._snapshot_requested.wait()
            await asyncio.sleep(_SNAPSHOT_DELAY_S)
            self._snapshot_requested.clear()
            self.send()

    def send(self, snapshot: Snapshot | None = None) -> None:
        """Sends all clients `snapshot`, or a new one if None, and new lines to those that want them."""
        self._updates.expire(snapshot)
        for client in self._clients:
            client.snapshot_due = True
            client.wake.set()

    def send_lines(self) -> None:
        """Sends new lines to the clients that want them, at most every `_MIN_LINES_GAP_S`."""
        now = asyncio.get_running_loop().time()
        if self._clients and now >= self._lines_due:
            self._lines_due = now + _MIN_LINES_GAP_S
            for client in self._clients:
                if client.has_unsent_lines:
                    client.wake.set()

    def close(self, reason: str) -> None:
        """Sends all clients the final snapshot and `Bye`, and stops listening."""
        self._listener.close()
        snapshot = self.observer.snapshot().after_loss(NOT_ENDED)
        last = protocol.frame(Update(snapshot)) + protocol.frame(Bye(reason))
        for client in self._clients:
            client.writer.write(last)
            client.writer.close()

    async def _handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._pending[writer] = None
        if len(self._pending) > _MAX_PENDING:
            oldest = next(iter(self._pending))
            del self._pending[oldest]
            oldest.transport.abort()
        try:
            await self._greet_and_serve(reader, writer)
        except Exception:  # an internal error in one connection must not stop the listener
            _log.exception("a connection failed because of an internal error")
        finally:
            self._pending.pop(writer, None)
            await _close_connection(writer)

    async def _greet_and_serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            is_stranger = peer_credentials(writer.get_extra_info("socket"))[1] != os.getuid()
            hello = None if is_stranger else await self._read_hello(reader)
        except (OSError, EOFError) as error:
            _log.debug("a connection was closed before its hello: %s", error or type(error).__name__)
            return
        refusal = "this session belongs to another user" if hello is None else self._refusal_reason(hello)
        if refusal is not None or hello is None:
            await _refuse(reader, writer, refusal or "")
            return
        self._pending.pop(writer, None)
        watched = None if hello.readonly else self.watched
        await self._serve(Client(self.supervisor, self.observer, self._updates, (reader, writer), watched))

    @staticmethod
    async def _read_hello(reader: asyncio.StreamReader) -> Hello:
        async with asyncio.timeout(_HELLO_TIMEOUT_S):
            hello = await protocol.read_request(reader)
        if not isinstance(hello, Hello):
            raise protocol.ProtocolError("no hello")
        return hello

    def _refusal_reason(self, hello: Hello) -> str | None:
        """Returns the reason to refuse a client; None to accept it."""
        if sum(client.readonly is hello.readonly for client in self._clients) >= _MAX_CLIENTS:
            return f"the engine already has {_MAX_CLIENTS} {'read-only ' if hello.readonly else ''}clients"
        if hello.session not in ("", self.supervisor.session.id):
            return "the engine listening here belongs to another session"
        if hello.version != protocol.VERSION:
            own_version = self.supervisor.session.version
            if hello.program == own_version:
                advice = f"to end it and its workers: kill {os.getpid()}"
                return f"gmg-tui {own_version} has been changed since the session's engine was started; {advice}"
            return f"the session's engine is gmg-tui {own_version}, this is {hello.program}; use the engine's version for this session"
        return None

    async def _serve(self, client: Client) -> None:
        client.writer.transport.set_write_buffer_limits(high=_BUFFER_BYTES)
        self._clients.add(client)
        self._update_events()
        try:
            await client.serve()
        except* (OSError, EOFError) as group:
            _log.debug("a client has disconnected: %s", group.exceptions[0] or type(group.exceptions[0]).__name__)
        finally:
            self._clients.discard(client)
            self._update_events()

    def _update_events(self) -> None:
        """Updates the events and the observer after a client has come or gone."""
        controlling = sum(not client.readonly for client in self._clients)
        self.observer.clients, self.observer.watched = controlling, bool(self._clients)
        if controlling:
            self.visited.set()
            self.busy.set()
            self.idle.clear()
        else:
            self.busy.clear()
            self.idle.set()


async def _refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, reason: str) -> None:
    """Sends a client the reason for its refusal, and waits until it closes the connection.

    Closing a UNIX socket with unread data resets the connection, and the client might see that instead of the reason
    (Linux, net/unix/af_unix.c, `unix_release_sock`).
    """
    writer.write(protocol.frame(Bye(reason)))
    try:
        writer.write_eof()
        async with asyncio.timeout(_HELLO_TIMEOUT_S):
            while await reader.read(_BUFFER_BYTES):
                pass
    except (OSError, TimeoutError):
        return


_CHECK_INTERVAL_S = 5.0
"""Interval between checks that the socket exists: systemd removes `$XDG_RUNTIME_DIR` when the user's last login ends, and makes
an empty one at the next login (user-runtime-dir@.service)."""
_CLOSE_TIMEOUT_S = 2.0
"""Time limit for a client to read the rest while its connection is being closed."""
_MAX_ACCEPTS_AT_ONCE = 16
_BACKLOG = 1024
"""Maximum number of connections waiting to be accepted; further ones fail at once (EAGAIN, unix(7))."""
_MAX_PENDING = 32
"""Limit on connections without a `Hello` yet: further ones close the oldest, so that they cannot use up the engine's
descriptors or keep clients out."""


class Listener:
    """Listens, once created, at `path`: the first of `paths` not in use, in a folder private to this user.

    Raises `OSError` if it cannot listen.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None
        """Accepts connections until the socket is closed or replaced, whatever fails elsewhere."""
        self._socket_id: tuple[int, int] | None = None
        for path in paths:
            self.path = path
            if self._listen():
                return
        raise FileExistsError(f"{self.path} is another engine's")

    def _listen(self) -> bool:
        """Listens at the path. Returns False if it is in use. Raises `OSError`."""
        make_own(self.path.parent)
        listening = bind_socket(self.path)
        if listening is None:
            return False
        self._socket, self._socket_id = listening, _file_id(self.path)
        return True

    async def run(self, handle: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> None:
        """Accepts connections until `close`, even after cancellation; `handle` serves each. Can be called again."""
        while True:
            if self._server is None:
                assert self._socket is not None
                self._server = await asyncio.start_unix_server(handle, sock=self._socket, backlog=_MAX_ACCEPTS_AT_ONCE)
                self._socket.listen(_BACKLOG)  # asyncio's `backlog` also sets how many it accepts at once
            await asyncio.sleep(_CHECK_INTERVAL_S)
            with suppress(OSError):  # the parent folder is gone too; it may come back
                if _file_id(self.path) is None and self._listen():
                    _log.warning("%s had been removed and was recreated", self.path)
                    self._stop_server()

    def close(self) -> None:
        """Stops listening; connections stay open."""
        self._stop_server()
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            if _file_id(self.path) == self._socket_id:
                self.path.unlink(missing_ok=True)

    def _stop_server(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None


async def _close_connection(writer: asyncio.StreamWriter) -> None:
    """Closes a connection, by force if the client does not read: otherwise its descriptor and buffer would stay."""
    writer.close()
    try:
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        writer.transport.abort()


def _file_id(path: Path) -> tuple[int, int] | None:
    """Returns the device and inode of the file at `path`; None if there is none."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
