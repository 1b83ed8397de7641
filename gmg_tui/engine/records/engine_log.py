"""The engine's own log and lock, both its standard error; recreated when somebody removes the session's folder."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from gmg_tui import session as sessions
from gmg_tui.engine.output.logs import MISSING, Log
from gmg_tui.files import make_private

_STDERR = 2


class EngineLog(Log):
    """The engine's own log; it stays open."""

    def append(self, data: bytes, left_out: int) -> None:
        """As `Log.append`; if the disk refuses it, there is nowhere left to report that."""
        missing = f"[gmg-tui] {left_out:,} bytes are missing here: {MISSING}\n".encode() if left_out else b""
        with contextlib.suppress(OSError):
            os.write(_STDERR, missing + data)


def lock(folder: Path) -> None:
    """Lock the session and send standard error to the engine's log, for the life of this process.

    The lock belongs to the open file, which is standard error.
    Raises `GmgError` when another engine has locked it, `OSError` when the folder is missing or cannot be written.
    """
    descriptor = sessions.lock(folder)
    os.dup2(descriptor, _STDERR)
    os.close(descriptor)


def put_back(folder: Path) -> bool:
    """Recreate the session's folder, its log and its lock if they were removed. Returns whether they had been.

    Raises `GmgError` when another engine has locked the folder meanwhile, `OSError` when it cannot be made.
    """
    if os.fstat(_STDERR).st_nlink > 0:
        return False
    make_private(folder / sessions.LOGS)
    lock(folder)
    return True
