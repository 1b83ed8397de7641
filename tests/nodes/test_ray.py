"""Sessions on a real Ray cluster of two nodes."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from gmg_tui import session
from gmg_tui.model import LauncherKind, NodesSpec, WorkerState
from gmg_tui.store import reader
from tests.engine.harness import job_batch, running, spawn, spec_for, sweep_for
from tests.nodes.fleets import agents, nothing_left

pytestmark = [pytest.mark.slow]

ROOT = Path(__file__).parents[2]


class RayCluster:
    """The cluster, in a process of its own."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.nodes.ray_cluster"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
        )
        assert self.process.stdout is not None
        self.address = next((line for line in self.process.stdout if line[:1].isdigit()), "").strip()

    def do(self, what: str) -> None:
        """Take the second node away, or make another."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        assert any(line == "done\n" for line in self.process.stdout)

    def nodes(self) -> NodesSpec:
        """What `--nodes ray:ADDRESS` says."""
        return NodesSpec(LauncherKind.RAY, self.address, orphan_wait_s=2.0)


@pytest.fixture
def ray() -> Iterator[RayCluster]:
    cluster = RayCluster()
    if not cluster.address:
        pytest.skip("Ray does not start here")
    try:
        yield cluster
    finally:
        assert cluster.process.stdin is not None
        cluster.process.stdin.close()
        cluster.process.wait(60)


async def test_a_run_has_the_slots_of_all_nodes(ray: RayCluster) -> None:
    spec = spec_for("--lines", "20", "--phase-s", "0.01", cpu=2, nodes=ray.nodes())
    async with running(spec) as run:
        await run.until(lambda snapshot: snapshot.ended)
        first, second = dict.fromkeys(slot.node for slot in run.client.welcome.session.slots)
        assert second == f"{first}-2"
    assert {worker["state"] for worker in run.summary()["workers"]} == {"finished"}
    nothing_left(spec)


async def test_the_jobs_of_a_node_that_leaves_run_on_one_that_joins(ray: RayCluster, tmp_path: Path) -> None:
    go = tmp_path / "go"
    spec = sweep_for(
        [{"value": str(number)} for number in range(4)], job_batch("--until", str(go)), cpu=1, nodes=ray.nodes()
    )
    async with running(spec) as run:
        await run.until(lambda _: run.queue.running == 2 and all(worker.pid for worker in run.snapshot.workers))
        ray.do("remove")
        await run.until(lambda snapshot: not all(node.connected for node in snapshot.nodes))
        ray.do("add")
        await run.until(lambda snapshot: all(node.connected for node in snapshot.nodes), timeout_s=90)
        await run.until(lambda _: run.queue.running == 2)
        go.touch()
        await run.until_done()
    records = reader.load_jobs(run.folder / session.STORE)
    assert Counter(record.state for record in records) == {WorkerState.FINISHED: 4}
    nothing_left(spec)


async def test_without_a_cluster_that_is_said() -> None:
    process, said = await spawn(spec_for(cpu=1, nodes=NodesSpec(LauncherKind.RAY, "127.0.0.1:1")))
    await process.wait()
    assert not said["ok"]
    assert said["error"].startswith("--nodes ray: ")
    assert "127.0.0.1:1" in said["error"]
    assert not agents(spec_for())
