"""What goes wrong between a session and a real Ray cluster, by doing it."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import psutil
import pytest

from gmg_tui.model import LauncherKind, NodesSpec, WorkerState
from tests.engine.harness import Running, running, spawn, spec_for
from tests.harm.patience import eventually
from tests.nodes.fleets import agents, connected, nothing_left, of_session
from tests.nodes.ray_cluster import RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ENDLESS = ("--lines", "1000000", "--phase-s", "0.01")
LONG_S = 300.0
"""Ray's own parts try for a minute to reach a head that is gone."""


async def all_run(run: Running) -> dict[str, int]:
    """Wait until all workers run. Returns their PIDs."""
    slots = [slot.name for slot in run.client.welcome.session.slots]
    for slot in slots:
        await run.until_state(slot, WorkerState.RUNNING)
    await run.until(lambda _: all(run.worker(slot).pid for slot in slots))
    return {slot: run.worker(slot).pid or 0 for slot in slots}


def driver(run: Running) -> psutil.Process:
    """The process that speaks with Ray."""
    (found,) = (one for one in psutil.Process(run.process.pid).children() if one.cmdline()[3].endswith(".ray_driver"))
    return found


async def test_a_driver_that_is_killed_is_started_again_and_costs_no_worker(ray: RayCluster) -> None:
    nodes = NodesSpec(LauncherKind.RAY, ray.address)
    spec = spec_for(*ENDLESS, cpu=1, nodes=nodes)
    async with running(spec) as run:
        before = await all_run(run)
        names = [node.name for node in run.snapshot.nodes]
        killed = driver(run)
        killed.kill()
        await eventually(lambda: all(f"{name} is connected again" in run.log() for name in names), timeout_s=LONG_S)
        await run.until(lambda snapshot: all(connected(snapshot).values()))
        assert driver(run).pid != killed.pid
        assert {slot: run.worker(slot).pid for slot in before} == before
        assert {worker.attempt for worker in run.snapshot.workers} == {1}
        await run.client.end()
    nothing_left(spec)


async def test_a_head_that_is_lost_for_good_ends_the_session_and_leaves_nothing(ray: RayCluster) -> None:
    spec = spec_for(*ENDLESS, cpu=1, nodes=ray.nodes())
    async with running(spec) as run:
        await all_run(run)
        ray.do("lose")
        await run.until(lambda snapshot: all(node.lost_since for node in snapshot.nodes), timeout_s=LONG_S)
        said = f"nothing answers at {ray.address}: Connection refused"
        lost = [rf"{node.name}: lost since [\d:]+: {said}" for node in run.snapshot.nodes]
        await run.until(
            lambda snapshot: all(any(re.fullmatch(one, note) for note in snapshot.notes) for one in lost),
            timeout_s=LONG_S,
        )
        assert not of_session(spec)
        assert not agents(spec)
        assert {worker.state for worker in run.snapshot.workers} == {WorkerState.RESTARTING}
        # Its head might be started again; after a while that is not expected any more.
        await run.until(lambda snapshot: snapshot.ended, timeout_s=LONG_S)
        assert {worker.state for worker in run.snapshot.workers} == {WorkerState.FAILED}
        assert re.search(rf"no node is left: the Ray cluster has been away for \d:\d\d: {said}", run.log())
        await run.client.close()
        await run.process.wait()
    nothing_left(spec)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("127.0.0.1:1", "127.0.0.1:1: Connection refused"),
        ("//127.0.0.1:1", "127.0.0.1:1: Connection refused"),
        ("//no.invalid", "no.invalid:10001: "),
    ],
    ids=["host", "client", "name"],
)
async def test_without_a_cluster_that_is_said_before_ray_is_asked(where: str, said: str) -> None:
    process, answer = await spawn(spec_for(cpu=1, nodes=NodesSpec(LauncherKind.RAY, where)))
    await process.wait()
    assert not answer["ok"]
    assert answer["error"].startswith(f"--nodes ray: nothing answers at {said}")  # a resolver has its own words
    assert not agents(spec_for())


async def test_a_port_of_another_program_is_no_cluster() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        where = f"127.0.0.1:{other.getsockname()[1]}"
        process, answer = await spawn(spec_for(cpu=1, nodes=NodesSpec(LauncherKind.RAY, where)))
        await process.wait()
    assert not answer["ok"]
    assert answer["error"].startswith("--nodes ray: ")
    assert where in answer["error"]
    assert "\n" not in answer["error"]


async def test_without_ray_the_extra_is_named(tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text("raise ImportError('No module named ray')\n")
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    with socket.create_server(("127.0.0.1", 0)) as head:
        spec = spec_for(cpu=1, nodes=NodesSpec(LauncherKind.RAY, f"127.0.0.1:{head.getsockname()[1]}"))
        process, said = await spawn(spec, {"PYTHONPATH": os.pathsep.join(paths)})
        await process.wait()
    assert said["error"] == "--nodes ray: Ray is not installed here: pip install 'gmg-tui[ray]'"
