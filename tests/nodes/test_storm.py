"""A storm over a sweep on nodes: agents, connections and workers are killed, or stand still, at moments of chance."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from gmg_tui import session
from gmg_tui.errors import GmgError
from gmg_tui.model import RestartMode, WorkerState
from gmg_tui.protocol import Action
from gmg_tui.store import reader
from tests.engine.harness import Running, job_batch, running, sweep_for
from tests.nodes.fleets import agent, bridge, nodes, nothing_left
from tests.nodes.test_sweeps import marks

pytestmark = pytest.mark.slow

NAMES = ("n1", "n2", "n3")
JOBS = 40
JOB_S = 0.6


class Storm:
    """Does harm to a session; what is gone already is left in peace."""

    def __init__(self, run: Running, chance: random.Random) -> None:
        self.run, self.chance = run, chance
        self.done: Counter[str] = Counter()

    async def blow(self) -> None:
        """Until all jobs have ended."""
        harms: tuple[Callable[[], Awaitable[None]], ...] = (
            self.kill_agent,
            self.cut_connection,
            self.stall_connection,
            self.stall_agent,
            self.kill_worker,
            self.restart_worker,
        )
        while not self.run.snapshot.ended:
            harm = self.chance.choice(harms)
            try:
                await harm()
            except (ValueError, psutil.Error, ProcessLookupError, GmgError):
                continue  # it is not there at this moment
            self.done[harm.__name__] += 1
            await asyncio.sleep(self.chance.uniform(0.05, 0.8))

    def _node(self) -> str:
        return self.chance.choice(NAMES)

    def _slot(self) -> str:
        return f"{self._node()}/cpu{self.chance.randrange(2)}"

    async def kill_agent(self) -> None:
        agent(self.run.spec, self._node()).kill()

    async def cut_connection(self) -> None:
        bridge(self.run.process.pid, self._node()).kill()

    async def stall_connection(self) -> None:
        await self._stall(bridge(self.run.process.pid, self._node()))

    async def stall_agent(self) -> None:
        await self._stall(agent(self.run.spec, self._node()))

    async def _stall(self, process: psutil.Process) -> None:
        process.suspend()
        try:
            await asyncio.sleep(self.chance.uniform(0.1, 2.0))
        finally:
            process.resume()

    async def kill_worker(self) -> None:
        pid = self.run.worker(self._slot()).pid
        if pid is None:
            raise ProcessLookupError
        os.kill(pid, signal.SIGKILL)

    async def restart_worker(self) -> None:
        await self.run.client.act(Action.RESTART, self._slot())


@pytest.mark.parametrize("seed", range(2))
async def test_every_job_ends_once_and_no_slot_has_two_in_a_storm(seed: int, tmp_path: Path) -> None:
    folder = tmp_path / "marks"
    folder.mkdir()
    batch = job_batch("--marks", str(folder), "--value", "{value}", "--s", str(JOB_S))
    spec = sweep_for(
        [{"value": f"v{number}"} for number in range(JOBS)],
        batch,
        cpu=2,
        nodes=nodes(len(NAMES)),
        restart=RestartMode.FAILURE,
        max_restarts=1000,
    )
    async with running(spec) as run:
        storm = Storm(run, random.Random(seed))
        await asyncio.wait_for(storm.blow(), 240)
        queue = run.queue
        assert (queue.finished, queue.failed, queue.jobs) == (JOBS, 0, JOBS), storm.done
    assert storm.done
    records = reader.load_jobs(run.folder / session.STORE)
    assert all(record.state is WorkerState.FINISHED for record in records)
    seen = marks(folder)
    assert {mark["value"] for mark in seen if mark.get("exit") == 0} == {f"v{number}" for number in range(JOBS)}
    free: dict[str, float] = {}
    for mark in seen:  # a killed attempt did not write when it ended
        slot = mark["GMG_SLOT"]
        assert mark["began"] >= free.get(slot, 0.0), (slot, storm.done)
        free[slot] = max(free.get(slot, 0.0), mark.get("ended", 0.0))
    nothing_left(spec)
