"""The cluster of these tests, one for all of them."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from .cluster import Cluster, missing


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Beside what a test that has failed says, print what Slurm and its sessions have said."""
    report = yield
    values: dict[str, object] = getattr(item, "funcargs", {})
    slurm, folder = values.get("slurm"), values.get("tmp_path")
    if report.when == "call" and report.failed and isinstance(slurm, Cluster) and isinstance(folder, Path):
        report.sections.append(("Slurm", slurm.told(folder)))
    return report


@pytest.fixture(scope="module")
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
