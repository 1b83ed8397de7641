"""Sessions on a real Ray cluster of two nodes."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from gmg_tui import session
from gmg_tui.model import WorkerState
from gmg_tui.store import reader
from tests.engine.harness import job_batch, running, spawn, spec_for, sweep_for
from tests.harm.patience import wait_until
from tests.nodes.fleets import nothing_left
from tests.nodes.ray_cluster import GPUS, RayCluster

pytestmark = [pytest.mark.slow]

POWERS_W = {600.5 + number for number in range(2 * GPUS)}
"""Of the simulated GPUs."""


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


async def test_the_jobs_of_a_node_that_leaves_run_on_the_one_that_stays(ray: RayCluster, tmp_path: Path) -> None:
    go = tmp_path / "go"
    batch = job_batch("--until", str(go))
    spec = sweep_for([{"value": str(number)} for number in range(4)], batch, cpu=1, nodes=ray.nodes())
    async with running(spec) as run:
        await run.until(lambda _: run.queue.running == 2 and all(worker.pid for worker in run.snapshot.workers))
        ray.do("remove")
        await run.until(lambda snapshot: any(node.lost_since for node in snapshot.nodes))
        (lost,) = (node.name for node in run.snapshot.nodes if node.lost_since)
        note = rf"{lost}: lost since [\d:]+: it has left the Ray cluster"
        await run.until(lambda snapshot: any(re.fullmatch(note, one) for one in snapshot.notes))
        go.touch()
        await run.until_done()
    records = reader.load_jobs(run.folder / session.STORE)
    assert Counter(record.state for record in records) == {WorkerState.FINISHED: 4}
    assert sum(record.attempts for record in records) == 5
    nothing_left(spec)


async def test_workers_have_the_gpus_that_ray_counts(ray_with_gpus: RayCluster, tmp_path: Path) -> None:
    ray = ray_with_gpus
    assert ray.free_gpus() == 2 * GPUS
    words = ("--lines", "20", "--phase-s", "0.01", "--print-env", str(tmp_path / "{i}.json"))
    spec = spec_for(*words, cpu=None, nodes=ray.nodes())
    async with running(spec) as run:
        first, second = (node.name for node in run.snapshot.nodes)
        slots = run.client.welcome.session.slots
        assert [slot.name for slot in slots] == [f"{node}/gpu{i}" for node in (first, second) for i in range(GPUS)]
        assert len({slot.gpu.uuid for slot in slots if slot.gpu is not None}) == 2 * GPUS
        assert ray.free_gpus() == 0
        await run.until(lambda snapshot: {sample.power_w for sample in snapshot.samples} == POWERS_W)
        await run.until(lambda snapshot: snapshot.ended)
    for index in range(2 * GPUS):
        env = json.loads((tmp_path / f"{index}.json").read_text())["env"]
        assert env["CUDA_VISIBLE_DEVICES"] == str(index % GPUS)
    wait_until(lambda: ray.free_gpus() == 2 * GPUS)
    nothing_left(spec)


async def test_gpus_that_others_hold_are_said(ray_with_gpus: RayCluster) -> None:
    ray_with_gpus.do("hold")
    spec = spec_for(cpu=None, nodes=ray_with_gpus.nodes())
    process, said = await spawn(spec)
    await process.wait()
    assert not said["ok"]
    assert said["error"].startswith("1 of 2 nodes cannot be used: ")
    assert "1 of its 4 GPUs is held by another actor or task of Ray's; --min-nodes 1 goes on without" in said["error"]
    wait_until(lambda: ray_with_gpus.free_gpus() == 2 * GPUS - 1)
    nothing_left(spec)
