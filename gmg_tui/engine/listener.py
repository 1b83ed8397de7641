"""The engine's door: a UNIX socket at a path, which is put back when somebody removes it."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

_log = logging.getLogger(__name__)

Visit = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Talks to one connection; returns when it is to be closed."""

_BACKLOG = 128
_LOOK_S = 1.0
"""How often the path is looked at. The folder goes when the user's last login ends: systemd removes
`$XDG_RUNTIME_DIR` then, and makes an empty one at the next login (user-runtime-dir@.service)."""
_PAUSE_S = 1.0
"""After an accept that failed for want of descriptors."""
_LAST_WORDS_S = 2.0
"""How long a connection that is being closed may take to hear what was said to it."""
_MAX_UNKNOWN = 32
"""Connections whose other side nobody knows yet; of more than that the oldest are cut, so that a crowd of them takes
neither the engine's descriptors nor the place of a client."""


class Listener:
    """Accepts connections at `path`.

    Args:
        path: Where; in a folder that is made for this user alone.
        visit: Talks to each connection, and calls `known` once it knows whose it is.
    """

    def __init__(self, path: Path, visit: Visit) -> None:
        self._path = path
        self._visit = visit
        self._socket: socket.socket | None = None
        self._place: tuple[int, int] | None = None
        self._unknown: dict[asyncio.StreamWriter, None] = {}
        """The oldest first."""
        self._visits: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """Begin to listen. Raises `OSError`."""
        _own_folder(self._path.parent)
        if self._path.is_socket():
            self._path.unlink()  # a killed engine's
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listening.setblocking(False)
            listening.bind(str(self._path))
            self._path.chmod(0o600)
            listening.listen(_BACKLOG)
            self._place = _place(self._path)
        except OSError:
            listening.close()
            raise
        self._socket = listening

    async def run(self) -> None:
        """Accept connections until cancelled."""
        while True:
            listening = self._socket
            assert listening is not None
            accepting = asyncio.create_task(self._accept(listening))
            try:
                await self._put_back()
            finally:
                accepting.cancel()
                await asyncio.wait([accepting])
            listening.close()

    async def _put_back(self) -> None:
        """Wait until the socket is gone from its path, and listen there anew."""
        while True:
            await asyncio.sleep(_LOOK_S)
            if _place(self._path) is not None:
                continue
            try:
                self.open()
            except OSError:
                continue  # the folder above is gone too; it may come back
            _log.warning("%s had been removed; it is there again", self._path)
            return

    def known(self, writer: asyncio.StreamWriter) -> None:
        """Whose this connection is, is known; it does not count as one of a crowd any more."""
        self._unknown.pop(writer, None)

    def close(self) -> None:
        """Stop listening; connections go on."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            if _place(self._path) == self._place:
                self._path.unlink(missing_ok=True)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listening)
                reader, writer = await asyncio.open_unix_connection(sock=connection)
            except OSError as error:
                _log.warning("a connection was not accepted: %s", error)
                await asyncio.sleep(_PAUSE_S)
                continue
            self._unknown[writer] = None
            if len(self._unknown) > _MAX_UNKNOWN:
                oldest = next(iter(self._unknown))
                self.known(oldest)
                oldest.transport.abort()
            task = asyncio.create_task(self._talk(reader, writer))
            self._visits.add(task)
            task.add_done_callback(self._visits.discard)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._visit(reader, writer)
        except Exception:  # a fault of ours in one visit must not close the door
            _log.exception("a connection broke off")
        finally:
            self.known(writer)
            await _part(writer)


async def _part(writer: asyncio.StreamWriter) -> None:
    """Close a connection; one whose other side does not read is cut, or it would keep its descriptor and its buffer."""
    writer.close()
    try:
        async with asyncio.timeout(_LAST_WORDS_S):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        writer.transport.abort()


def _own_folder(folder: Path) -> None:
    """Make `folder` for this user alone. Raises `OSError` when it cannot be made or belongs to somebody else."""
    folder.mkdir(mode=0o700, exist_ok=True)
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to somebody else")


def _place(path: Path) -> tuple[int, int] | None:
    """What names the file at `path` for ever: device and inode; None where there is none."""
    try:
        about = path.lstat()
    except OSError:
        return None
    return about.st_dev, about.st_ino
