"""A sweep on GPUs that other processes use: it begins on the free ones, and takes the others as they become free."""

from __future__ import annotations

import os
import uuid

import pytest

from gmg_tui.model import Snapshot, WorkerState
from tests.nvml_sim import Process, Sim

from .harness import program, running, sweep_for


@pytest.fixture(autouse=True)
def machine(sim: Sim) -> None:
    """Three GPUs that no other test has; this process is on the first."""
    sim.gpus = sim.gpus[:3]
    for gpu in sim.gpus:
        gpu.uuid, gpu.memory_used_mib = f"GPU-{uuid.uuid4()}", 4
    sim.gpus[0].processes = [Process(os.getpid(), 31744)]
    sim.write()


def _reason(snapshot: Snapshot, slot: str) -> str:
    return next(worker.reason for worker in snapshot.workers if worker.slot == slot) or ""


async def test_a_sweep_begins_on_free_gpus_and_takes_others_as_they_come(sim: Sim) -> None:
    spec = sweep_for([{"x": n} for n in range(5)], program("--s", "600", gpus="free", wait_s=600.0))
    async with running(spec, sim.env()) as run:
        await run.until_state("gpu1", WorkerState.STARTING)
        await run.until_state("gpu2", WorkerState.STARTING)
        await run.until(lambda s: _reason(s, "gpu0").startswith("for its GPU: "))
        assert ", 31.0 GiB, since " in _reason(run.snapshot, "gpu0")
        sim.gpus[0].processes = []
        sim.write()
        await run.until_state("gpu0", WorkerState.STARTING)


async def test_it_takes_no_more_than_wanted_and_ends_without_the_others(sim: Sim) -> None:
    spec = sweep_for([{"x": n} for n in range(3)], program("--s", "0.1", gpus="free:2", wait_s=600.0))
    async with running(spec, sim.env()) as run:
        queue = await run.until_done()
    assert (queue.finished, queue.jobs, queue.benched) == (3, 3, {})
    assert {worker.slot for worker in run.snapshot.workers} == {"gpu1", "gpu2"}


async def test_after_the_wait_the_gpus_in_use_are_benched(sim: Sim) -> None:
    spec = sweep_for([{"x": n} for n in range(3)], program("--s", "600", gpus="free", wait_s=1.0))
    async with running(spec, sim.env()) as run:
        snapshot = await run.until(lambda s: s.queue is not None and s.queue.benched)
        assert snapshot.queue is not None
        assert snapshot.queue.benched["gpu0"].startswith("not free after 1 s: for its GPU: ")
        assert {*snapshot.queue.benched} == {"gpu0"}
