"""The index that an attempt is given: as its own process counts the GPUs, and no other."""

from __future__ import annotations

from typing import Any

import pytest

from gmg_tui.engine.attempts.context import AWAITS_DRIVER
from gmg_tui.model import DdpSpec, RestartMode, StartMode, WorkerState
from gmg_tui.protocol import Action
from tests.nvml_sim import GPU_IS_LOST, Sim

from .harness import running, spec_for

NEVER = ("--lines", "0")
RUNNING = WorkerState.RUNNING
ON_GPUS: dict[str, Any] = {"cpu": None, "start": StartMode.TOGETHER, "interval_s": 0.2}


async def test_a_worker_that_cannot_be_prepared_is_restarted_like_a_failed_one(sim: Sim) -> None:
    sim.gpus[0].fails = {"nvmlDeviceGetIndex": GPU_IS_LOST}
    sim.write()
    spec = spec_for(*NEVER, gpus="0,1", restart=RestartMode.FAILURE, max_restarts=1, **ON_GPUS)
    async with running(spec, sim.env()) as run:
        waiting = await run.until_state("gpu0", WorkerState.RESTARTING)
        assert waiting.restart_at is not None
        assert "lost" in (waiting.reason or "")
        await run.until_state("gpu0", WorkerState.FAILED)
        sim.gpus[0].fails = {}
        sim.write()
        await run.client.act(Action.RESTART, "gpu0")
        assert (await run.until_state("gpu0", RUNNING)).attempt == 1


@pytest.mark.parametrize("ddp", [None, DdpSpec()], ids=["a worker", "a group"])
async def test_an_edit_during_preparation_applies_to_the_attempt(sim: Sim, ddp: DdpSpec | None) -> None:
    spec = spec_for(*NEVER, gpus="2", ddp=ddp, **ON_GPUS)
    async with running(spec, sim.env()) as run:
        await run.until(lambda s: all(worker.state is RUNNING for worker in s.workers))
        sim.hangs = True
        sim.write()
        await run.client.act(Action.RESTART, "gpu0", "gpu1")
        await run.until(lambda s: all(worker.reason == AWAITS_DRIVER for worker in s.workers))
        await run.client.edit(("gpu0", "gpu1"), ("--lines", "9"), {})
        sim.hangs = False
        sim.write()
        await run.until(lambda s: s.ended)
        assert {worker.state for worker in run.snapshot.workers} == {WorkerState.FINISHED}
        assert {worker.args for worker in run.snapshot.workers} == {("--lines", "9")}
        if ddp is None:
            assert {worker.attempt for worker in run.snapshot.workers} == {2}
