"""`gmg-tui node-logs`, which `collect` runs on each node."""

from __future__ import annotations

import shutil
import sys
import tarfile

from gmg_tui import session as sessions
from gmg_tui.errors import GmgError


def node_logs(name: str) -> int:
    """Write an agent's logs to standard output as an archive, and remove its folder once they are written; the exit status."""
    folder = sessions.nodes_folder() / name
    if folder.parent != sessions.nodes_folder() or not folder.is_dir():
        return 0
    if sessions.is_locked(folder):
        raise GmgError("its agent is running")
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:
        logs = folder / sessions.LOGS
        if logs.is_dir():
            archive.add(logs, sessions.LOGS)
    sys.stdout.flush()
    shutil.rmtree(folder, ignore_errors=True)
    return 0
