"""Where engines listen: sockets in a folder that the sessions of several state folders share."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

from gmg_tui import session as sessions
from gmg_tui.model import RunSpec

_ALONE_S = 1.0
"""How long another process may take to claim or remove a socket; one that is stopped meanwhile is not waited for."""
_LOOK_S = 0.01
_BACKLOG = 128


def candidates(spec: RunSpec) -> Iterator[Path]:
    """Where the engine of a session may listen: `NAME.sock`, and where a namesake of another state folder is.

    Raises:
        GmgError: There is no place for the second one.
    """
    yield Path(spec.socket)
    yield sessions.socket_path(f"{spec.name}-{zlib.crc32(os.fsencode(spec.folder)):08x}")


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep other processes from claiming and removing sockets in `folder`. Raises `OSError`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    deadline = time.monotonic() + _ALONE_S
    try:
        while time.monotonic() < deadline:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_LOOK_S)  # nothing tells
            else:
                break
        yield
    finally:
        os.close(descriptor)


def is_listened_at(path: Path) -> bool:
    """Whether a process listens at a socket, though it may be stopped. Raises `OSError` when that cannot be known."""
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)
        try:
            client.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except BlockingIOError:
            return True  # it does not accept as fast as others connect
    return True


def bind(path: Path) -> socket.socket | None:
    """Bind a socket of this user alone, and listen; None when something else is there that is in use, or no socket.

    A socket that a killed engine has left is replaced.

    Raises:
        OSError: It cannot be made there.
    """
    with alone_in(path.parent):
        if path.is_socket() and not is_listened_at(path):
            path.unlink(missing_ok=True)
        if os.path.lexists(path):
            return None
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listening.setblocking(False)
            listening.bind(str(path))
            path.chmod(0o600)
            listening.listen(_BACKLOG)
        except OSError:
            listening.close()
            raise
    return listening


def remove_stale(path: Path) -> None:
    """Remove a socket at which nobody listens any more. Raises `OSError`."""
    with alone_in(path.parent):
        if path.is_socket() and not is_listened_at(path):
            path.unlink(missing_ok=True)
