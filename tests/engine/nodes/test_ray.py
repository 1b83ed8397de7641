"""Sessions on a real Ray cluster of two nodes, and what goes wrong with it, by doing it."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from gmg_tui import session
from gmg_tui.engine.launchers.ray import Ray, find_own_cluster
from gmg_tui.model import NodesSpec, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.session.store import reader
from tests.engine.harness import Running, program, running, spec_for, sweep_for
from tests.engine.nodes.fleets import ENDLESS, connected, nothing_left
from tests.engine.nodes.ray_cluster import GPUS, RayCluster
from tests.nvml_sim import Sim
from tests.patience import eventually, wait_until
from tests.workers import texts

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]

LONG_S = 300.0
"""A client of Ray's takes seconds to start."""


@pytest.fixture(scope="module")
def _cluster(nvml_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    """Two nodes, each of which has a simulated driver that shows four GPUs of its own."""
    folder = tmp_path_factory.mktemp("ray")
    sims = [Sim(folder / name, nvml_library, 2 * GPUS) for name in ("first", "second")]
    sims[0].gpus, sims[1].gpus = sims[0].gpus[:GPUS], sims[1].gpus[GPUS:]
    for sim in sims:
        sim.write()
    with tempfile.TemporaryDirectory(prefix="gmg-", dir="/tmp") as runtime:  # a socket's path has room for 107 bytes
        cluster = RayCluster({"XDG_STATE_HOME": str(folder), "XDG_RUNTIME_DIR": runtime}, *(sim.env() for sim in sims))
        yield cluster
        cluster.end()


@pytest.fixture
def ray(_cluster: RayCluster, own_folders: None, monkeypatch: pytest.MonkeyPatch) -> RayCluster:
    """The cluster, whose agents have the same folders as this test. Skips the test where Ray does not start."""
    if not _cluster.address:
        pytest.skip("Ray does not start here")
    for name, value in _cluster.folders.items():
        monkeypatch.setenv(name, value)
    return _cluster


def on_ray(cluster: RayCluster, *, orphan_wait_s: float = 2.0, lost_after_s: float = 15.0) -> NodesSpec:
    return NodesSpec(f"ray:{cluster.address}", orphan_wait_s=orphan_wait_s, lost_after_s=lost_after_s)


async def all_run(run: Running) -> dict[str, int]:
    await run.until(lambda s: all(worker.state is WorkerState.RUNNING and worker.pid for worker in s.workers))
    return {worker.slot: worker.pid or 0 for worker in run.snapshot.workers}


def drivers(run: Running) -> list[psutil.Process]:
    """The processes that are clients of Ray, one for each node."""
    children = psutil.Process(run.process.pid).children()
    return [child for child in children if any(word == Ray.__module__ for word in child.cmdline())]


async def test_workers_use_the_gpus_that_ray_reports(
    ray: RayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder := tmp_path / "anyones").mkdir()
    (folder / "zoneinfo.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')")
    monkeypatch.chdir(folder)
    assert ray.free_gpus() == 2 * GPUS
    words = ("--lines", "20", "--phase-s", "0.01", "--print-env", str(tmp_path / "{i}.json"))
    async with running(spec_for(*words, cpu=None, nodes=on_ray(ray))) as run:
        first, second = (node.name for node in run.snapshot.nodes)
        slots = run.client.welcome.session.slots
        assert [slot.name for slot in slots] == [f"{node}/gpu{i}" for node in (first, second) for i in range(GPUS)]
        assert len({slot.gpu.uuid for slot in slots if slot.gpu is not None}) == 2 * GPUS
        assert ray.free_gpus() == 0
        powers_w = {600.5 + number for number in range(2 * GPUS)}
        await run.until(lambda snapshot: {sample.power_w for sample in snapshot.samples} == powers_w)
        await run.until(lambda snapshot: snapshot.ended)
    assert {worker["state"] for worker in run.summary()["workers"]} == {"finished"}
    for index in range(2 * GPUS):
        env = json.loads((tmp_path / f"{index}.json").read_text())["env"]
        assert env["CUDA_VISIBLE_DEVICES"] == str(index % GPUS)
    assert not (tmp_path / "imported").exists()
    wait_until(lambda: ray.free_gpus() == 2 * GPUS)
    nothing_left(run.spec)


async def test_the_jobs_of_a_removed_node_run_on_the_other_and_on_its_replacement(
    ray: RayCluster, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    jobs = [{"value": str(number)} for number in range(4)]
    spec = sweep_for(jobs, program("--until", str(go)), cpu=1, nodes=on_ray(ray))
    async with running(spec) as run:
        await run.until(lambda _: run.queue.running == 2 and all(worker.pid for worker in run.snapshot.workers))
        ray.do("remove")
        await run.until(lambda snapshot: any(node.lost_since for node in snapshot.nodes))
        (lost,) = (node.name for node in run.snapshot.nodes if node.lost_since)
        note = rf"{lost}: lost since [\d:]+: it has left the Ray cluster"
        await run.until(lambda snapshot: any(re.fullmatch(note, text) for text in texts(snapshot.alerts)))
        await run.until(lambda _: run.queue.running == 1)
        ray.do("add")
        await run.until(lambda _: all(connected(run.snapshot).values()) and run.queue.running == 2, timeout_s=LONG_S)
        go.touch()
        await run.until_done()
    records = reader.load_jobs(run.folder / session.STORE)
    assert [record.state for record in records] == [WorkerState.FINISHED] * 4
    nothing_left(spec)


async def test_killed_drivers_restart_without_affecting_workers(ray: RayCluster) -> None:
    patient = on_ray(ray, orphan_wait_s=60.0, lost_after_s=60.0)  # Ray's client takes seconds to start
    async with running(spec_for(*ENDLESS, cpu=1, nodes=patient)) as run:
        before = await all_run(run)
        names = [node.name for node in run.snapshot.nodes]
        for each in drivers(run):
            each.kill()
        await eventually(lambda: all(f"{name} is connected again" in run.log() for name in names), timeout_s=LONG_S)
        await run.until(lambda snapshot: all(connected(snapshot).values()))
        assert {slot: run.worker(slot).pid for slot in before} == before
        assert {worker.attempt for worker in run.snapshot.workers} == {1}
        await run.client.end()
    nothing_left(run.spec)


async def test_an_address_without_a_cluster_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gmg_tui.engine.launchers.ray._ANSWER_TIMEOUT_S", 10.0)  # Ray may try for minutes
    with pytest.raises(GmgError, match=r"^--nodes ray: (no cluster at|the cluster at) 127\.0\.0\.1:1\b"):
        await Ray("127.0.0.1:1").list_nodes()


_NAMESAKES = """
def init(**options): pass
def nodes():
    rows = ("host", "10.0.0.2", 4), ("host", "10.0.0.1", 4), ("host-2", "10.0.0.3", 4), ("host", "10.0.0.4", 0)
    names = "Alive", "NodeID", "NodeName", "NodeManagerAddress", "Resources"
    return [dict(zip(names, (True, str(i), row[0], row[1], {"GPU": row[2]}))) for i, row in enumerate(rows)]
"""


async def test_each_of_two_nodes_of_one_name_has_a_name_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ray.py").write_text(_NAMESAKES)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    assert await Ray("host:1").list_nodes() == ("host", "host-2", "host-3")


async def test_without_ray_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ray.py").write_text("raise ImportError('No module named ray')\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    with pytest.raises(GmgError, match=r"^--nodes ray: Ray is not installed here: \S+ -m pip install ray$"):
        await Ray("").list_nodes()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can enter, unlike pytest's."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")
def test_only_ones_own_cluster_is_joined(open_folder: Path) -> None:
    """Another user can run a set-user-ID program of root as `raylet`, and stop it once all its user IDs are root's."""
    raylet_path = str(shutil.copy("/bin/sh", open_folder / "raylet"))

    def raylet(port: int, path: str, user: int | None) -> subprocess.Popen[bytes]:
        words = ("/x/raylet", "-c", "read line", "sh", f"--gcs-address=127.0.0.1:{port}")
        return subprocess.Popen(words, executable=path, stdin=subprocess.PIPE, user=user)

    with (
        raylet(1, raylet_path, None) as ours,
        raylet(2, raylet_path, 65534) as theirs,
        raylet(3, "/bin/sh", None) as disguised,
    ):
        assert find_own_cluster() == "127.0.0.1:1"
        ours.communicate()
        with suppress(ConnectionError):  # there is none, or the other tests' cluster
            assert find_own_cluster() not in {"127.0.0.1:2", "127.0.0.1:3"}
        theirs.communicate()
        disguised.communicate()
