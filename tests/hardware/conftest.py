"""The GPUs of this machine, a runner for gmg-tui, and the record that is written at the end."""

import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pynvml
import pytest

HOLDER = Path(__file__).with_name("holder.py")
HELD_MIB = 2048
BUSY_PCT = 90
"""The utilisation of a GPU that always has work."""
EXAMPLES = Path(__file__).parents[2] / "gmg_tui" / "examples"
TRAINING = Path(__file__).with_name("train_boxes.py")
"""Of a group of ranks."""


@dataclass
class Record:
    """What was compared: a row each of check, GPU, value of gmg-tui, reference value, and the reference's name."""

    machine: dict[str, Any]
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, check: str, gpu: str, measured: Any, reference: Any, source: str) -> None:
        """Add a comparison, with the unit in the name of the check."""
        self.rows.append({"check": check, "gpu": gpu, "gmg_tui": measured, "reference": reference, "source": source})

    def write(self, folder: Path) -> None:
        """Write `hardware.json` and the same as a table, `hardware.md`."""
        (folder / "hardware.json").write_text(json.dumps({"machine": self.machine, "checks": self.rows}, indent=1))
        lines = [f"{name}: {value}" for name, value in self.machine.items()]
        lines += ["", "| check | GPU | gmg-tui | reference | source |", "|---|---|--:|--:|---|"]
        lines += ["| " + " | ".join(str(value) for value in row.values()) + " |" for row in self.rows]
        (folder / "hardware.md").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="session")
def gpu_count() -> Iterator[int]:
    """How many GPUs NVML shows; the test is skipped without any."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        pytest.skip(f"NVML is not available: {error}")
    try:
        count = pynvml.nvmlDeviceGetCount()
        if not count:
            pytest.skip("NVML shows no GPU")
        yield count
    finally:
        pynvml.nvmlShutdown()


@pytest.fixture(scope="session")
def record(gpu_count: int) -> Iterator[Record]:
    """The record of this run, written at the end of the session."""
    first = pynvml.nvmlDeviceGetHandleByIndex(0)
    kept = Record(
        {
            "gpus": f"{gpu_count} x {pynvml.nvmlDeviceGetName(first)}",
            "driver": pynvml.nvmlSystemGetDriverVersion(),
            "python": platform.python_version(),
            "kernel": platform.release(),
        }
    )
    yield kept
    kept.write(Path.cwd())


Gmg = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def gmg(gpu_count: int, tmp_path: Path) -> Gmg:
    """Runs gmg-tui to its end; fails with its output unless it exits with 0."""

    def run(*words: str, timeout_s: float = 240.0, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "gmg_tui", *words]
        environment = {**os.environ, **variables}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=timeout_s)
        assert done.returncode == 0, f"{' '.join(words)}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    return run


@pytest.fixture
def cuda() -> None:
    """Skips the test unless torch can use CUDA."""
    torch = pytest.importorskip("torch")
    if not torch.version.cuda:
        pytest.skip("this build of torch has no CUDA")


@pytest.fixture
def smi() -> Callable[[str], list[list[str]]]:
    """Asks `nvidia-smi` for fields of all GPUs; a row for each GPU, in its order."""
    if shutil.which("nvidia-smi") is None:
        pytest.skip("nvidia-smi is not installed")

    def query(fields: str) -> list[list[str]]:
        command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
        output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
        return [[value.strip() for value in line.split(",")] for line in output.splitlines()]

    return query


@pytest.fixture
def holder(cuda: None, gpu_count: int) -> Iterator[subprocess.Popen[str]]:
    """A process that holds memory on GPU 0, and has kept it busy for long enough that the driver's counters show it."""
    environment = {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0"}
    command = [sys.executable, str(HOLDER), str(HELD_MIB)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("held")
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        while pynvml.nvmlDeviceGetUtilizationRates(handle).gpu < BUSY_PCT:  # a mean of the last second
            assert process.poll() is None
            time.sleep(0.1)
        yield process
        process.kill()
