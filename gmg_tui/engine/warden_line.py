"""The engine's end of the pipe to its warden."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from pathlib import Path

_log = logging.getLogger(__name__)

_PAUSE_S = 1.0
"""After the end of a warden that was killed."""


class WardenLine:
    """Starts the warden (`warden.py`), tells it which process groups live, and replaces one that is killed."""

    def __init__(self) -> None:
        self._session = ""
        self._process: asyncio.subprocess.Process | None = None
        self._groups: set[int] = set()
        self._watching: asyncio.Task[None] | None = None

    async def start(self, session: str) -> None:
        """Start the warden of the session called `session`; without one, an engine that is killed leaves its workers."""
        self._session = session
        await self._spawn()
        self._watching = asyncio.create_task(self._watch())

    async def _spawn(self) -> None:
        program = str(Path(__file__).with_name("warden.py"))
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", program, self._session),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                start_new_session=True,  # what ends the engine's group must not end the warden
            )
        except OSError as error:
            _log.warning("no warden: %s; workers would outlive an engine that is killed", error)

    async def _watch(self) -> None:
        while self._process is not None:
            exit_code = await self._process.wait()
            _log.warning("the warden has ended (%d); another takes its place", exit_code)
            await asyncio.sleep(_PAUSE_S)
            self._process = None
            await self._spawn()
            for group in self._groups:
                self._tell(f"+{group}\n")

    def began(self, group: int) -> None:
        """A process group has begun."""
        self._groups.add(group)
        self._tell(f"+{group}\n")

    def ended(self, group: int) -> None:
        """A process group has ended, with all in it."""
        self._groups.discard(group)
        self._tell(f"-{group}\n")

    def _tell(self, line: str) -> None:
        if self._process is None or self._process.stdin is None or self._process.stdin.is_closing():
            return
        self._process.stdin.write(line.encode())

    async def close(self) -> None:
        """The engine ends in order: so does the warden."""
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            await self._process.wait()
