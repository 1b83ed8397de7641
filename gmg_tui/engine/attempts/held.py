"""Holds an attempt that is ready to build its scene until the gate is open."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from gmg_tui.engine.attempts.gate import Gate
from gmg_tui.engine.processes.process import Process
from gmg_tui.model import Phase


class Held:
    """Stops an attempt's processes (SIGSTOP) while the gate says so, at most once.

    Without a gate nothing is held: the user has told the attempt not to wait.

    Attributes:
        reason: What it is held for, in one line; None while it is not held.
        phase: The phase in which it was held, whose duration therefore means nothing; None before.
    """

    def __init__(self, process: Process, slot: str, gate: Gate | None, changed: Callable[[], None]) -> None:
        self.reason: str | None = None
        self.phase: Phase | None = None
        self._process = process
        self._slot = slot
        self._gate = gate
        self._changed = changed
        self._began = 0.0
        self._before_s = 0.0
        self._waiting: asyncio.Task[None] | None = None

    @property
    def total_s(self) -> float:
        """How long it has been held, seconds."""
        return time.monotonic() - self._began if self.reason is not None else self._before_s

    def heard(self, phase: Phase) -> None:
        """The script has reached `phase`: hold it there, if the gate says so."""
        if self._gate is None or self._waiting is not None:
            return
        awaited = self._gate.holds(self._slot, phase)
        if awaited is None:
            return
        self._process.pause()
        self.phase, self._began = phase, time.monotonic()
        self._say(awaited)
        self._waiting = asyncio.create_task(self._until_open(self._gate))

    async def _until_open(self, gate: Gate) -> None:
        await gate.opened(self._slot, self._say)
        self._continue()

    def _say(self, awaited: str) -> None:
        reason = f"held {awaited}"
        if reason != self.reason:
            self.reason = reason
            self._changed()

    def release(self) -> bool:
        """Let it continue at once. Returns whether it was held."""
        if self.reason is None or self._waiting is None:
            return False
        self._waiting.cancel()
        self._continue()
        return True

    def _continue(self) -> None:
        self._before_s = self.total_s
        self.reason = None
        self._process.resume()
        self._changed()
