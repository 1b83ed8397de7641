"""Decides what runs on the slots: the interface that plain runs and sweeps implement for the supervisor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from gmg_tui.errors import GmgError
from gmg_tui.model import GpuSample, Queue, QueueAction, QueueView, RankGroup, Tuning


class Scheduler(ABC):
    """The scheduler of a session. What concerns a queue is refused here: a plain run has none."""

    @property
    @abstractmethod
    def ended(self) -> bool:
        """Whether all work is done or called off."""

    @abstractmethod
    async def run(self) -> None:
        """Run until cancelled; whatever runs then is killed."""

    @abstractmethod
    def restart(self, slot: str) -> None:
        """Restart what runs, or ran last, on the slot. Raises `GmgError` if there is nothing."""

    @abstractmethod
    def stop(self, slot: str, *, kill: bool) -> None:
        """Stop what runs on the slot."""

    @abstractmethod
    def end(self, *, kill: bool, reason: str | None) -> None:
        """Stop everything, for good; `reason` is None where the user asked for it."""

    def take_samples(self, samples: Mapping[str, GpuSample], error: str | None) -> None:  # noqa: B027 - a plain run needs none
        """Take the latest samples, by UUID, or why there are none."""

    def beat(self) -> None:  # noqa: B027 - only some schedulers have something to check
        """Called each second, after the workers' output was read."""

    def groups(self) -> tuple[RankGroup, ...]:
        """The groups whose ranks are on slots."""
        return ()

    def together(self, slot: str) -> tuple[str, ...]:
        """The slots that a command to this one is for: all of its group's."""
        return (slot,)

    def tuning(self) -> Tuning | None:
        """How far a tuning is; None where nothing is tuned."""
        return None

    def queue(self) -> Queue | None:
        """How far the jobs are; None in a plain run."""
        return None

    def view(self, first: int, count: int) -> QueueView:
        """A part of the queue. Raises `GmgError` in a plain run."""
        raise _no_queue()

    def act(self, action: QueueAction, numbers: tuple[int, ...]) -> None:
        """Act on jobs. Raises `GmgError` if that is not possible."""
        raise _no_queue()

    def use(self, slot: str, *, used: bool) -> None:
        """Enable a slot, and its GPU's others, for jobs, or disable them. Raises `GmgError` in a plain run."""
        raise _no_queue()


def _no_queue() -> GmgError:
    return GmgError("this session has no queue: it runs one script on every slot", 1)
