"""What all tests share: a state folder, a runtime folder and an environment of their own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest_plugins = ["tests.nvml_sim.fixtures", "tests.selection"]

_OUTER = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "EGL_DEVICE_ID",
    "OMP_NUM_THREADS",
    "QD_NUM_THREADS",
    "NO_COLOR",
    "COLORTERM",
)


@pytest.fixture(autouse=True)
def own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Nothing of the developer's machine is read or written: sessions, sockets, variables."""
    runtime = Path(tempfile.mkdtemp(prefix="gmg-"))  # short: a socket's path has room for 107 bytes
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    for name in _OUTER:
        monkeypatch.delenv(name, raising=False)
    yield
    shutil.rmtree(runtime, ignore_errors=True)
