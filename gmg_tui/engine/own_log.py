"""The engine's own log and lock, which is its standard error; put back when somebody removes the session's folder."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from gmg_tui import session as sessions
from gmg_tui.files import make_private

_STDERR = 2


class StandardError:
    """Where the engine's own log is written to; a `Sink` of `logs`."""

    trouble: str | None = None

    def write(self, data: bytes) -> None:
        """Append `data`; a disk that refuses it leaves nowhere to say so."""
        with contextlib.suppress(OSError):
            os.write(_STDERR, data)

    def skip(self, size: int, why: str) -> None:
        """Say that `size` bytes are missing, and why."""
        self.write(f"[gmg-tui] {size:,} bytes are missing here: {why}\n".encode())

    def close(self) -> None:
        """It stays open."""


def hold(folder: Path) -> None:
    """Take the session's lock, and send standard error to the engine's log, for the life of this process.

    The lock belongs to the open file, so standard error holds it.

    Raises:
        GmgError: Another engine holds it.
        OSError: The folder is missing or cannot be written.
    """
    descriptor = sessions.hold(folder)
    os.dup2(descriptor, _STDERR)
    os.close(descriptor)


def put_back(folder: Path) -> bool:
    """Make the session's folder, its log and its lock anew if they were removed.

    Returns:
        Whether they had been.

    Raises:
        GmgError: Another engine has made the folder its own meanwhile.
        OSError: The folder cannot be made.
    """
    if os.fstat(_STDERR).st_nlink > 0:
        return False
    make_private(folder / sessions.LOGS)
    hold(folder)
    return True
