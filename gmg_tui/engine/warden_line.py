"""The engine's end of the pipe to its warden."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

_log = logging.getLogger(__name__)


class WardenLine:
    """Starts the warden (`warden.py`) and tells it which process groups live."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, session: str) -> None:
        """Start the warden of the session called `session`; without one, an engine that is killed leaves its workers."""
        program = str(Path(__file__).with_name("warden.py"))
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", program, session),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                start_new_session=True,  # what ends the engine's group must not end the warden
            )
        except OSError as error:
            _log.warning("no warden: %s; workers would outlive an engine that is killed", error)

    def began(self, group: int) -> None:
        """A process group has begun."""
        self._tell(f"+{group}\n")

    def ended(self, group: int) -> None:
        """A process group has ended, with all in it."""
        self._tell(f"-{group}\n")

    def _tell(self, line: str) -> None:
        if self._process is None or self._process.stdin is None or self._process.stdin.is_closing():
            return
        self._process.stdin.write(line.encode())

    async def close(self) -> None:
        """The engine ends in order: so does the warden."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            await self._process.wait()
