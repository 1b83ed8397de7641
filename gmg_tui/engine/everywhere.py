"""The crew of a plain run: one worker on each slot, for the whole session."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from gmg_tui import session as sessions
from gmg_tui.engine.launch import Launcher
from gmg_tui.engine.place import Place
from gmg_tui.engine.recorder import Recorder
from gmg_tui.engine.task import Task
from gmg_tui.engine.worker import Worker
from gmg_tui.errors import GmgError
from gmg_tui.genesis.phase_times import PhaseTimes
from gmg_tui.model import GpuReading, JobRecord, Queue, QueueAction, QueueView

_NO_QUEUE = "this session has no queue: it runs one script on every slot"


class Everywhere:
    """Runs the one job on every slot.

    Args:
        places: The slots, by name.
        launcher: Makes the attempts.
        phase_times: How long the phases of the script take.
        recorder: Hears of everything.
    """

    def __init__(
        self, places: Mapping[str, Place], launcher: Launcher, phase_times: PhaseTimes, recorder: Recorder
    ) -> None:
        spec = launcher.spec
        self._workers: dict[str, Worker] = {}
        for name, place in places.items():
            log = f"{sessions.LOGS}/{name}.log"
            place.worker = self._workers[name] = Worker(
                place.slot,
                place.index,
                launcher,
                Task.everywhere(spec, place.index, len(places)),
                launcher.logs.open(Path(spec.folder) / log),
                place.ring,
                place.history,
                phase_times,
                recorder,
            )
            recorder.hold(JobRecord(place.index + 1, name), place.slot, log=log)

    @property
    def ended(self) -> bool:
        """Whether all workers have ended."""
        return all(worker.state.ended for worker in self._workers.values())

    async def run(self) -> None:
        """Run all workers until cancelled; whatever runs then is killed."""
        async with asyncio.TaskGroup() as tasks:
            for name, worker in self._workers.items():
                tasks.create_task(worker.run(), name=name)

    def take_readings(self, readings: Mapping[str, GpuReading], error: str | None) -> None:
        """Nothing depends on them."""

    def restart(self, slot: str) -> None:
        """Restart the slot's worker."""
        self._workers[slot].restart()

    def stop(self, slot: str, *, kill: bool) -> None:
        """Stop the slot's worker."""
        self._workers[slot].stop(kill=kill)

    def end(self, *, kill: bool) -> None:
        """Stop all workers."""
        for worker in self._workers.values():
            worker.stop(kill=kill)

    def queue(self) -> Queue | None:
        """None: there is none."""
        return None

    def view(self, first: int, count: int) -> QueueView:
        """Raises `GmgError`."""
        raise GmgError(_NO_QUEUE, 1)

    def act(self, action: QueueAction, numbers: tuple[int, ...]) -> None:
        """Raises `GmgError`."""
        raise GmgError(_NO_QUEUE, 1)

    def use(self, slot: str, *, used: bool) -> None:
        """Raises `GmgError`."""
        raise GmgError(_NO_QUEUE, 1)
