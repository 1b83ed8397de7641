"""What a worker that is a rank requests of its group, and reports to it."""

from __future__ import annotations

from typing import Protocol

from gmg_tui.engine.attempts.attempt import Outcome, Report
from gmg_tui.engine.workers.restart_policy import RestartPolicy
from gmg_tui.model import Rank
from gmg_tui.scripts.genesis.output.failures import Failure
from gmg_tui.scripts.torchrun import Meeting


class Barrier(Protocol):
    """What the ranks of a group share: each of its attempts begins and ends for all of them."""

    policy: RestartPolicy
    rank: Rank

    async def due(self) -> None:
        """Waits until the next attempt is due, and takes it."""

    @property
    def pending(self) -> bool:
        """True if another attempt follows."""

    async def meet(self, report: Report) -> Meeting | None:
        """Waits until all ranks are ready; None if the attempt is called off. `report` gets what it waits for."""

    def call_off(self) -> None:
        """The user has ended the rank before it had a process: the attempt is called off."""

    def leader_ended(self, exit_code: int) -> None:
        """The rank's process has ended; the first that fails ends the others."""

    async def conclude(self, outcome: Outcome, report: Report) -> Failure | None:
        """Waits until all ranks have ended. Returns this rank's failure, if any."""
