"""A worker as a member of its group: what a rank requests of its group, and reports to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

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


class Member:
    """A worker as a member of its group. This class is for a worker without a group: it waits for nobody.

    In each attempt of the group a rank calls `meet` once, and `part` once.

    Attributes:
        policy: When the next attempt is due; of a rank, when the group's is.
        rank: Which rank of which group; None for a worker that is in none.
        called_off: Whether the group's attempt is being ended: another rank has failed, or could not be prepared.
    """

    def __init__(self, policy: RestartPolicy, rank: Rank | None = None) -> None:
        self.policy, self.rank = policy, rank
        self.called_off = False

    async def meet(self, report: Callable[[str | None], None]) -> Meeting | None:
        """Wait until all ranks are ready to start, or the attempt is called off; `report` gets what it waits for."""
        return None

    def call_off(self) -> None:
        """The user has ended the rank before it had a process: the group's attempt is called off."""

    def has_ended(self, exit_code: int) -> None:
        """The rank's process has ended; the first that fails ends the others."""

    async def part(self, outcome: Outcome, report: Callable[[str | None], None]) -> Failure | None:
        """Wait until all ranks have ended; `report` gets what it waits for. Returns this rank's failure, if any."""
        return outcome.failure
