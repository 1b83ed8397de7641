"""Two jobs on one GPU: what each is told to have used is not what the GPU has."""

from __future__ import annotations

from gmg_tui.model import Batch
from tests.nvml_sim import Process, Sim

from .harness import FAKE, running, sweep_for


async def test_each_job_has_its_share_of_the_power_and_the_memory_of_its_own_processes(sim: Sim) -> None:
    gpu = sim.gpus[0]
    batch = Batch(script=FAKE, args=("--lines", "0", "--phase-s", "0"), gpus="0,", per_gpu=2)
    async with running(sweep_for([{}, {}], batch, interval_s=0.1), sim.env()) as run:
        both = await run.until(lambda s: len(s.workers) == 2 and all(worker.pid for worker in s.workers))
        pids = [worker.pid or 0 for worker in both.workers]
        gpu.processes = [Process(pids[0], memory_mib=2000), Process(pids[1], memory_mib=3000)]
        sim.write()
        power_w = gpu.power_w or 0.0
        shared = await run.until(
            lambda s: all(
                worker.power_mean_w is not None
                and worker.power_mean_w < 0.75 * power_w
                and worker.memory_peak_mib in (2000.0, 3000.0)
                for worker in s.workers
            )
        )
    assert [worker.memory_peak_mib for worker in shared.workers] == [2000.0, 3000.0]
