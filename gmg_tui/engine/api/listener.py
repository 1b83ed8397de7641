"""A UNIX socket at a path, which is recreated when somebody removes it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from gmg_tui import sockets

_log = logging.getLogger(__name__)

Visit = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Serves one connection; returns when it should be closed."""

_CHECK_S = 5.0
"""How often the path is checked. The folder goes when the user's last login ends: systemd removes
`$XDG_RUNTIME_DIR` then, and makes an empty one at the next login (user-runtime-dir@.service)."""
_PAUSE_S = 1.0
"""After an accept that failed for lack of descriptors."""
_LAST_WORDS_S = 2.0
"""How long a connection that is being closed may take to read the rest."""
_MAX_UNKNOWN = 32
"""Connections that have not said hello; beyond this the oldest are cut, so that they cannot use up the engine's
descriptors or keep clients out."""


class Listener:
    """Listens from its creation on, and accepts connections.

    Args:
        paths: Where: at the first that nobody else uses, in folders that are made for this user alone.
        group: The number of a group whose users may connect too; the folder is then the socket's alone, and removed
            with it.

    Raises:
        OSError: It cannot listen at any of them.

    Attributes:
        path: Where it listens.
    """

    def __init__(self, paths: Iterable[Path], *, group: int | None = None) -> None:
        self._visit: Visit
        self._socket: socket.socket | None = None
        self._identity: tuple[int, int] | None = None
        self._unknown: dict[asyncio.StreamWriter, None] = {}
        """The oldest first."""
        self._visits: set[asyncio.Task[None]] = set()
        self._group = group
        for path in paths:
            self.path = path
            if self._open():
                return
        raise FileExistsError(f"{self.path} is another engine's")

    def _open(self) -> bool:
        """Listen at the path, unless somebody else does. Raises `OSError`."""
        _own_folder(self.path.parent)
        listening = sockets.bind(self.path)
        if listening is None:
            return False
        self._socket, self._identity = listening, _identity(self.path)
        if self._group is not None:
            try:
                _admit(self._group, self.path)
            except OSError:
                self.close()
                raise
        return True

    async def run(self, visit: Visit) -> None:
        """Accept connections until cancelled; `visit` serves each, and calls `known` once it knows whose it is."""
        self._visit = visit
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
        """Wait until the socket is gone from its path, and listen there again."""
        while True:
            await asyncio.sleep(_CHECK_S)
            if _identity(self.path) is not None:
                continue
            try:
                if not self._open():
                    continue
            except OSError:
                continue  # the folder above is gone too; it may come back
            _log.warning("%s had been removed and was recreated", self.path)
            return

    def known(self, writer: asyncio.StreamWriter) -> None:
        """The connection is a client's, and no longer counts as unknown."""
        self._unknown.pop(writer, None)

    def close(self) -> None:
        """Stop listening; connections stay open."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            if _identity(self.path) == self._identity:
                self.path.unlink(missing_ok=True)
            if self._group is not None:
                with contextlib.suppress(OSError):  # something else is in it
                    self.path.parent.rmdir()

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
        except Exception:  # an internal error in one connection must not stop the listener
            _log.exception("a connection failed because of an internal error")
        finally:
            self.known(writer)
            await _part(writer)


async def _part(writer: asyncio.StreamWriter) -> None:
    """Close a connection; if its other side does not read, it is cut, or it would keep its descriptor and buffer."""
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


def _admit(group: int, path: Path) -> None:
    """Let the users of a group connect to the socket, whose folder they may enter, but not list. Raises `OSError`."""
    os.chown(path, -1, group)
    path.chmod(0o660)
    os.chown(path.parent, -1, group)
    path.parent.chmod(0o710)


def _identity(path: Path) -> tuple[int, int] | None:
    """Device and inode of the file at `path`; None if there is none."""
    try:
        about = path.lstat()
    except OSError:
        return None
    return about.st_dev, about.st_ino
