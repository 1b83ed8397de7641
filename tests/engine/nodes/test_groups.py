"""Groups whose ranks are on several nodes: they meet at rank 0's, and end and start again as one."""

import asyncio
import json
from pathlib import Path
from typing import Any

import psutil
import pytest

from gmg_tui.machine.address import address_for
from gmg_tui.model import AlertAction, DdpSpec, RestartMode, RunSpec, Snapshot, WorkerState
from gmg_tui.scripts.torchrun import LOOPBACK
from gmg_tui.session.protocol import Action
from tests.engine.harness import running
from tests.engine.nodes.fleets import SLOTS, agent, nothing_left, on_nodes
from tests.engine.test_groups import RANK

FINISHED = WorkerState.FINISHED
_FAULTY = """
import sys
if "gmg_tui.engine" in sys.orig_argv:
    from gmg_tui.engine.nodes.fleet import Fleet
    async def faulty(self, slots):
        raise KeyError("a fault")
    Fleet.rendezvous_address = faulty
"""


def group(*args: str, size: int | None = None, **more: Any) -> RunSpec:
    return on_nodes(*args, script=RANK, ddp=DdpSpec(size), **more)


def variables(folder: Path, rank: int, attempt: int) -> dict[str, str]:
    return dict(json.loads((folder / f"{rank}-{attempt}.json").read_text()))


def all_are(snapshot: Snapshot, state: WorkerState) -> bool:
    return all(worker.state is state for worker in snapshot.workers)


async def test_the_ranks_of_a_group_over_nodes_meet_step_together_and_restart_as_one(tmp_path: Path) -> None:
    words = ("--steps", "8", "--die", "middle", "--rank", "2", "--tell", str(tmp_path))
    spec = group(*words, restart=RestartMode.FAILURE)
    async with running(spec) as run:
        await run.until(lambda snapshot: snapshot.ended and all_are(snapshot, FINISHED))
        assert {worker.attempt for worker in run.snapshot.workers} == {2}
        (ranks,) = run.snapshot.groups
        assert (ranks.slots, ranks.state) == (SLOTS, FINISHED)
    envs = [variables(tmp_path, rank, 1) for rank in range(4)]
    assert [(env["RANK"], env["LOCAL_RANK"], env["GROUP_RANK"]) for env in envs] == [
        ("0", "0", "0"),
        ("1", "1", "0"),
        ("2", "0", "1"),
        ("3", "1", "1"),
    ]
    assert {(env["WORLD_SIZE"], env["LOCAL_WORLD_SIZE"], env["GROUP_WORLD_SIZE"]) for env in envs} == {("4", "2", "2")}
    assert len({(env["MASTER_ADDR"], env["MASTER_PORT"]) for env in envs}) == 1
    assert envs[0]["MASTER_ADDR"] == (address_for(()) or LOOPBACK), "without a network there is only the loopback"
    assert {variables(tmp_path, rank, 2)["TORCHELASTIC_RESTART_COUNT"] for rank in range(4)} == {"1"}
    nothing_left(spec)


async def test_a_group_on_one_node_meets_on_its_loopback(tmp_path: Path) -> None:
    async with running(group("--steps", "3", "--tell", str(tmp_path), size=2)) as run:
        await run.until(lambda snapshot: snapshot.ended)
        assert all_are(run.snapshot, FINISHED)
        assert [group.slots for group in run.snapshot.groups] == [SLOTS[:2], SLOTS[2:]]
    assert variables(tmp_path, 0, 1)["MASTER_ADDR"] == "127.0.0.1"


async def test_a_group_over_nodes_is_controlled_by_the_user_and_restarts_after_losing_a_node() -> None:
    spec = group("--steps", "100000", restart=RestartMode.FAILURE)
    async with running(spec) as run:
        await run.until(lambda snapshot: all_are(snapshot, WorkerState.RUNNING))
        await run.client.act(Action.STOP, "n2/cpu0")
        await run.until(lambda snapshot: all_are(snapshot, WorkerState.STOPPED))
        await run.client.act(Action.RESTART, "n1/cpu1")
        await run.until(lambda snapshot: all_are(snapshot, WorkerState.RUNNING))
        assert {worker.attempt for worker in run.snapshot.workers} == {2}
        agent(spec, "n2").kill()
        await run.until(lambda snapshot: {worker.attempt for worker in snapshot.workers} == {3})
        await run.until(lambda snapshot: all_are(snapshot, WorkerState.RUNNING))
        await run.client.end()
    nothing_left(spec)


@pytest.mark.slow
async def test_a_group_is_not_stuck_because_its_engine_was_stopped() -> None:
    """What the nodes report meanwhile is read only later."""
    spec = group("--steps", "100000", stuck_after_s=5.0, on={"stuck": AlertAction.RESTART})
    async with running(spec) as run:
        await run.until(lambda snapshot: all_are(snapshot, WorkerState.RUNNING))
        engine = psutil.Process(run.process.pid)
        engine.suspend()
        await asyncio.sleep(7.0)
        engine.resume()
        since, stuck = run.snapshot.elapsed_s, set[str | None]()

        def later(snapshot: Snapshot) -> bool:
            stuck.add(snapshot.groups[0].stuck)
            return snapshot.elapsed_s > since + 8.0

        await run.until(later)
        assert stuck == {None}
        assert {worker.attempt for worker in run.snapshot.workers} == {1}
        await run.client.end()


async def test_an_internal_error_fails_its_group_and_the_session_ends_cleanly(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(_FAULTY)
    spec = group("--steps", "3")
    async with running(spec, {"PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}) as run:
        await run.until(lambda snapshot: snapshot.ended)
        assert all_are(run.snapshot, WorkerState.FAILED)
        assert any("internal error (KeyError: 'a fault')" in (worker.reason or "") for worker in run.snapshot.workers)
    nothing_left(spec)
