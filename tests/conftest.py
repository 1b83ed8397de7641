"""What all tests share: folders, an environment and signals of their own, and a check that nothing of them remains."""

import contextlib
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import settings

from gmg_tui import session as sessions
from tests.patience import LONG_S, processes_of_test

pytest_plugins = ["tests.nvml_sim.fixtures", "tests.selection"]

# How long an example takes depends on how busy the machine is.
settings.register_profile("busy machine", deadline=None)
settings.load_profile("busy machine")

_OUTER = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "EGL_DEVICE_ID",
    "MUJOCO_EGL_DEVICE_ID",
    "OMP_NUM_THREADS",
    "QD_NUM_THREADS",
    "NO_COLOR",
    "COLORTERM",
    "COLUMNS",
    "LINES",
)


def pytest_configure() -> None:
    """Restore the signals that tests send: `pytest &` in a script ignores SIGINT, `nohup` SIGHUP."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.fixture(autouse=True)
def own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Nothing of the developer's machine is read or written: sessions, sockets, settings, variables."""
    # Short, whatever TMPDIR says: a socket's path has room for 107 bytes.
    runtime = Path(tempfile.mkdtemp(prefix="gmg-", dir="/tmp"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in _OUTER:
        monkeypatch.delenv(name, raising=False)
    yield
    shutil.rmtree(runtime, ignore_errors=True)


@pytest.fixture(autouse=True)
def _patient_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clients of this process wait longer for an engine than a person would: it has little of the CPU."""
    monkeypatch.setattr("gmg_tui.session.client.ANSWER_TIMEOUT_S", LONG_S)


def _running() -> list[str]:
    return [entry.name for entry in sessions.list_sessions() if entry.runs_here]


@pytest.fixture
def nothing_is_left(own_folders: None) -> Iterator[None]:
    """After the test: no process that carries its state folder, and no session that counts as running."""
    yield
    deadline = time.monotonic() + LONG_S
    while (left := processes_of_test()) and time.monotonic() < deadline:
        psutil.wait_procs(left, timeout=0.2)
    described = []
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended just now
            described.append((process.pid, process.cmdline()))
            process.kill()
    assert described == []
    # A process that ends loses its environment before its locks.
    while (running := _running()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert running == []


@pytest.fixture
def marked(tmp_path: Path) -> Path:
    """An empty folder for what jobs write with `--marks FOLDER`."""
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder
