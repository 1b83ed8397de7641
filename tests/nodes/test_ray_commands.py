"""`gpus`, `ls` and `doctor` on a real Ray cluster of two nodes, and what workers there have of Ray's variables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gmg_tui import session as sessions
from tests.cli.scripted import ScriptedEngine
from tests.engine.harness import running, spec_for
from tests.nodes.fleets import nothing_left
from tests.nodes.ray_cluster import GPUS, RayCluster

pytestmark = [pytest.mark.slow]


def gmg(ray: RayCluster, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of gmg-tui on the nodes of the cluster."""
    gmg_tui = (sys.executable, "-m", "gmg_tui", *words, "--nodes", f"ray:{ray.address}")
    return subprocess.run(gmg_tui, capture_output=True, text=True, check=False)


def rows(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """The rows of JSON that it has printed."""
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_gpus_of_all_nodes_are_listed_while_somebody_holds_one(ray_with_gpus: RayCluster) -> None:
    ray_with_gpus.do("hold")
    found = rows(gmg(ray_with_gpus, "gpus", "--json"))
    first, second = dict.fromkeys(row["node"] for row in found)
    assert second == f"{first}-2"
    assert [(row["node"], row["index"]) for row in found] == [
        (name, i) for name in (first, second) for i in range(GPUS)
    ]
    assert len({row["uuid"] for row in found}) == 2 * GPUS
    assert ray_with_gpus.free_gpus() == 2 * GPUS - 1


def test_sessions_of_all_nodes_are_listed(ray: RayCluster) -> None:
    engine = ScriptedEngine(("cpu0", "cpu1"))
    sessions.write_record(sessions.Record(engine.session, engine.briefs))
    found = rows(gmg(ray, "ls", "--json"))
    assert [row["name"] for row in found] == ["sim-1", "sim-1"]
    assert len({row["node"] for row in found}) == 2


def test_doctor_compares_all_nodes(ray: RayCluster) -> None:
    done = gmg(ray, "doctor", "--json")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    assert len({row["node"] for row in found} - {None}) == 2
    (python,) = (row for row in found if row["node"] is None and row["check"] == "Python")
    assert python["verdict"] == "ok"
    assert python["found"].startswith("the same on all 2 nodes: ")
    assert not [row for row in found if row["check"] == "node"], "each could be asked"


async def test_rays_number_of_threads_does_not_reach_a_worker(ray: RayCluster, tmp_path: Path) -> None:
    words = ("--lines", "5", "--phase-s", "0.01", "--print-env", str(tmp_path / "{i}.json"))
    spec = spec_for(*words, cpu=1, nodes=ray.nodes())
    async with running(spec) as run:
        await run.until(lambda snapshot: snapshot.ended)
    for index in range(2):
        env = json.loads((tmp_path / f"{index}.json").read_text())["env"]
        assert env["OMP_NUM_THREADS"] == str(len(os.sched_getaffinity(0))), "Ray gives its actors one"
    nothing_left(spec)
