"""The engine's child processes: those that it has started, and the orphans that it has adopted.

The engine is the parent of its descendants' orphans (`processes.process.adopt_orphans`). A daemon that a script starts with
an environment of its own (`setsid -f env -i …`) names no slot: it is the script's that could have started it.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Children:
    """Tells the processes that the engine has started from adopted ones, and whose those may be."""

    def __init__(self) -> None:
        self._started: dict[int, asyncio.subprocess.Process] = {}
        self._starting = 0
        """How many are being started, whose PIDs are not known yet."""
        self._owners: dict[object, int] = {}
        """Who may start daemons, and since when, in clock ticks since boot."""

    async def start(self, *command: str, **options: Any) -> asyncio.subprocess.Process:
        """Start a process as `asyncio.create_subprocess_exec` does. Raises `OSError`."""
        self._started = {pid: one for pid, one in self._started.items() if one.returncode is None}
        self._starting += 1
        try:
            process = await asyncio.create_subprocess_exec(*command, **options)
            self._started[process.pid] = process
        finally:
            self._starting -= 1
        return process

    @property
    def starting(self) -> bool:
        """Whether a process is being started, which cannot be told from an adopted one yet."""
        return self._starting > 0

    def adopted(self, pid: int) -> bool:
        """Whether a child of the engine is known not to have been started by it."""
        started = self._started.get(pid)
        return not self.starting and (started is None or started.returncode is not None)

    def begin(self, owner: object) -> int:
        """From now on `owner` may start daemons. Returns the moment in clock ticks since boot, as `/proc` has it."""
        self._owners[owner] = moment = int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS_PER_S)
        return moment

    def end(self, owner: object) -> None:
        """`owner` starts nothing any more; what it has started may still be there."""
        self._owners.pop(owner, None)

    def others_possible(self, owner: object, started_ticks: int) -> bool:
        """Whether anybody beside `owner` may have started a process that began then."""
        return any(since <= started_ticks for other, since in self._owners.items() if other is not owner)
