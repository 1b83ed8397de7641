"""Cards that are lost, a driver that goes or hangs, workers on the wrong card, and caches raced for by eight workers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import psutil
import pytest

from gmg_tui.model import RunSpec, Snapshot, StartMode, WorkerState
from gmg_tui.protocol import Action
from tests.engine.harness import Running, running, spec_for
from tests.nvml_sim import Process, Sim

NEVER = ("--lines", "0")
RUNNING = WorkerState.RUNNING


def _on(cards: str, *args: str, **more: Any) -> RunSpec:
    return spec_for(*args, cpu=None, gpus=cards, interval_s=0.2, start=StartMode.TOGETHER, **more)


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


async def _raced(sim: Sim, tmp_path: Path, *, healing: bool) -> tuple[Running, Snapshot]:
    """Eight workers, of which those on even cards find half-written caches: once, or each time."""
    script = tmp_path / "raced.py"
    attempts = 1 if healing else 99
    script.write_text(
        "import os, runpy, sys\n"
        "even = int(os.environ['GMG_WORKER_INDEX']) % 2 == 0\n"
        f"sys.argv += ['--crash', 'race', '--crash-attempt', '{attempts}'] if even else []\n"
        f"runpy.run_path({str(Path(__file__).parents[1] / 'fake_worker.py')!r}, run_name='__main__')\n"
    )
    spec = _on("all", "--lines", "5", script=str(script), max_restarts=1)
    async with running(spec, sim.env()) as run:
        return run, await run.until(lambda s: s.ended, timeout_s=60)


@pytest.mark.slow
async def test_half_written_caches_heal_at_the_second_attempt_of_those_who_met_them(sim: Sim, tmp_path: Path) -> None:
    run, snapshot = await _raced(sim, tmp_path, healing=True)
    assert [worker.state for worker in snapshot.workers] == [WorkerState.FINISHED] * 8
    assert [worker.attempt for worker in snapshot.workers] == [2, 1] * 4
    for worker in snapshot.workers:
        assert run.output(worker.slot).count(b"pickle data was truncated") == (2 if worker.index % 2 == 0 else 0)


@pytest.mark.slow
async def test_half_written_caches_that_never_heal_end_as_failures_and_trouble_nobody_else(
    sim: Sim, tmp_path: Path
) -> None:
    _, snapshot = await _raced(sim, tmp_path, healing=False)
    for worker in snapshot.workers:
        if worker.index % 2:
            assert (worker.state, worker.attempt) == (WorkerState.FINISHED, 1)
        else:
            assert (worker.state, worker.attempt) == (WorkerState.FAILED, 2)
            assert worker.reason
            assert "pickle data was truncated" in worker.reason
            assert worker.advice


@pytest.mark.slow
async def test_a_lost_card_is_said_at_its_slot_alone_and_has_figures_again_when_it_is_back(sim: Sim) -> None:
    async with running(_on("all", *NEVER), sim.env()) as run:
        lines = await _all_running(run)
        await run.until(lambda s: None not in _util(s) and len(s.samples) == 8)
        sim.gpus[2].lost = True
        sim.write()
        snapshot = await run.until(lambda s: s.samples[2].lost)
        assert snapshot.samples[2].error
        assert snapshot.nvml_error is None
        assert [util is None for util in _util(snapshot)] == [index == 2 for index in range(8)]
        await _all_go_on(run, lines)
        sim.gpus[2].lost = False
        sim.write()
        await run.until(lambda s: not s.samples[2].lost and _util(s)[2] == sim.gpus[2].gpu_util_pct)


async def test_a_restart_on_a_lost_card_fails_in_one_line_and_the_others_are_left_alone(sim: Sim) -> None:
    async with running(_on("0,1", *NEVER), sim.env()) as run:
        await _all_running(run)
        sim.gpus[1].lost = True
        sim.write()
        await run.until(lambda s: s.samples[1].lost)
        await run.client.act(Action.RESTART, "gpu1")
        failed = await run.until_state("gpu1", WorkerState.FAILED)
        assert failed.reason
        assert sim.gpus[1].uuid in failed.reason
        assert "\n" not in failed.reason
        assert run.worker("gpu0").state is RUNNING
        sim.gpus[1].lost = False
        sim.write()
        await run.client.act(Action.RESTART, "gpu1")
        await run.until_state("gpu1", RUNNING)


@pytest.mark.slow
async def test_a_driver_that_goes_takes_the_figures_with_it_and_brings_them_back_and_no_worker_notices(
    sim: Sim,
) -> None:
    async with running(_on("all", *NEVER), sim.env()) as run:
        lines = await _all_running(run)
        await run.until(lambda s: None not in _util(s) and len(s.samples) == 8)
        sim.no_driver()
        gone = await run.until(lambda s: s.nvml_error)
        assert "\n" not in (gone.nvml_error or "")
        assert set(_util(gone)) == {None}
        await _all_go_on(run, lines)
        sim.driver_back()
        await run.until(lambda s: s.nvml_error is None and None not in _util(s))
        assert _util(run.snapshot) == [gpu.gpu_util_pct for gpu in sim.gpus]


async def test_a_driver_that_hangs_holds_up_neither_workers_nor_snapshots_nor_the_engines_end(sim: Sim) -> None:
    async with running(_on("all", *NEVER), sim.env()) as run:
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
        async with asyncio.timeout(60):
            assert await run.process.wait() == 0
        assert run.record().ended is not None


async def test_a_worker_that_the_driver_sees_on_another_card_is_warned_of_until_it_is_not(sim: Sim) -> None:
    async with running(_on("0,1,2", *NEVER), sim.env()) as run:
        await _all_running(run)
        pid = run.worker("gpu1").pid
        assert pid is not None
        sim.gpus[2].processes = [Process(pid=pid, memory_mib=700)]
        sim.write()
        await run.until(lambda _: run.worker("gpu1").warnings)
        (warning,) = run.worker("gpu1").warnings
        assert "gpu2" in warning
        assert run.worker("gpu2").warnings == ()
        (process,) = (await run.client.details("gpu2")).processes or ()
        assert process.slot == "gpu1"
        sim.gpus[2].processes = []
        sim.gpus[1].processes = [Process(pid=pid, memory_mib=700)]
        sim.write()
        await run.until(lambda _: run.worker("gpu1").warnings == ())
        psutil.Process(pid).kill()
        assert (await run.until_state("gpu1", WorkerState.FAILED)).warnings == ()
