"""How an attempt's processes are brought to their end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence

from gmg_tui import units
from gmg_tui.engine import proctree
from gmg_tui.engine.process import Process, Step

KILL: tuple[Step, ...] = ((signal.SIGKILL, 5.0),)
LEFTOVERS: tuple[Step, ...] = ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))
"""For processes that outlive the script; they have had its whole time to end."""


class Ending:
    """Sends the signals, and says what is waited for and what survives.

    Args:
        process: The attempt's.
        changed: Called when something that is shown has changed.

    Attributes:
        sent: Which signal was sent and how long it is waited for; None before the first.
        survivors: What the kernel does not let go; None where nothing is left.
    """

    def __init__(self, process: Process, changed: Callable[[], None]) -> None:
        self.sent: str | None = None
        self.survivors: str | None = None
        self._process = process
        self._changed = changed
        self._task: asyncio.Task[list[proctree.Proc]] | None = None

    @property
    def begun(self) -> bool:
        """Whether any signal was asked for."""
        return self._task is not None

    def begin(self, steps: Sequence[Step]) -> None:
        """Send the signals of `steps`; where others are being sent already, only `KILL` takes their place."""
        if self._task is not None:
            if steps is not KILL:
                return
            self._task.cancel()
        self._task = asyncio.create_task(self._process.end(steps, self._told))
        self._task.add_done_callback(self._done)

    async def wait(self) -> None:
        """Wait until everything has ended that was asked for, or the kernel does not let it go."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])  # a kill may have put another one in its place

    def _told(self, number: signal.Signals, wait_s: float) -> None:
        self.sent = f"{number.name} sent, waiting up to {units.span(wait_s)}"
        self._changed()

    def _done(self, ending: asyncio.Task[list[proctree.Proc]]) -> None:
        if ending.cancelled() or ending.exception() is not None or not ending.result():
            return
        pids = ", ".join(f"{proc.pid} (state {proc.state})" for proc in ending.result())
        self.survivors = f"survives SIGKILL: process {pids}; the kernel does not let it go"
        self._changed()
