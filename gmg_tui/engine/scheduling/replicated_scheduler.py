"""The scheduler of a plain run: one worker on each slot, for the whole session."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from gmg_tui import session as sessions
from gmg_tui.engine.records.recorder import Recorder
from gmg_tui.engine.scheduling.scheduler import Scheduler
from gmg_tui.engine.workers.launch import Launcher
from gmg_tui.engine.workers.slot_state import SlotState
from gmg_tui.engine.workers.task import Task
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.genesis.phase_times import FindPhaseTimes
from gmg_tui.model import JobRecord


class ReplicatedScheduler(Scheduler):
    """Runs the session's one script on every slot."""

    def __init__(
        self, slot_states: Mapping[str, SlotState], launcher: Launcher, phase_times: FindPhaseTimes, recorder: Recorder
    ) -> None:
        spec = launcher.spec
        self._workers: dict[str, Worker] = {}
        for name, slot_state in slot_states.items():
            log = f"{sessions.LOGS}/{name}.log"
            slot_state.worker = self._workers[name] = Worker(
                slot_state.slot,
                launcher,
                Task.replicated(spec, slot_state.index, len(slot_states)),
                launcher.open_log(log),
                slot_state.ring,
                phase_times,
                recorder,
            )
            recorder.occupy(JobRecord(slot_state.index + 1, name), slot_state.slot, log=log)

    @property
    def ended(self) -> bool:
        """Whether all workers have ended."""
        return all(worker.state.ended for worker in self._workers.values())

    async def run(self) -> None:
        """Run all workers until cancelled; whatever runs then is killed."""
        async with asyncio.TaskGroup() as tasks:
            for name, worker in self._workers.items():
                tasks.create_task(worker.run(), name=name)

    def restart(self, slot: str) -> None:
        """Restart the slot's worker."""
        self._workers[slot].restart()

    def stop(self, slot: str, *, kill: bool) -> None:
        """Stop the slot's worker."""
        self._workers[slot].stop(kill=kill)

    def end(self, *, kill: bool, reason: str | None) -> None:
        """Stop all workers."""
        for worker in self._workers.values():
            worker.stop(kill=kill, reason=reason)
