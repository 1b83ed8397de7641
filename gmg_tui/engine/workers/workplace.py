"""Makes the workers of a session, whose processes run on this machine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from gmg_tui.engine.attempts.launch import Launcher
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.output.ring_buffer import RingBuffer
from gmg_tui.engine.workers.meeting_place import own_machine
from gmg_tui.engine.workers.member import Member
from gmg_tui.engine.workers.slot_worker import SlotWorker, Watcher
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.genesis.phase_times import FindPhaseTimes
from gmg_tui.model import RunSpec, Session, Slot


class Workplace(ABC):
    """Where the workers of `session` run: what schedulers make them by."""

    def __init__(self, session: Session) -> None:
        self.session = session

    @property
    def spec(self) -> RunSpec:
        """What to run."""
        return self.session.spec

    @abstractmethod
    def worker(
        self, slot: Slot, ring: RingBuffer, task: Task, log: str, watcher: Watcher, member: Member | None = None
    ) -> SlotWorker:
        """A worker on `slot` for `task`, whose output goes to `log`, a path in the session's folder."""

    async def meeting_place(self, slots: Sequence[str]) -> tuple[str, int]:
        """Where the ranks of a group on these slots meet: rank 0's address, and a free port; 0 where there is none."""
        return await own_machine(slots)


class OwnMachine(Workplace):
    """Their processes are children of this one."""

    def __init__(self, launcher: Launcher, phase_times: FindPhaseTimes) -> None:
        super().__init__(launcher.session)
        self._launcher, self._phase_times = launcher, phase_times

    def worker(
        self, slot: Slot, ring: RingBuffer, task: Task, log: str, watcher: Watcher, member: Member | None = None
    ) -> SlotWorker:
        """As `Workplace.worker`."""
        opened = self._launcher.open_log(log)
        return Worker(slot, self._launcher, task, opened, ring, self._phase_times, watcher, member)
