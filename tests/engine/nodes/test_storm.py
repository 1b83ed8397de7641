"""A storm over a sweep on nodes: agents, connections and workers are killed, or stand still, at moments of chance."""

import asyncio
import os
import random
import signal
from collections import Counter
from pathlib import Path

import psutil
import pytest

from gmg_tui import session
from gmg_tui.model import RestartMode, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.session.protocol import Action
from gmg_tui.session.store import reader
from tests.engine.harness import Running, marks, program, running, sweep_for
from tests.engine.nodes.fleets import agent, bridge, nodes, nothing_left

pytestmark = pytest.mark.slow

NAMES = ("n1", "n2", "n3")
JOBS = 40
JOB_S = 0.6
HARMS = 60  # On a slow machine each job would be killed for ever.


async def storm(run: Running, chance: random.Random) -> Counter[str]:
    """Do harm to a session until all jobs have ended, `HARMS` times at most. Returns what was done how often."""
    done: Counter[str] = Counter()
    while not run.snapshot.ended and done.total() < HARMS:
        node = chance.choice(NAMES)
        slot = f"{node}/cpu{chance.randrange(2)}"
        harm = chance.choice(
            ("kill agent", "end agent", "cut", "stall connection", "stall agent", "kill worker", "restart")
        )
        try:
            match harm:
                case "kill agent":
                    agent(run.spec, node).kill()
                case "end agent":
                    agent(run.spec, node).terminate()
                case "cut":
                    bridge(run.process.pid, node).kill()
                case "stall connection":
                    await _stall(bridge(run.process.pid, node), chance.uniform(0.1, 2.0))
                case "stall agent":
                    await _stall(agent(run.spec, node), chance.uniform(0.1, 2.0))
                case "kill worker" if (pid := run.worker(slot).pid) is not None:
                    os.kill(pid, signal.SIGKILL)
                case "restart":
                    await run.client.act(Action.RESTART, slot)
                case _:  # it has no process at this moment
                    continue
        except (ValueError, psutil.Error, ProcessLookupError, GmgError):
            continue  # it is not there at this moment
        done[harm] += 1
        await asyncio.sleep(chance.uniform(0.05, 0.8))
    return done


async def _stall(process: psutil.Process, seconds: float) -> None:
    process.suspend()
    try:
        await asyncio.sleep(seconds)
    finally:
        process.resume()


@pytest.mark.parametrize("seed", range(2))
async def test_every_job_ends_once_and_no_slot_has_two_in_a_storm(seed: int, marked: Path) -> None:
    batch = program("--marks", str(marked), "--value", "{value}", "--s", str(JOB_S))
    spec = sweep_for(
        [{"value": f"v{number}"} for number in range(JOBS)],
        batch,
        cpu=2,
        nodes=nodes(len(NAMES)),
        restart=RestartMode.FAILURE,
        max_restarts=1000,
    )
    async with running(spec) as run:
        done = await storm(run, random.Random(seed))
        queue = await run.until_done()
        assert (queue.finished, queue.failed, queue.jobs) == (JOBS, 0, JOBS), done
    assert done
    records = reader.load_jobs(run.folder / session.STORE)
    assert all(record.state is WorkerState.FINISHED for record in records)
    seen = marks(marked)
    assert {mark["value"] for mark in seen if mark.get("exit") == 0} == {f"v{number}" for number in range(JOBS)}
    free: dict[str, float] = {}
    for mark in seen:  # a killed attempt did not write when it ended
        slot = mark["GMG_SLOT"]
        assert mark["began"] >= free.get(slot, 0.0), (slot, done)
        free[slot] = max(free.get(slot, 0.0), mark.get("ended", 0.0))
    nothing_left(spec)
