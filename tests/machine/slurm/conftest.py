"""The cluster of these tests, one for all of them."""

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .cluster import Cluster, missing


@pytest.fixture(scope="session")
def slurm() -> Iterator[Cluster]:
    """A real Slurm of two nodes with four GPUs each, as it counts them."""
    lacking = missing()
    if lacking is not None:
        pytest.skip(f"no Slurm: {lacking}")
    with tempfile.TemporaryDirectory(prefix="slurm-", dir="/tmp") as folder:
        cluster = Cluster(Path(folder))
        try:
            try:
                cluster.start()
            except (OSError, subprocess.SubprocessError, AssertionError, LookupError) as error:
                pytest.skip(f"Slurm does not start here: {error}")
            yield cluster
        finally:
            cluster.stop()
