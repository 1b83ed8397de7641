"""GPUs that are lost, a driver that goes or hangs, workers on the wrong GPU, and caches that are half-written."""

import asyncio
from pathlib import Path
from typing import Any

import psutil
import pytest

from gmg_tui.model import RunSpec, Snapshot, StartMode, WorkerState
from gmg_tui.session.protocol import Action
from tests.engine.harness import FAKE, Running, running, spec_for
from tests.nvml_sim import Process, Sim
from tests.patience import LONG_S
from tests.workers import texts

NEVER = ("--lines", "0")
RUNNING = WorkerState.RUNNING


def _on_four(*args: str, **more: Any) -> RunSpec:
    return spec_for(*args, cpu=None, gpus="0,1,2,3", interval_s=0.2, start=StartMode.TOGETHER, **more)


async def _all_running(run: Running) -> dict[str, int]:
    """The lines of each worker once all report progress."""
    snapshot = await run.until(lambda s: all(worker.state is RUNNING for worker in s.workers))
    return {worker.slot: worker.log_lines for worker in snapshot.workers}


async def _all_go_on(run: Running, lines: dict[str, int]) -> None:
    await run.until(lambda s: all(worker.log_lines > lines[worker.slot] + 10 for worker in s.workers))
    assert {worker.state for worker in run.snapshot.workers} == {RUNNING}
    assert {worker.attempt for worker in run.snapshot.workers} == {1}


def _util(snapshot: Snapshot) -> list[float | None]:
    return [sample.gpu_util_pct for sample in snapshot.samples]


@pytest.mark.slow
@pytest.mark.parametrize("attempts", [1, 2])
async def test_half_written_caches_affect_only_workers_that_read_them(sim: Sim, tmp_path: Path, attempts: int) -> None:
    """Four workers, of which those on even GPUs meet one, in one attempt or in both that they have."""
    script = tmp_path / "raced.py"
    script.write_text(
        "import os, runpy, sys\n"
        "even = int(os.environ['GMG_WORKER_INDEX']) % 2 == 0\n"
        f"sys.argv += ['--crash', 'race', '--crash-attempt', '{attempts}'] if even else []\n"
        f"runpy.run_path({FAKE!r}, run_name='__main__')\n"
    )
    async with running(_on_four("--lines", "5", script=str(script), max_restarts=1), sim.env()) as run:
        snapshot = await run.until(lambda s: s.ended)
    for worker in snapshot.workers:
        met = worker.index % 2 == 0
        failed = met and attempts > 1
        assert worker.attempt == 1 + met
        assert worker.state is (WorkerState.FAILED if failed else WorkerState.FINISHED)
        assert bool(worker.advice) == failed
        assert ("pickle data was truncated" in (worker.reason or "")) == failed
        assert (b"pickle data was truncated" in run.output(worker.slot)) == met


@pytest.mark.slow
async def test_a_lost_card_affects_only_its_slot_and_has_metrics_again_when_it_is_back(sim: Sim) -> None:
    async with running(_on_four(*NEVER), sim.env()) as run:
        lines = await _all_running(run)
        await run.until(lambda s: None not in _util(s) and len(s.samples) == 4)
        sim.gpus[2].lost = True
        sim.write()
        snapshot = await run.until(lambda s: s.samples[2].lost)
        assert snapshot.samples[2].error
        assert snapshot.nvml_error is None
        assert [util is None for util in _util(snapshot)] == [index == 2 for index in range(4)]
        await _all_go_on(run, lines)
        await run.client.act(Action.RESTART, "gpu2")
        failed = await run.until_state("gpu2", WorkerState.FAILED)
        assert sim.gpus[2].uuid in (failed.reason or "")
        assert "\n" not in (failed.reason or "")
        sim.gpus[2].lost = False
        sim.write()
        await run.until(lambda s: not s.samples[2].lost and _util(s)[2] == sim.gpus[2].gpu_util_pct)
        await run.client.act(Action.RESTART, "gpu2")
        await run.until_state("gpu2", RUNNING)
        assert [worker.attempt for worker in run.snapshot.workers if worker.slot != "gpu2"] == [1] * 3


@pytest.mark.slow
async def test_an_unloaded_driver_affects_only_metrics_which_return_with_it(sim: Sim) -> None:
    async with running(_on_four(*NEVER), sim.env()) as run:
        lines = await _all_running(run)
        await run.until(lambda s: None not in _util(s) and len(s.samples) == 4)
        sim.no_driver()
        gone = await run.until(lambda s: s.nvml_error)
        assert "\n" not in (gone.nvml_error or "")
        assert set(_util(gone)) == {None}
        await _all_go_on(run, lines)
        sim.driver_back()
        await run.until(lambda s: s.nvml_error is None and None not in _util(s))
        assert _util(run.snapshot) == [gpu.gpu_util_pct for gpu in sim.gpus[:4]]


async def test_a_hung_driver_blocks_neither_workers_nor_snapshots_nor_the_end_of_the_engine(sim: Sim) -> None:
    async with running(_on_four(*NEVER), sim.env()) as run:
        lines = await _all_running(run)
        sim.delay_ms = 60_000
        sim.write()
        moment = run.snapshot.time
        await _all_go_on(run, lines)
        await run.until(lambda s: s.time > moment + 2)
        await run.client.act(Action.RESTART, "gpu3")  # asks for the card's index, and gets no answer
        await run.until_state("gpu3", WorkerState.RESTARTING)
        await run.client.end(kill=True)
        await run.until(lambda s: s.ended)
        await run.leave()
        async with asyncio.timeout(LONG_S):
            assert await run.process.wait() == 0
        assert run.record().ended is not None


async def test_a_worker_on_the_wrong_card_has_a_warning_while_it_is_there(sim: Sim) -> None:
    async with running(_on_four(*NEVER), sim.env()) as run:
        await _all_running(run)
        pid = run.worker("gpu1").pid
        assert pid is not None
        sim.gpus[2].processes = [Process(pid=pid, memory_mib=700)]
        sim.write()
        await run.until(lambda _: run.worker("gpu1").alerts)
        (warning,) = texts(run.worker("gpu1").alerts)
        assert "gpu2" in warning
        assert run.worker("gpu2").alerts == ()
        (process,) = (await run.client.details("gpu2")).processes or ()
        assert process.slot == "gpu1"
        sim.gpus[2].processes = []
        sim.gpus[1].processes = [Process(pid=pid, memory_mib=700)]
        sim.write()
        await run.until(lambda _: run.worker("gpu1").alerts == ())
        psutil.Process(pid).kill()
        assert (await run.until_state("gpu1", WorkerState.FAILED)).alerts == ()
