"""A Ray cluster, one for all tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nodes.ray_cluster import GPUS, RayCluster
from tests.nvml_sim import Sim


@pytest.fixture(scope="session")
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
