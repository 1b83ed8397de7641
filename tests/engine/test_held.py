"""Workers that have imported Genesis while the first one writes the mesh caches, and are stopped until it has."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import psutil

from gmg_tui.model import Group, Phase, RunSpec, StartWay, WorkerState
from gmg_tui.protocol import Action

from .harness import FAKE, Running, running, spec_for, sweep_for

NEVER = ("--lines", "0")
HELD = "held for cpu0 to write the mesh caches"


def _for_ever(**more: Any) -> RunSpec:
    """Two workers, the second of which is held for ever: the first never comes to compile."""
    return spec_for(*NEVER, "--phase-s", "0.5", "--hang", "adding", cpu=2, start=StartWay.GATED, **more)


async def _until_held(run: Running) -> psutil.Process:
    await run.until(lambda s: s.workers[1].reason == HELD)
    pid = run.worker("cpu1").pid
    assert pid is not None
    return psutil.Process(pid)


async def test_workers_are_held_until_the_first_has_written_the_caches() -> None:
    async with running(spec_for(*NEVER, "--phase-s", "0.5", cpu=3, start=StartWay.GATED)) as run:
        await run.until(lambda s: all(w.reason == HELD for w in s.workers[1:]))
        assert {worker.phase for worker in run.snapshot.workers[1:]} == {Phase.INITIALISING}
        assert b"Compiling" not in run.output("cpu0")
        await run.until(lambda s: all(w.state is WorkerState.RUNNING for w in s.workers))
        assert {worker.reason for worker in run.snapshot.workers} == {None}


async def test_a_held_worker_is_stopped_and_not_called_stuck() -> None:
    async with running(_for_ever(stuck_after_s=4.0)) as run:
        process = await _until_held(run)
        assert process.status() == psutil.STATUS_STOPPED
        await run.until(lambda s: s.workers[0].stuck)  # which opens the gate
        assert run.worker("cpu1").stuck is None
        await run.until(lambda s: s.workers[1].phase is Phase.ADDING)


async def test_a_held_worker_goes_on_when_a_person_wants_it_to() -> None:
    async with running(_for_ever()) as run:
        process = await _until_held(run)
        await run.client.act(Action.RESTART, "cpu1")
        await run.until(lambda s: s.workers[1].phase is Phase.ADDING)
        assert run.worker("cpu1").pid == process.pid
        assert run.worker("cpu1").reason is None


async def test_a_worker_that_a_person_did_not_let_wait_is_not_held() -> None:
    async with running(spec_for("--hang", "importing", "--silent", cpu=2, start=StartWay.GATED)) as run:
        await run.until(lambda s: s.workers[1].state is WorkerState.WAITING)
        await run.client.edit(("cpu1",), (*NEVER, "--phase-s", "0.5"), {})
        await run.until_state("cpu1", WorkerState.RUNNING)
        assert "held" not in run.log()


async def test_who_is_waited_for_is_always_who_is_first() -> None:
    async with running(spec_for(*NEVER, "--phase-s", "0.5", "--hang", "adding", cpu=3, start=StartWay.GATED)) as run:
        await run.until(lambda s: all(w.reason == HELD for w in s.workers[1:]))
        await run.client.act(Action.STOP, "cpu0")
        await run.until(lambda s: s.workers[2].reason == "held for cpu1 to write the mesh caches")
        assert run.worker("cpu1").reason is None


async def test_a_held_worker_ends_in_order_when_it_is_stopped() -> None:
    async with running(_for_ever()) as run:
        process = await _until_held(run)
        await run.client.act(Action.STOP, "cpu1")
        await run.until_state("cpu1", WorkerState.STOPPED)
        assert not process.is_running()
        assert run.worker("cpu1").exit_code == -signal.SIGINT


async def test_a_held_worker_that_is_killed_from_outside_has_failed() -> None:
    async with running(_for_ever()) as run:
        (await _until_held(run)).kill()
        await run.until_state("cpu1", WorkerState.FAILED)


async def test_a_worker_with_other_arguments_is_held_again() -> None:
    async with running(_for_ever()) as run:
        await _until_held(run)
        await run.client.edit(("cpu1",), (*run.spec.args, "-B", "8"), {})
        await run.until(lambda s: s.workers[1].attempt == 2 and s.workers[1].reason == HELD)


async def test_workers_that_are_all_restarted_with_other_arguments_are_gated_again() -> None:
    async with running(_for_ever()) as run:
        await _until_held(run)
        await run.client.edit(("cpu0", "cpu1"), (*NEVER, "--phase-s", "0.5", "-B", "8"), {})
        held = await run.until(lambda s: any((w.reason or "").startswith("held") for w in s.workers if w.attempt == 2))
        assert sum((worker.reason or "").startswith("held") for worker in held.workers) == 1
        await run.until(lambda s: all(w.state is WorkerState.RUNNING for w in s.workers))


async def test_the_time_that_a_job_is_held_is_not_the_jobs() -> None:
    """The first takes 5 s to compile and ends there; the second needs 5 s without the 3 for which it is held."""
    args = ("--lines", "2", "--phase-s", "{phase_s}")
    crash = ("--crash", "traceback", "--crash-at", "compiling", "--crash-attempt", "{crashes}")
    jobs = [{"phase_s": 1.0, "crashes": 9}, {"phase_s": 0.8, "crashes": 0}]
    group = Group(script=FAKE, args=args + crash, timeout_s=6.0)
    async with running(sweep_for(jobs, group, cpu=2, start=StartWay.GATED)) as run:
        await run.until_done()
        records = await run.jobs()
        assert [record.state for record in records.values()] == [WorkerState.FAILED, WorkerState.FINISHED]
        elapsed_s = records["job-2"].elapsed_s
        assert elapsed_s is not None
        assert elapsed_s > 6.0, "it was not held for as long as this test needs"


async def test_a_held_worker_ends_with_a_killed_engine() -> None:
    async with running(_for_ever()) as run:
        process = await _until_held(run)
        run.process.kill()
        await run.process.wait()
        _, alive = await asyncio.to_thread(psutil.wait_procs, [process], timeout=20)
        assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []
