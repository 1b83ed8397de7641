"""Queues of wide and narrow jobs under harm: each job ends once, no slot has two, and no process is left."""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path

import psutil
import pytest

from gmg_tui.client import EngineClient
from gmg_tui.errors import GmgError
from gmg_tui.model import Batch, DdpSpec, QueueAction, RestartMode, Value, WorkerState
from gmg_tui.protocol import Action
from gmg_tui.session import STORE
from gmg_tui.store import reader
from tests.engine.harness import Running, running, sweep_for
from tests.engine.test_groups import RANK

from .scale import full

SLOTS = ("cpu0", "cpu1", "cpu2", "cpu3")
JOBS = full(60, short=16)
COMMANDS = full(300, short=50)
SEEDS = range(full(6, short=2))
ENDED = (WorkerState.FINISHED, WorkerState.FAILED, WorkerState.STOPPED)


def _jobs(chance: random.Random) -> list[dict[str, Value]]:
    kinds: list[dict[str, Value]] = [{}, {"gpus": 2}, {"ranks": 1}, {"ranks": 2}, {"ranks": 3}, {"ranks": 4}]
    return [{**chance.choice(kinds), "steps": chance.randint(2, 30)} for _ in range(JOBS)]


async def _storm(client: EngineClient, chance: random.Random) -> None:
    """What two people do at once who do not agree."""
    for _ in range(COMMANDS):
        slot, job = chance.choice(SLOTS), chance.randint(1, JOBS)
        with contextlib.suppress(GmgError):
            match chance.choice(("restart", "stop", "kill", "queue", "queue", "use", "processes", "wait", "wait")):
                case "restart":
                    await client.act(Action.RESTART, slot)
                case "stop":
                    await client.act(Action.STOP, slot)
                case "kill":
                    await client.act(Action.KILL, slot)
                case "queue":
                    await client.act_on_jobs(chance.choice(list(QueueAction)), job)
                case "use":
                    await client.use_slot(slot, used=chance.random() < 0.6)
                case "processes":
                    await client.stacks(slot)
                case _:
                    await asyncio.sleep(chance.uniform(0.0, 0.3))


async def _kills(engine: psutil.Process, chance: random.Random) -> None:
    """Kill a rank now and then, whichever it is."""
    for _ in range(COMMANDS // 8):
        await asyncio.sleep(chance.uniform(0.0, 0.6))
        ranks = [one for one in engine.children(recursive=True) if _is_rank(one)]
        if ranks:
            with contextlib.suppress(psutil.Error):
                chance.choice(ranks).kill()


def _is_rank(process: psutil.Process) -> bool:
    try:
        return "fake_rank.py" in " ".join(process.cmdline())
    except psutil.Error:
        return False


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_storm_of_two_clients_over_wide_and_narrow_jobs(seed: int) -> None:
    chance = random.Random(seed)
    batch = Batch(script=RANK, args=("--steps", "{steps}", "--step-s", "0.02"), retries=1)
    spec = sweep_for(_jobs(chance), batch, cpu=4, ddp=DdpSpec(), restart=RestartMode.FAILURE, max_restarts=1)
    async with running(spec) as run:
        other = Running(run.process, await EngineClient.connect(Path(run.spec.socket)), run.spec)
        engine = psutil.Process(run.process.pid)
        try:
            await asyncio.gather(
                _storm(run.client, random.Random(chance.random())),
                _storm(other.client, random.Random(chance.random())),
                _kills(engine, random.Random(chance.random())),
            )
        finally:
            await other.leave()
        for slot in SLOTS:
            await run.client.use_slot(slot, used=True)
        await run.until(lambda snapshot: snapshot.ended, timeout_s=300.0)
        view = await run.client.queue(0, JOBS)
        assert sorted(job.number for job in view.jobs) == list(range(1, JOBS + 1))
        assert {job.state for job in view.jobs} <= set(ENDED)
        assert [lane.job for lane in view.lanes] == [None] * len(SLOTS)
        assert [one for one in engine.children(recursive=True) if _is_rank(one)] == []
        assert "Traceback" not in run.log()
    with reader.open_store(run.folder / STORE) as store:
        stored = {job.number: job for job in store.jobs}
        ran = {number: {one.slot for one in each} for number, each in store.attempts.items()}
    for job in view.jobs:
        assert stored[job.number].state is job.state
        if job.state is WorkerState.FINISHED:
            assert len(job.slots or (job.slot,)) == job.gpus
            assert set(job.slots if job.world_size else (job.slot,)) <= ran[job.number]
