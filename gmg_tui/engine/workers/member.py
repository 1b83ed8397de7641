"""What a worker that is a rank asks its group, and tells it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from gmg_tui.ddp.variables import Meeting
from gmg_tui.engine.workers.restart_policy import RestartPolicy
from gmg_tui.genesis.output.failures import Failure
from gmg_tui.model import Rank


class Outcome(NamedTuple):
    """How a rank's part in an attempt of its group has ended."""

    failure: Failure | None = None
    """Its own; None where it has finished, or the user has ended it."""
    by_user: bool = False
    had_progress: bool = False
    running_s: float = 0.0
    """Seconds in its running phase."""
    unprepared: bool = False
    """Whether its attempt could not be prepared."""


class Member(Protocol):
    """A worker's place in its group, which may be none.

    In each attempt of the group a rank calls `meet` once, and `part` once.
    """

    @property
    def rank(self) -> Rank | None:
        """Which rank of which group; None for a worker that is in none."""

    @property
    def policy(self) -> RestartPolicy:
        """When the rank's next attempt is due: when the group's is."""

    @property
    def called_off(self) -> bool:
        """Whether the group's attempt is being ended: another rank has failed, or could not be prepared."""

    async def meet(self, say: Callable[[str | None], None]) -> Meeting | None:
        """Wait until all ranks are ready to start, or the attempt is called off; `say` is told for which it waits."""

    def call_off(self) -> None:
        """The user has ended the rank before it had a process: the group's attempt is called off."""

    def has_ended(self, exit_code: int) -> None:
        """The rank's process has ended; the first that fails ends the others."""

    async def part(self, outcome: Outcome, say: Callable[[str | None], None]) -> Failure | None:
        """Wait until all ranks have ended; `say` is told for which it waits. Returns this rank's failure, if any."""


class Alone:
    """The place of a worker that is in no group: it waits for nobody."""

    rank: Rank | None = None
    called_off = False

    def __init__(self, policy: RestartPolicy) -> None:
        self.policy = policy

    async def meet(self, say: Callable[[str | None], None]) -> Meeting | None:
        """There is nobody to meet."""
        return None

    def call_off(self) -> None:
        """No other is concerned."""

    def has_ended(self, exit_code: int) -> None:
        """No other is concerned."""

    async def part(self, outcome: Outcome, say: Callable[[str | None], None]) -> Failure | None:
        """Its failure is its own."""
        return outcome.failure
