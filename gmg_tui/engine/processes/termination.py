"""Ends an attempt's processes, step by step."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence

from gmg_tui import units
from gmg_tui.engine.processes import process_tree
from gmg_tui.engine.processes.process import Process, Step

TERMINATED = (-signal.SIGTERM, 128 + signal.SIGTERM)
"""Exit codes of a process that SIGTERM has ended, and of a shell whose command it has."""
KILL: tuple[Step, ...] = ((signal.SIGKILL, 5.0),)
LEFTOVERS: tuple[Step, ...] = ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))
"""For processes that outlive the script; they have had its whole run to end."""


class Termination:
    """Sends the signals, and reports what it waits for and what survives.

    Attributes:
        sent: The last signal and how long its effect is waited for; None before the first.
        survivors: The processes stuck in the kernel, in one line; None when none is left.
    """

    def __init__(self, process: Process, changed: Callable[[], None]) -> None:
        self.sent: str | None = None
        self.survivors: str | None = None
        self._process = process
        self._changed = changed
        self._task: asyncio.Task[list[process_tree.Proc]] | None = None

    @property
    def begun(self) -> bool:
        """Whether it has begun."""
        return self._task is not None

    def begin(self, steps: Sequence[Step]) -> None:
        """Send the signals of `steps`; only `KILL` replaces others that are being sent."""
        if self._task is not None:
            if steps is not KILL:
                return
            self._task.cancel()
        self._task = asyncio.create_task(self._process.end(steps, self._told))
        self._task.add_done_callback(self._done)

    async def wait(self) -> None:
        """Wait until all processes have ended, or are stuck in the kernel."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])  # a kill may have replaced it

    def _told(self, number: signal.Signals, wait_s: float) -> None:
        self.sent = f"{number.name} sent, waiting up to {units.span(wait_s)}"
        self._changed()

    def _done(self, termination: asyncio.Task[list[process_tree.Proc]]) -> None:
        if termination.cancelled() or termination.exception() is not None or not termination.result():
            return
        pids = ", ".join(f"{proc.pid} (state {proc.state})" for proc in termination.result())
        self.survivors = f"survives SIGKILL: process {pids}; the kernel does not let it go"
        self._changed()
