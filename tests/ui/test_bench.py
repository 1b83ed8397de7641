"""A GPU that the queue has disabled, as shown, and how it is enabled again."""

from __future__ import annotations

from msgspec import structs

from gmg_tui.model import WorkerState
from tests.ui import play, sweeps
from tests.workers import worker_of

WHY = "3 jobs in a row failed there: RuntimeError: No CUDA GPUs are available"


async def test_a_disabled_gpu_shows_the_reason_and_is_enabled_again() -> None:
    engine = sweeps.engine()
    engine.lanes = [
        structs.replace(lane, job=None, used=False, waits=f"benched: {WHY}", benched=WHY)
        if lane.slot == "gpu1"
        else lane
        for lane in engine.lanes
    ]
    worker = worker_of("gpu1", 1, WorkerState.WAITING, reason=f"benched: {WHY}")
    engine.snapshot = structs.replace(
        engine.snapshot, workers=(engine.snapshot.workers[0], worker, *engine.snapshot.workers[2:])
    )
    app = sweeps.app(engine)
    async with app.run_test(size=(160, 48)) as pilot:
        engine.push(engine.snapshot)
        await pilot.pause()
        await play.sees(pilot, "benched: 3 jobs in a row")
        await pilot.press("Q")
        await play.sees(pilot, "method=")
        await app.run_action("screen.gpus")
        await play.sees(pilot, "gpu2", "benched: 3 jobs in a row")
        await pilot.press("down", "space")
        await pilot.pause()
        assert ("use_slot", "gpu1", True) in engine.asked
