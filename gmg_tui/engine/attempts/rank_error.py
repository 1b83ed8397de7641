"""Reads what a rank has recorded of its exception, without waiting for ever for the disk."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from gmg_tui.ddp import error_file
from gmg_tui.engine.daemon_thread import in_daemon_thread

_log = logging.getLogger(__name__)

_DISK_S = 10.0
"""How long the disk may take to give the file."""


async def recorded_in(path: Path) -> error_file.Recorded | None:
    """What a rank has recorded in its error file; None where it has nothing, or the disk does not answer in time."""
    try:
        async with asyncio.timeout(_DISK_S):
            return await in_daemon_thread(error_file.read, path)
    except TimeoutError:
        _log.warning("%s: the disk does not answer; what the rank recorded there is not read", path)
        return None
