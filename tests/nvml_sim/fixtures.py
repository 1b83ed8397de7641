"""The fixtures that give a test a simulated NVIDIA driver."""

import uuid
from pathlib import Path

import pytest

from tests.nvml_sim import Sim, build, build_egl


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the simulated `libnvidia-ml.so.1`."""
    return build(tmp_path_factory.getbasetemp() / "libraries")


@pytest.fixture(scope="session")
def egl_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the simulated `libEGL.so.1`."""
    return build_egl(tmp_path_factory.getbasetemp() / "libraries")


@pytest.fixture
def sim(nvml_library: Path, tmp_path: Path) -> Sim:
    """Eight GPUs like H100s with distinct figures, which no other test has; start programs with `sim.env()`."""
    sim = Sim(tmp_path / "nvml_sim", nvml_library)
    for gpu in sim.gpus:
        gpu.uuid = f"GPU-{uuid.uuid4()}"
    sim.write()
    return sim
