"""What a slot keeps while its workers come and go, and what makes them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from gmg_tui import model
from gmg_tui.engine.attempts.gpu_use import GpuMemory
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.clock import unix
from gmg_tui.engine.output.history import History, Point
from gmg_tui.engine.output.lines import RingBuffer
from gmg_tui.engine.workers.member import Member
from gmg_tui.engine.workers.worker import Watcher, Worker
from gmg_tui.model import RunSpec, Session, Slot, WorkerState
from gmg_tui.model.text import clean
from gmg_tui.scripts.torchrun import LOOPBACK, free_port

_RING_BYTES = 8 << 20
"""For the lines of all slots together."""
_RING_LEAST_BYTES = 128 << 10


class SlotState:
    """A slot, its newest lines and metrics, and its current or last worker.

    `index` is its number among the `count` slots of the session.
    """

    def __init__(self, slot: Slot, index: int, count: int) -> None:
        self.slot = slot
        self.index = index
        self.ring = RingBuffer(max_bytes=max(_RING_LEAST_BYTES, _RING_BYTES // count))
        self.history = History()
        self.worker: Worker | None = None
        self.memory: GpuMemory | None = None
        """The GPU memory of the newest attempt, whichever worker's; None if none has run here."""
        self.lead: SlotState | None = None
        """The slot whose worker runs on this one too; None where it has its own, or none."""
        self.waits: str | None = None
        """Why no job starts on it, in one line; None in a plain run."""
        self.away: str | None = None
        """Why nothing can run on it, as its node is lost; None while that is there."""
        self._made = time.monotonic()
        self.over = False
        """Whether no job is left that could start on it; without meaning in a plain run."""

    @property
    def gpu_uuid(self) -> str | None:
        """The UUID of its GPU; None on a CPU slot."""
        return self.slot.gpu.uuid if self.slot.gpu is not None else None

    def remember(self, moment: float) -> None:
        """Add a point to its history; `moment` is Unix time in seconds."""
        if self.worker is not None:
            self.history.add(moment, Point.of(self.worker.fps, self.worker.sample))

    def view(self, now: float) -> model.Worker:
        """What is on it at this moment; `now` is monotonic seconds.

        A slot that waits for its next job shows the last lines of the previous one, and what it waits for.
        """
        worker, lead = self.worker, self.lead
        if lead is not None and lead.worker is not None:
            return model.Worker(
                slot=self.slot.name,
                index=self.index,
                state=lead.worker.state,
                state_since=unix(lead.worker.state_since),
                reason=f"used by {lead.slot.name}'s worker",
            )
        if worker is not None and (self.over or self.waits is None or not worker.state.ended):
            return worker.view(self.index, now)
        return model.Worker(
            slot=self.slot.name,
            index=self.index,
            state=WorkerState.FINISHED if self.over else WorkerState.WAITING,
            state_since=unix(worker.state_since if worker is not None else self._made),
            reason=self.waits,
            log_lines=self.ring.end,
            last_line=clean(self.ring.newest),
        )

    def bare_view(self) -> model.Worker:
        """What can be displayed of it where its view has failed."""
        state = self.worker.state if self.worker is not None else WorkerState.WAITING
        return model.Worker(self.slot.name, self.index, state)


async def on_this_machine(slots: Sequence[str]) -> tuple[str, int]:
    """Where ranks meet whose processes all run on this machine: an address, and a free port; 0 where there is none."""
    return LOOPBACK, free_port()


@dataclass(frozen=True)
class Workplace:
    """Where the workers of a session run: what schedulers make them by."""

    session: Session
    worker: Callable[[SlotState, Task, str, Watcher, Member | None], Worker]
    """Makes the worker on a slot for a task, whose output goes to a log (a path in the session's folder)."""
    meeting_place: Callable[[Sequence[str]], Awaitable[tuple[str, int]]] = on_this_machine
    """Finds where the ranks of a group on these slots meet: rank 0's address, and a free port; 0 where there is none."""

    @property
    def spec(self) -> RunSpec:
        """What to run."""
        return self.session.spec
