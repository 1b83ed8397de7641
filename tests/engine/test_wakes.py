"""What makes the scheduler look for a job to start: a slot that is left, enabled or ready again, and a job that waits again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import structs

from gmg_tui.engine.scheduling import queue_scheduler
from gmg_tui.engine.scheduling.queue_scheduler import QueueScheduler
from gmg_tui.engine.scheduling.slot_board import SlotBoard
from gmg_tui.engine.workers.slot_state import SlotState
from gmg_tui.model import JobRecord, QueueAction, RunSpec, Slot, WorkerState
from tests.patience import LONG_S

from .test_job_queue import queue_of

SPEC = RunSpec("sweep-1", "/state", "/run/sock", "sim.py", (), "/", "python")


class Run:
    """A job without a process that ends at once: the first finds its slot not ready, job 2 fails, the others finish."""

    started: list[int]

    def __init__(self, record: JobRecord, slot_states: Sequence[SlotState], *_: object) -> None:
        self.number, self.slot_states = record.number, slot_states
        self.slots = [slot_state.slot.name for slot_state in slot_states]
        unready = None if self.started else "not ready"
        self.workers = [SimpleNamespace(slot=slot_states[0].slot, unready=unready, sample=None)]
        state = WorkerState.FAILED if record.number == 2 else WorkerState.FINISHED
        self.lead = structs.replace(record, state=state, ended=1.0)
        self.again = self.stopped = False
        self.group = None
        self.started.append(record.number)

    async def run(self) -> None:
        """End in the next turn of the loop."""
        await asyncio.sleep(0)


class Records:
    """Keeps what happens to jobs nowhere."""

    def occupy(self, record: JobRecord, _: object) -> JobRecord:
        return structs.replace(record, state=WorkerState.RUNNING)

    def release(self, lead: JobRecord, _: object = None, **changes: Any) -> JobRecord:
        return structs.replace(lead, **changes)

    def keep(self, _: JobRecord) -> None: ...


async def test_jobs_start_without_another_sample_of_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_scheduler, "JobRun", Run)
    monkeypatch.setattr(queue_scheduler, "_UNREADY_S", 0.01)
    Run.started = []
    done = asyncio.Event()
    board = SlotBoard({"cpu0": SlotState(Slot("cpu0"), 0, 1)}, queue_of(3))
    board.use("cpu0", used=False)
    workplace, records = cast("Any", SimpleNamespace(spec=SPEC)), cast("Any", Records())
    scheduler = QueueScheduler(board, workplace, records, lambda: done.set() if scheduler.ended else None)
    task = asyncio.create_task(scheduler.run())
    await asyncio.sleep(0)
    assert Run.started == []
    async with asyncio.timeout(LONG_S):
        scheduler.use("cpu0", used=True)
        await done.wait()
        assert Run.started == [1, 1, 2, 3]
        done.clear()
        scheduler.act(QueueAction.RETRY, (2,))
        await done.wait()
        assert Run.started[4:] == [2]
    task.cancel()
