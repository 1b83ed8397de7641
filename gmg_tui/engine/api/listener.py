"""A UNIX socket at a path, which is recreated if it is removed."""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from gmg_tui.machine.folders import make_own
from gmg_tui.session import bind_socket

_log = logging.getLogger(__name__)

Visit = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Serves one connection; returns when it should be closed."""

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
    """A listening socket that accepts connections.

    Args:
        paths: Candidates; the first unused one is taken, in a folder private to this user.

    Raises:
        OSError: It cannot listen at any of them.

    Attributes:
        path: The socket's path.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self._visit: Visit
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None
        """Accepts connections until the socket is closed or replaced, whatever fails elsewhere."""
        self._identity: tuple[int, int] | None = None
        self._unknown: dict[asyncio.StreamWriter, None] = {}
        """The oldest first."""
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

    async def run(self, visit: Visit) -> None:
        """Accepts connections; `visit` serves each, and calls `identified` once it has its `Hello`.

        After cancellation, connections are still accepted until `close`; it can be called again.
        """
        self._visit = visit
        while True:
            if self._server is None:
                assert self._socket is not None
                self._server = await asyncio.start_unix_server(self._talk, sock=self._socket, backlog=_ACCEPTED_AT_ONCE)
                self._socket.listen(_BACKLOG)  # asyncio's `backlog` also sets how many it accepts at once
            await self._put_back()

    async def _put_back(self) -> None:
        """Recreates the socket whenever it is removed from its path."""
        while True:
            await asyncio.sleep(_CHECK_INTERVAL_S)
            if _identity(self.path) is not None:
                continue
            try:
                if not self._open():
                    continue
            except OSError:
                continue  # the folder above is gone too; it may come back
            _log.warning("%s had been removed and was recreated", self.path)
            self._stop_server()
            return

    def identified(self, writer: asyncio.StreamWriter) -> None:
        """Counts a connection as a client."""
        self._unknown.pop(writer, None)

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

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._unknown[writer] = None
        if len(self._unknown) > _MAX_UNKNOWN:
            oldest = next(iter(self._unknown))
            self.identified(oldest)
            oldest.transport.abort()
        try:
            await self._visit(reader, writer)
        except Exception:  # an internal error in one connection must not stop the listener
            _log.exception("a connection failed because of an internal error")
        finally:
            self.identified(writer)
            await _close_connection(writer)


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
