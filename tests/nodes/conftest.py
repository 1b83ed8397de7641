"""Ray clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.nodes.ray_cluster import GPUS, RayCluster
from tests.nvml_sim import Sim


@pytest.fixture
def start_ray() -> Iterator[Callable[..., RayCluster]]:
    """Start a cluster, or skip the test."""
    started: list[RayCluster] = []

    def start(*environs: Mapping[str, str]) -> RayCluster:
        cluster = RayCluster(*environs)
        if not cluster.address:
            pytest.skip("Ray does not start here")
        started.append(cluster)
        return cluster

    yield start
    for cluster in started:
        cluster.end()


@pytest.fixture
def ray(start_ray: Callable[..., RayCluster]) -> RayCluster:
    """A cluster of two nodes."""
    return start_ray()


@pytest.fixture
def ray_with_gpus(start_ray: Callable[..., RayCluster], nvml_library: Path, tmp_path: Path) -> RayCluster:
    """Two nodes, each of which has a simulated driver that shows four GPUs of its own."""
    sims = [Sim(tmp_path / name, nvml_library, 2 * GPUS) for name in ("first", "second")]
    sims[0].gpus, sims[1].gpus = sims[0].gpus[:GPUS], sims[1].gpus[GPUS:]
    for sim in sims:
        sim.write()
    return start_ray(*(sim.env() for sim in sims))
