"""What a worker on a node asks of that, and what it is told of its GPU's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gmg_tui.engine.nodes.messages import Order, WorkerReport
from gmg_tui.model import Details, Stacks


class Guest(Protocol):
    """A worker, as its node keeps it."""

    @property
    def key(self) -> int:
        """No other worker of the session has it."""

    def take(self, report: WorkerReport, ahead_s: float) -> None:
        """The agent reports; the monotonic clock here is `ahead_s` ahead of its."""

    def lose(self, *, for_good: bool = False) -> None:
        """Its node is lost."""

    def come_back(self) -> None:
        """Its node is there again, with an agent that knows nothing of it."""


class Place(Protocol):
    """The node, as its workers see it."""

    name: str
    skew_s: float
    """How far its clock is ahead, seconds, where that is notable; else 0."""
    lost_since: float | None

    def order(self, order: Order) -> None:
        """Send an order; later, if the node is not connected."""

    def next_key(self) -> int:
        """A key that no other worker of the session has."""

    def took(self, worker: Guest) -> None:
        """The worker was assigned to a slot of the node."""

    def left(self, worker: Guest) -> None:
        """The worker is on the node no more."""

    async def may_start(self, say: Callable[[str], None]) -> None:
        """Wait until the node's workers may start."""

    async def details(self, slot: str) -> Details:
        """What the agent says of a slot. Raises `GmgError`."""

    async def stacks(self, slot: str) -> Stacks:
        """The stacks of what runs on a slot. Raises `GmgError`."""


class ToldMemory:
    """As `KeptMemory`, from the last report."""

    def __init__(self, told: tuple[str | None, str | None, str | None, str | None]) -> None:
        self._told = told

    def awaited(self, *, shared: bool = False) -> str | None:
        """As `KeptMemory.awaited`."""
        return self._told[1 if shared else 0]

    def still_taken(self, *, shared: bool = False) -> str | None:
        """As `KeptMemory.still_taken`."""
        return self._told[3 if shared else 2]
