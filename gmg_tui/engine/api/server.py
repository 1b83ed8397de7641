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
        """Set once a client watches."""
        self._updates = Updates(observer.snapshot)
        self._clients: set[Client] = set()
        self._soon = asyncio.Event()
        self._lines_due = 0.0
        """Time at which lines may be sent again, by the loop's clock."""
        self._listener = listener
        self._unknown: dict[asyncio.StreamWriter, None] = {}
        """The connections without a `Hello`, the oldest first."""

    def soon(self) -> None:
        """Schedules a snapshot after a change of state."""
        self._soon.set()

    async def run(self) -> None:
        """Serves clients until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listener.run(self._talk))
            tasks.create_task(self._send_soon())

    async def _send_soon(self) -> None:
        while True:
            await self._soon.wait()
            await asyncio.sleep(_SNAPSHOT_DELAY_S)
            self._soon.clear()
            self.send()

    def send(self, snapshot: Snapshot | None = None) -> None:
        """Sends all clients a snapshot, the given or a new one, and new lines to those that get lines."""
        self._updates.expire(snapshot)
        for client in self._clients:
            client.snapshot_due = True
            client.wake.set()

    def send_lines(self) -> None:
        """Sends new lines to the clients that get them, at most every `_MIN_LINES_GAP_S`."""
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

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._unknown[writer] = None
        if len(self._unknown) > _MAX_UNKNOWN:
            oldest = next(iter(self._unknown))
            del self._unknown[oldest]
            oldest.transport.abort()
        try:
            await self._connected(reader, writer)
        except Exception:  # an internal error in one connection must not stop the listener
            _log.exception("a connection failed because of an internal error")
        finally:
            self._unknown.pop(writer, None)
            await _close_connection(writer)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            stranger = peer_credentials(writer.get_extra_info("socket"))[1] != os.getuid()
            hello = None if stranger else await self._hello(reader)
        except (OSError, EOFError) as error:
            _log.debug("a connection was closed before its hello: %s", error or type(error).__name__)
            return
        refusal = "this session belongs to another user" if hello is None else self._misfit(hello)
        if refusal is not None or hello is None:
            await _turn_away(reader, writer, refusal or "")
            return
        self._unknown.pop(writer, None)
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


_CHECK_INTERVAL_S = 5.0
"""Interval of checks of the path. The folder goes when the user's last login ends: systemd removes
`$XDG_RUNTIME_DIR` then, and makes an empty one at the next login (user-runtime-dir@.service)."""
_CLOSE_TIMEOUT_S = 2.0
"""Time limit for a connection that is being closed to read the rest."""
_ACCEPTED_AT_ONCE = 16
_BACKLOG = 1024
"""Connections waiting to be accepted; further ones fail at once (EAGAIN, unix(7))."""
_MAX_UNKNOWN = 32
"""Connections without a `Hello` yet; beyond this the oldest are closed, so that they cannot use up the engine's
descriptors or keep clients out."""


class Listener:
    """Listens from its creation on at `path`, the first unused one of `paths`, in a folder private to this user.

    Raises `OSError` if it cannot.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None
        """Accepts connections until the socket is closed or replaced, whatever fails elsewhere."""
        self._identity: tuple[int, int] | None = None
        for path in paths:
            self.path = path
            if self._open():
                return
        raise FileExistsError(f"{self.path} is another engine's")

    def _open(self) -> bool:
        """Listens at the path, unless it is in use. Raises `OSError`."""
        make_own(self.path.parent)
        listening = bind_socket(self.path)
        if listening is None:
            return False
        self._socket, self._identity = listening, _identity(self.path)
        return True

    async def run(self, talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> None:
        """Accepts connections, also after it was cancelled, until `close`; `talk` serves each. It can be called again."""
        while True:
            if self._server is None:
                assert self._socket is not None
                self._server = await asyncio.start_unix_server(talk, sock=self._socket, backlog=_ACCEPTED_AT_ONCE)
                self._socket.listen(_BACKLOG)  # asyncio's `backlog` also sets how many it accepts at once
            await asyncio.sleep(_CHECK_INTERVAL_S)
            with suppress(OSError):  # the folder above is gone too; it may come back
                if _identity(self.path) is None and self._open():
                    _log.warning("%s had been removed and was recreated", self.path)
                    self._stop_server()

    def close(self) -> None:
        """Stops listening; connections stay open."""
        self._stop_server()
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            if _identity(self.path) == self._identity:
                self.path.unlink(missing_ok=True)

    def _stop_server(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None


async def _close_connection(writer: asyncio.StreamWriter) -> None:
    """Closes a connection, by force if the client does not read: it would keep its descriptor and buffer."""
    writer.close()
    try:
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        writer.transport.abort()


def _identity(path: Path) -> tuple[int, int] | None:
    """Returns the device and inode of the file at `path`; None if there is none."""
    try:
        about = path.lstat()
    except OSError:
        return None
    return about.st_dev, about.st_ino
