"""A worker as a member of its group: what a rank requests of its group, and reports to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct, structs

from gmg_tui.engine.workers.restart_policy import RestartPolicy
from gmg_tui.model import Rank
from gmg_tui.scripts.genesis.output.failures import Failure
from gmg_tui.scripts.torchrun import Meeting


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
    by_group: bool = False
    """Whether it was ended, or not begun, because of another rank."""


class RankSeen(Struct, frozen=True, omit_defaults=True):
    """A rank's process. Moments are monotonic seconds of one machine."""

    attempt: int = 0
    """The number of its attempt; 0 before the first."""
    settled: bool = False
    """Whether it has begun, and is not being ended."""
    lives: bool = False
    phase_started: float = 0.0
    in_running: bool = False
    """Whether it is in its running phase."""
    progress_at: float | None = None
    """When it last reported progress."""
    progress_every_s: float = 0.0
    """The longest of the last intervals between two reports."""
    idle_s: float = 0.0
    """How long it had been idle at the last scan."""
    stopped: str | None = None
    """By what it is stopped."""

    def later(self, by_s: float) -> RankSeen:
        """The same by a clock that is `by_s` ahead."""
        return structs.replace(
            self,
            phase_started=self.phase_started + by_s,
            progress_at=self.progress_at + by_s if self.progress_at is not None else None,
        )


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

    @property
    def pending(self) -> bool:
        """Whether another attempt follows."""
        return self.policy.pending

    async def wait(self) -> None:
        """Wait until the next attempt is due, and take it."""
        await self.policy.wait()

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
