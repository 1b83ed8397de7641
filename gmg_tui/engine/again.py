"""Whether and when the next attempt of a worker starts."""

from __future__ import annotations

import asyncio
import time

from gmg_tui.engine import policy
from gmg_tui.engine.task import Task
from gmg_tui.genesis.failures import Failure
from gmg_tui.model import RestartWhen


class Again:
    """Counts a worker's attempts against what its task allows. The first attempt is wanted from the beginning.

    Attributes:
        at: When the next attempt starts by itself, monotonic seconds; None when none does.
    """

    def __init__(self, task: Task) -> None:
        self.at: float | None = None
        self._task = task
        self._wanted = asyncio.Event()
        self._wanted.set()
        self._timer: asyncio.TimerHandle | None = None
        self._restarts = 0
        """Without a person's doing, since the last healthy attempt."""
        self._retries = 0

    @property
    def pending(self) -> bool:
        """Whether another attempt follows, at once or later."""
        return self._wanted.is_set() or self.at is not None

    async def wait(self) -> None:
        """Wait until an attempt is wanted; from then on it is no more."""
        await self._wanted.wait()
        self._wanted.clear()
        self.forget_pause()

    def now(self) -> None:
        """A person wants another attempt; what went before is forgiven."""
        self._restarts = self._retries = 0
        self.forget_pause()
        self._wanted.set()

    def never(self) -> None:
        """No other attempt is wanted."""
        self.forget_pause()
        self._wanted.clear()

    def instead(self) -> bool:
        """Have another attempt take the place of one that is stuck. Returns whether one is left."""
        if self._restarts >= self._task.max_restarts:
            return False
        self._restarts += 1
        self._wanted.set()
        return True

    def after(self, failure: Failure | None, *, had_progress: bool, running_s: float) -> None:
        """An attempt has ended by itself: have another follow, if the policy asks for one or a retry is left.

        Args:
            failure: Why it failed; None when it has finished.
            had_progress: Whether it had reported progress.
            running_s: How long it was in its running phase, seconds.
        """
        if running_s >= policy.HEALTHY_S:
            self._restarts = 0
        if self._wanted.is_set():
            return
        task, kind = self._task, failure.kind if failure is not None else None
        if self._restarts < task.max_restarts and policy.wanted(task.restart, kind, had_progress=had_progress):
            self._later(policy.pause_s(self._restarts))
            self._restarts += 1
        elif self._retries < task.retries and policy.wanted(RestartWhen.FAILURE, kind, had_progress=had_progress):
            self._later(policy.pause_s(self._retries))
            self._retries += 1

    def _later(self, pause_s: float) -> None:
        self.at = time.monotonic() + pause_s
        self._timer = asyncio.get_running_loop().call_later(pause_s, self._wanted.set)

    def forget_pause(self) -> None:
        """Do not start by itself what waits for its time."""
        self.at = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
