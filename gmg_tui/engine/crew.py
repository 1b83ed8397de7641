"""Who works on the slots: what the supervisor knows of the plain run's workers and of a sweep's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gmg_tui.model import GpuReading, Queue, QueueAction, QueueView


class Crew(Protocol):
    """The workers of a session, as the supervisor sees them."""

    @property
    def ended(self) -> bool:
        """Whether all work is done, or was called off."""
        ...

    async def run(self) -> None:
        """Work until cancelled; whatever runs then is killed."""
        ...

    def take_readings(self, readings: Mapping[str, GpuReading], error: str | None) -> None:
        """Take what the cards have said, by UUID, or why they say nothing."""
        ...

    def restart(self, slot: str) -> None:
        """Run again what runs, or ran last, on the slot. Raises `GmgError` when there is nothing."""
        ...

    def stop(self, slot: str, *, kill: bool) -> None:
        """Stop what runs on the slot."""
        ...

    def end(self, *, kill: bool) -> None:
        """Stop everything, for good."""
        ...

    def queue(self) -> Queue | None:
        """How far the jobs are; None in a plain run."""
        ...

    def view(self, first: int, count: int) -> QueueView:
        """A part of the queue. Raises `GmgError` in a plain run."""
        ...

    def act(self, action: QueueAction, numbers: tuple[int, ...]) -> None:
        """Do something to jobs. Raises `GmgError` when it cannot be done."""
        ...

    def use(self, slot: str, *, used: bool) -> None:
        """Let jobs start on a slot, or on none of its card's any more. Raises `GmgError` in a plain run."""
        ...
