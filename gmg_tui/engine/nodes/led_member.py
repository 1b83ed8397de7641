"""A rank's place in its group on an agent: the group is the session's engine's, which is told and asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gmg_tui.ddp.variables import Meeting
from gmg_tui.engine.workers.member import Outcome
from gmg_tui.engine.workers.restart_policy import RestartPolicy
from gmg_tui.genesis.output.failures import Failure
from gmg_tui.model import Rank


class LedPolicy(RestartPolicy):
    """The next attempt is due when the session's engine says so."""

    def __init__(self) -> None:
        self._due = asyncio.Event()
        self.follows = False
        """Whether the engine has said that another attempt follows."""

    @property
    def at(self) -> float | None:
        """The engine tells clients itself."""
        return None

    @property
    def pending(self) -> bool:
        """Whether another attempt follows."""
        return self._due.is_set() or self.follows

    def due(self) -> None:
        """The group's next attempt begins."""
        self.follows = False
        self._due.set()

    async def wait(self) -> None:
        """Wait until the group's next attempt begins."""
        await self._due.wait()
        self._due.clear()

    def now(self) -> None:
        """The engine has decided before it sent the order."""

    def again(self) -> None:
        """As `now`."""

    def begun(self) -> None:
        """As `now`."""

    def never(self) -> None:
        """No other attempt follows."""
        self.follows = False

    def replace_stuck(self) -> bool:
        """The group is replaced as a whole, not a rank."""
        return False

    def after(self, failure: Failure | None, *, had_progress: bool, running_s: float) -> None:
        """The engine decides."""

    def cancel_backoff(self) -> None:
        """The back-off is the engine's."""


class LedMember:
    """What the rank has told, and what it was told; `changed` is called when it has something to tell."""

    def __init__(self, rank: Rank, changed: Callable[[], None]) -> None:
        self.rank = rank
        self.policy = LedPolicy()
        self.called_off = False
        self.arrived = 0
        self.parted = 0
        self.outcome: Outcome | None = None
        self.exit_codes: list[int] = []
        self.calls_off = 0
        self._changed = changed
        self._met: tuple[int, Meeting | None] = (0, None)
        self._failure: tuple[int, Failure | None] = (0, None)
        self._news = asyncio.Event()

    # From the worker

    async def meet(self, say: Callable[[str | None], None]) -> Meeting | None:
        """As `Member.meet`; the engine says for which ranks it waits."""
        self.called_off = False
        self.arrived += 1
        self._changed()
        await self._until(lambda: self._met[0] == self.arrived)
        meeting = self._met[1]
        self.called_off = self.called_off or meeting is None
        return meeting

    def call_off(self) -> None:
        """As `Member.call_off`."""
        self.calls_off += 1
        self._changed()

    def has_ended(self, exit_code: int) -> None:
        """As `Member.has_ended`."""
        self.exit_codes.append(exit_code)
        self._changed()

    async def part(self, outcome: Outcome, say: Callable[[str | None], None]) -> Failure | None:
        """As `Member.part`."""
        self.outcome = outcome
        self.parted += 1
        self._changed()
        await self._until(lambda: self._failure[0] == self.parted)
        return self._failure[1]

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._news.wait()

    # From the engine

    def met(self, number: int, meeting: Meeting | None) -> None:
        """The group has met, or (None) its attempt was called off."""
        self._met = number, meeting
        self._tell()

    def has_parted(self, number: int, failure: Failure | None, *, pending: bool) -> None:
        """All ranks have ended."""
        self._failure = number, failure
        self.policy.follows = pending
        self._tell()

    def is_called_off(self) -> None:
        """The group's attempt is being ended."""
        self.called_off = True

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
