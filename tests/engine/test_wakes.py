"""A job that leaves its slots wakes the scheduler, without the next samples of the GPUs or a command."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from msgspec import structs

from gmg_tui.engine.scheduling.queue_scheduler import QueueScheduler
from gmg_tui.engine.scheduling.slot_board import SlotBoard
from gmg_tui.engine.workers.slot_state import SlotState
from gmg_tui.model import JobRecord, Slot, SlotKind, WorkerState

from .test_job_queue import queue_of


class _WithoutProcesses(QueueScheduler):
    """Runs jobs that end at once."""

    def _run(self, record: JobRecord, slot_states: Any) -> Any:
        async def run() -> None:
            await asyncio.sleep(0)

        slots = [slot_state.slot.name for slot_state in slot_states]
        return SimpleNamespace(number=record.number, slots=slots, run=run, again=False)

    async def _outcome(self, run: Any) -> JobRecord:
        return structs.replace(self._queue.records[run.number], state=WorkerState.FINISHED, ended=1.0)


async def test_the_next_job_starts_when_a_slot_is_left() -> None:
    over = asyncio.Event()
    board = SlotBoard({"cpu0": SlotState(Slot("cpu0", SlotKind.CPU), 0, 1)}, (frozenset({"cpu0"}),), queue_of(3))
    unused = cast("Any", None)
    scheduler = _WithoutProcesses(board, unused, unused, lambda: over.set() if scheduler.ended else None)
    task = asyncio.create_task(scheduler.run())
    async with asyncio.timeout(30):
        await over.wait()
    task.cancel()
    assert board.queue.ended(WorkerState.FINISHED) == 3
