"""A rank's restart policy: its next attempt is due when its group's is."""

from __future__ import annotations

import asyncio

from gmg_tui.engine.workers.restart_policy import RestartPolicy
from gmg_tui.genesis.output.failures import Failure


class RankPolicy(RestartPolicy):
    """Hands on what the user wants to the group's policy, which decides for all ranks."""

    def __init__(self, group: RestartPolicy) -> None:
        self._group = group
        self._due = asyncio.Event()

    @property
    def at(self) -> float | None:
        """When the group's next attempt starts automatically, monotonic seconds; None when none does."""
        return self._group.at

    @property
    def pending(self) -> bool:
        """Whether another attempt follows."""
        return self._due.is_set() or self._group.pending

    def begin(self) -> None:
        """The group's next attempt begins."""
        self._due.set()

    async def wait(self) -> None:
        """Wait until the group's next attempt begins."""
        await self._due.wait()
        self._due.clear()

    def now(self) -> None:
        """The user wants another attempt of the group."""
        self._group.now()

    def begun(self) -> None:
        """Other ranks may have been prepared before the group's next attempt was wanted."""

    def never(self) -> None:
        """No other attempt of the group is wanted."""
        self._group.never()

    def replace_stuck(self) -> bool:
        """The group is replaced as a whole, not a rank."""
        return False

    def after(self, failure: Failure | None, *, had_progress: bool, running_s: float) -> None:
        """The group has decided."""

    def cancel_backoff(self) -> None:
        """Cancel the back-off of the group's next attempt."""
        self._group.cancel_backoff()
