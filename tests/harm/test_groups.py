"""Groups of ranks under harm: each ends with one sentence that names rank and cause, or goes on; no rank remains."""

import asyncio
import contextlib
import random
import socket
import time
from pathlib import Path

import psutil
import pytest

from gmg_tui import session as sessions
from gmg_tui.model import DdpSpec, QueueAction, RestartMode, Snapshot, Value, WorkerState
from gmg_tui.session import STORE
from gmg_tui.session.client import EngineClient
from gmg_tui.session.protocol import Action
from gmg_tui.session.store import reader
from tests.engine.harness import Running, program, running, spec_for, sweep_for
from tests.engine.test_groups import RANK, group_of
from tests.patience import alive, eventually

from . import storms

RUNNING = WorkerState.RUNNING
FOREVER = ("--steps", "1000000")
SETTLED = (RUNNING, WorkerState.FAILED, WorkerState.STOPPED)
SLOTS = ("cpu0", "cpu1", "cpu2")
ROUNDS = 16


def _all(snapshot: Snapshot, *states: WorkerState) -> bool:
    return all(worker.state in states for worker in snapshot.workers)


def _as_one(snapshot: Snapshot) -> bool:
    """Whether all ranks are in the same state and, while they run, in the same attempt.

    A rank that its group called off before it had a process has no part in the last attempt.
    """
    return len({(w.state, w.attempt if w.state is RUNNING else None) for w in snapshot.workers}) == 1


def _processes(run: Running) -> list[psutil.Process]:
    return [psutil.Process(worker.pid) for worker in run.snapshot.workers if worker.pid]


async def test_a_killed_engine_leaves_no_rank_not_even_a_stopped_one() -> None:
    spec = group_of(*FOREVER, "--deaf", cpu=3)
    async with running(spec) as run:
        await run.until(lambda snapshot: _all(snapshot, RUNNING))
        ranks = _processes(run)
        assert len(ranks) == 3
        ranks[1].suspend()
        run.process.kill()
        await run.process.wait()
        await eventually(lambda: sessions.find(spec.name, running=False).state == "lost")
        assert not any(map(alive, ranks))


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_ranks_killed_during_their_start_end_the_whole_group() -> None:
    chance = random.Random(15)
    async with running(group_of(*FOREVER, cpu=3, restart=RestartMode.NEVER)) as run:
        began = time.monotonic()
        await run.until(lambda snapshot: _all(snapshot, RUNNING))
        start_s = time.monotonic() - began
        reasons = set()
        for _ in range(ROUNDS):
            await run.client.act(Action.RESTART, chance.choice(SLOTS))
            await asyncio.sleep(chance.uniform(0.0, 1.5 * start_s))
            slot = chance.choice(SLOTS)
            pid = run.worker(slot).pid
            if pid is not None and chance.random() < 0.7:
                with contextlib.suppress(psutil.Error):
                    psutil.Process(pid).kill()
            else:
                await run.client.act(Action.KILL, slot)
            await run.until(lambda snapshot: _all(snapshot, *SETTLED) and _as_one(snapshot))
            reasons.add(run.snapshot.groups[0].reason)
        assert {str(reason).partition(": ")[2][:17] for reason in reasons if reason} <= {"Killed by SIGKILL"}
        await run.client.act(Action.RESTART, "cpu0")
        await run.until(lambda snapshot: _all(snapshot, RUNNING) and _as_one(snapshot))
        assert "Traceback" not in run.log()
        await run.client.end(kill=True)


async def _edit(client: EngineClient, slot: str, chance: random.Random) -> None:
    await client.edit((slot,), ("--steps", str(chance.randint(10**6, 10**7))), {})


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(2))
async def test_a_storm_of_commands_of_two_clients_leaves_one_group(seed: int) -> None:
    async with running(group_of(*FOREVER, cpu=3, restart=RestartMode.FAILURE)) as run:
        await storms.storm(run, seed, SLOTS, _edit)
        await run.client.edit(("cpu1",), ("--steps", "1000001"), {})
        await run.until(
            lambda snapshot: _all(snapshot, RUNNING) and _as_one(snapshot)
            and {worker.newest.args for worker in snapshot.workers} == {("--steps", "1000001")}
        )  # fmt: skip
        ranks = _processes(run)
        assert len({rank.environ()["MASTER_PORT"] for rank in ranks}) == 1
        assert set(storms.ranks(psutil.Process(run.process.pid))) == set(ranks)
        assert "Traceback" not in run.log()
        await run.client.act(Action.KILL, "cpu2")
        await run.until(lambda snapshot: _all(snapshot, WorkerState.STOPPED))
        await eventually(lambda: not any(map(alive, ranks)))
        await run.client.end(kill=True)


TORCH = """
import os, sys, time
from pathlib import Path
import torch
import torch.distributed as dist
port = Path(sys.argv[1], f"{os.environ['RANK']}-{os.environ['GMG_ATTEMPT']}")
port.write_text(os.environ["MASTER_PORT"] + ".")
while not Path(sys.argv[1], "gate").exists():
    time.sleep(0.02)
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print("total", total.item())
dist.destroy_process_group()
"""


async def test_a_port_taken_by_another_process_is_replaced(tmp_path: Path) -> None:
    """With torch's own store and gloo."""
    pytest.importorskip("torch")
    script, first = tmp_path / "rank.py", tmp_path / "0-1"
    script.write_text(TORCH)
    spec = spec_for(str(tmp_path), script=str(script), cpu=2, ddp=DdpSpec(), restart=RestartMode.NEVER)
    async with running(spec) as run:
        await eventually(lambda: first.is_file() and first.read_text().endswith("."))
        port = int(first.read_text()[:-1])
        with socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True):
            (tmp_path / "gate").touch()
            await run.until(lambda snapshot: snapshot.ended)
        assert _all(run.snapshot, WorkerState.FINISHED), run.snapshot.groups
        assert {worker.attempt for worker in run.snapshot.workers} == {2}
        assert int((tmp_path / "0-2").read_text()[:-1]) != port
        assert b"total 2.0" in run.output("cpu1")
        await run.client.end()


# Queues of wide and narrow jobs under harm: each job ends once, no slot has two, and no process remains

FOUR = ("cpu0", "cpu1", "cpu2", "cpu3")
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
        await asyncio.gather(storms.storm(run, seed, FOUR, _queue, _queue, _use, _stacks), _kill_ranks(engine, chance))
        for slot in FOUR:
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
