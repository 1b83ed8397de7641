"""Sockets of engines, in a folder that the sessions of several state folders share."""

from __future__ import annotations

import os
import socket
import zlib
from collections.abc import Iterator
from pathlib import Path

from gmg_tui.model import RunSpec
from gmg_tui.session.paths import socket_path

_BACKLOG = 128


def candidates(spec: RunSpec) -> Iterator[Path]:
    """Where the engine of a session may listen: `NAME.sock`, or beside a namesake of another state folder.

    Raises:
        GmgError: There is no folder for the second one.
    """
    yield Path(spec.socket)
    yield socket_path(f"{spec.name}-{zlib.crc32(os.fsencode(spec.folder)):08x}")


def is_listened_at(path: Path) -> bool:
    """Whether a process, which may be stopped, listens at a socket. Raises `OSError` when that cannot be determined."""
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
    """Bind a socket for this user alone, replacing that of a killed engine, and listen; None if the path is in use.

    Raises:
        OSError: It cannot be made there.
    """
    remove_stale(path)
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
    """Remove a socket at which no process listens; an engine that it hits makes its own again. Raises `OSError`."""
    if path.is_socket() and not is_listened_at(path):
        path.unlink(missing_ok=True)
