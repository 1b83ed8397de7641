"""Starts the watchdog, and keeps it up to date."""

import asyncio
import contextlib
import logging
import sys
from pathlib import Path

from gmg_tui.machine import processes

_log = logging.getLogger(__name__)

_END_TIMEOUT_S = 12.0
"""Time limit for the watchdog's end, longer than its own time limits for unkillable processes."""
_REPLACE_PAUSE_S = 1.0
"""Pause before replacing a killed watchdog."""
_RETRY_PAUSE_S = 10.0
"""Pause after a failed start."""


class WatchdogClient:
    """Starts the watchdog (`process.py`), sends it the live process groups, and replaces it if it is killed."""

    def __init__(self) -> None:
        self._session_id = ""
        self._process: asyncio.subprocess.Process | None = None
        self._groups: dict[int, int] = {}
        """Start times of the live groups' leaders, by PID."""
        self._max_silence_s: float | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, session_id: str, max_silence_s: float | None = None) -> None:
        """Starts the watchdog of the session with this ID, which also ends the workers of an engine that hangs so long."""
        self._session_id, self._max_silence_s = session_id, max_silence_s
        await self._spawn()
        self._send_all()
        self._tasks = [asyncio.create_task(self._watch())]
        if max_silence_s is not None:
            self._tasks.append(asyncio.create_task(self._send_signs_of_life(max_silence_s / 10)))

    async def _spawn(self) -> None:
        args = [str(Path(__file__).with_name("process.py"))]
        if self._max_silence_s is not None:
            args.append(str(self._max_silence_s))
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", *args),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                start_new_session=True,  # must survive signals to the engine's group
            )
        except (OSError, RuntimeError) as error:  # `RuntimeError`: no thread can be started
            _log.warning("no watchdog: %s; workers would survive if the engine were killed", error)
        self._send(f"{self._session_id}\n")

    async def _watch(self) -> None:
        while True:
            pause_s = _RETRY_PAUSE_S
            if self._process is not None:
                exit_code = await self._process.wait()
                _log.warning("the watchdog has ended (%d) and is being replaced", exit_code)
                self._process, pause_s = None, _REPLACE_PAUSE_S
            await asyncio.sleep(pause_s)
            await self._spawn()
            self._send_all()

    async def _send_signs_of_life(self, interval_s: float) -> None:
        while True:
            self._send("\n")
            await asyncio.sleep(interval_s)

    def _send_all(self) -> None:
        for group, start in self._groups.items():
            self._send(f"+{group} {start}\n")

    def add_group(self, group: int) -> None:
        """Records a new process group."""
        proc = processes.read(group)
        self._groups[group] = proc.started_ticks if proc is not None else 0
        self._send(f"+{group} {self._groups[group]}\n")

    def remove_group(self, group: int) -> None:
        """Records that all processes of a group have ended."""
        if (start := self._groups.pop(group, None)) is not None:
            self._send(f"-{group} {start}\n")

    def _send(self, line: str) -> None:
        if self._process is None or self._process.stdin is None or self._process.stdin.is_closing():
            return
        self._process.stdin.write(line.encode())

    async def close(self) -> None:
        """Ends the watchdog, which ends leftover workers first."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END_TIMEOUT_S):
                    await self._process.wait()
