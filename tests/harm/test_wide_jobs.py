"""Queues of wide and narrow jobs under harm: each job ends once, no slot has two, and no process remains."""

from __future__ import annotations

import asyncio
import contextlib
import random

import psutil
import pytest

from gmg_tui.client import EngineClient
from gmg_tui.model import DdpSpec, QueueAction, RestartMode, Value, WorkerState
from gmg_tui.session import STORE
from gmg_tui.store import reader
from tests.engine.harness import program, running, sweep_for
from tests.engine.test_groups import RANK

from . import storms

SLOTS = ("cpu0", "cpu1", "cpu2", "cpu3")
JOBS = 16
ENDED = (WorkerState.FINISHED, WorkerState.FAILED, WorkerState.STOPPED)


def _jobs(chance: random.Random) -> list[dict[str, Value]]:
    kinds: list[dict[str, Value]] = [{}, {"ranks": 1}, {"ranks": 2}, {"ranks": 3}, {"ranks": 4}]
    return [{**chance.choice(kinds), "steps": chance.randint(2, 30)} for _ in range(JOBS)]


async def _queue(client: EngineClient, slot: str, chance: random.Random) -> None:
    await client.act_on_jobs(chance.choice(list(QueueAction)), chance.randint(1, JOBS))


async def _use(client: EngineClient, slot: str, chance: random.Random) -> None:
    await client.use_slot(slot, used=chance.random() < 0.6)


async def _stacks(client: EngineClient, slot: str, chance: random.Random) -> None:
    await client.stacks(slot)


async def _kill_ranks(engine: psutil.Process, chance: random.Random) -> None:
    """Kill a rank now and then, whichever it is."""
    for _ in range(storms.COMMANDS // 8):
        await asyncio.sleep(chance.uniform(0.0, 0.6))
        ranks = storms.ranks(engine)
        if ranks:
            with contextlib.suppress(psutil.Error):
                chance.choice(ranks).kill()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(2))
async def test_a_storm_of_two_clients_over_wide_and_narrow_jobs(seed: int) -> None:
    chance = random.Random(seed)
    batch = program("--steps", "{steps}", "--step-s", "0.02", script=RANK)
    spec = sweep_for(_jobs(chance), batch, cpu=4, ddp=DdpSpec(), restart=RestartMode.FAILURE, max_restarts=1)
    async with running(spec) as run:
        engine = psutil.Process(run.process.pid)
        await asyncio.gather(storms.storm(run, seed, SLOTS, _queue, _queue, _use, _stacks), _kill_ranks(engine, chance))
        for slot in SLOTS:
            await run.client.use_slot(slot, used=True)
        await run.until(lambda snapshot: snapshot.ended, timeout_s=300.0)
        view = await run.client.queue(0, JOBS)
        assert sorted(job.number for job in view) == list(range(1, JOBS + 1))
        assert {job.state for job in view} <= set(ENDED)
        assert storms.ranks(engine) == []
        assert "Traceback" not in run.log()
    with reader.open_store(run.folder / STORE) as store:
        stored = {job.number: job for job in store.jobs}
        slots = {number: {run.slot for run in attempts} for number, attempts in store.attempts.items()}
    for job in view:
        assert stored[job.number].state is job.state
        if job.state is WorkerState.FINISHED:
            assert len(job.slots or (job.slot,)) == job.width
            assert set(job.slots or (job.slot,)) <= slots[job.number]
