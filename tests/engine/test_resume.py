"""A sweep that is gone on with: by one engine, which alone writes what the session has."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import psutil
from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui.client import EngineClient
from gmg_tui.commands.prestart import PrestartedEngine
from gmg_tui.model import RunSpec, WorkerState
from gmg_tui.store import reader
from tests.patience import eventually

from .harness import program, running, sweep_for

FINISHED, FAILED, WAITING, RUNNING = (
    WorkerState.FINISHED,
    WorkerState.FAILED,
    WorkerState.WAITING,
    WorkerState.RUNNING,
)


def _states(spec: RunSpec) -> list[WorkerState]:
    return [job.state for job in reader.load_jobs(Path(spec.folder) / sessions.STORE)]


async def test_failed_jobs_run_again_on_request() -> None:
    batch = program("--fail", "{code}", "--fail-attempts", "1")
    spec = sweep_for([{"code": 0}, {"code": 3}], batch, cpu=1)
    for retry_failed, states in ((False, [FINISHED, FAILED]), (False, [FINISHED, FAILED]), (True, [FINISHED] * 2)):
        assert spec.sweep is not None
        resumed = structs.replace(spec, sweep=structs.replace(spec.sweep, retry_failed=retry_failed))
        async with running(resumed) as run:
            await run.until_done()
        assert _states(spec) == states
    first, second = reader.load_jobs(Path(spec.folder) / sessions.STORE)
    assert (first.last.number, second.last.number, second.last.exit_code, second.reason) == (1, 2, 0, None)


async def test_a_job_ended_together_with_its_engine_is_requeued() -> None:
    """As by Slurm, which sends SIGTERM to all processes of its job; a job receives it as soon as the engine, or sooner."""
    spec = sweep_for([{"s": 600}, {"s": 600}], program("--s", "{s}"), cpu=2)
    async with running(spec) as run:
        await run.until(lambda _: run.queue.running == 2 and all(worker.pid for worker in run.snapshot.workers))
        jobs = [psutil.Process(worker.pid) for worker in run.snapshot.workers]
        for job in jobs:
            job.terminate()
        await eventually(lambda: not any(psutil.pid_exists(job.pid) for job in jobs))  # and reaped
        run.process.terminate()
        await run.process.wait()
    assert _states(spec) == [WAITING] * 2
    assert [job.reason for job in reader.load_jobs(Path(spec.folder) / sessions.STORE)] == [
        "interrupted: the session was ended by SIGTERM"
    ] * 2


async def test_a_late_second_engine_changes_nothing() -> None:
    spec = sweep_for([{"code": 3, "s": 0}, {"code": 0, "s": 600}], program("--fail", "{code}", "--s", "{s}"), cpu=1)
    async with running(spec) as run:
        await run.until(lambda _: run.queue.failed == 1 and run.worker("cpu0").pid and run.queue.running == 1)
        socket = Path(spec.socket).stat().st_ino
        # Both have found the session ended, and the other one was quicker.
        assert spec.sweep is not None
        again = structs.replace(spec, sweep=structs.replace(spec.sweep, retry_failed=True))
        with PrestartedEngine() as engine:
            assert engine.process.stdout is not None
            engine.order(msgspec.json.encode(again) + b"\nconfirm\n")
            assert b"an engine is already running in" in await asyncio.to_thread(engine.process.stdout.read)
            engine.cancel()
        assert Path(spec.socket).stat().st_ino == socket
        assert _states(spec)[0] is FAILED
        client = await EngineClient.connect(Path(spec.socket))
        await client.close()
