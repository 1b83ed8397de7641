"""Workers that have imported Genesis while the first one writes the mesh caches, and are stopped until it has."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import psutil

from gmg_tui.model import Batch, Phase, RunSpec, StartMode, WorkerState
from gmg_tui.protocol import Action

from .harness import FAKE, Running, running, spec_for, sweep_for

NEVER = ("--lines", "0")
HELD = "held for cpu0 to write the mesh caches"


def _for_ever(**more: Any) -> RunSpec:
    """Two workers, the second of which is held for ever: the first never comes to compile."""
    return spec_for(*NEVER, "--phase-s", "0.5", "--hang", "adding", cpu=2, start=StartMode.GATED, **more)


async def _until_held(run: Running) -> psutil.Process:
    await run.until(lambda s: s.workers[1].reason == HELD)
    pid = run.worker("cpu1").pid
    assert pid is not None
    process = psutil.Process(pid)
    async with asyncio.timeout(60):  # on a busy machine a process that is sent SIGSTOP may have to wait for its turn
        while process.status() != psutil.STATUS_STOPPED:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.02)
    return process


async def test_workers_are_held_until_the_first_has_written_the_caches() -> None:
    async with running(spec_for(*NEVER, "--phase-s", "0.5", cpu=3, start=StartMode.GATED)) as run:
        await run.until(lambda s: all(w.reason == HELD for w in s.workers[1:]))
        assert {worker.phase for worker in run.snapshot.workers[1:]} == {Phase.INITIALISING}
        assert b"Compiling" not in run.output("cpu0")
        await run.until(lambda s: all(w.state is WorkerState.RUNNING for w in s.workers))
        assert {worker.reason for worker in run.snapshot.workers} == {None}


async def test_a_held_worker_is_stopped_and_not_called_stuck() -> None:
    async with running(_for_ever(stuck_after_s=4.0)) as run:
        await _until_held(run)
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
    async with running(spec_for("--hang", "importing", "--silent", cpu=2, start=StartMode.GATED)) as run:
        await run.until(lambda s: s.workers[1].state is WorkerState.WAITING)
        await run.client.edit(("cpu1",), (*NEVER, "--phase-s", "0.5"), {})
        await run.until_state("cpu1", WorkerState.RUNNING)
        assert "held" not in run.log()


async def test_who_is_waited_for_is_always_who_is_first() -> None:
    async with running(spec_for(*NEVER, "--phase-s", "0.5", "--hang", "adding", cpu=3, start=StartMode.GATED)) as run:
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
    """The second is held for longer than a job may take, by a first one that does not end when its time is up."""
    timeout_s = 8.0
    batch = Batch(script=FAKE, args=("--lines", "2", "--ignore-sigint", "{more}"), timeout_s=timeout_s)
    spec = sweep_for(
        [{"more": "--hang=building"}, {"more": "--steady"}], batch, cpu=2, start=StartMode.GATED, sigint_wait_s=600.0
    )
    async with running(spec) as run:
        held = await run.until(lambda s: s.workers[1].reason == HELD)
        await run.until(lambda s: s.elapsed_s > held.elapsed_s + timeout_s)
        await run.until(lambda s: s.workers[0].reason == "timed out after 8 s")
        await run.client.act(Action.KILL, "cpu0")
        assert (await run.until_done()).finished == 1
        assert (await run.jobs())["job-2"].state is WorkerState.FINISHED


async def test_a_held_worker_ends_with_a_killed_engine() -> None:
    async with running(_for_ever()) as run:
        process = await _until_held(run)
        run.process.kill()
        await run.process.wait()
        _, alive = await asyncio.to_thread(psutil.wait_procs, [process], timeout=60)
        assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []
