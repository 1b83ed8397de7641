"""The simulated GPUs show the load that live processes report."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gmg_tui.machine.gpu.driver import NvmlUnavailable
from gmg_tui.simulation import SLOW_CARD, worker
from gmg_tui.simulation.driver import LIMIT_W, TOTAL_MIB, SimulatedNvml
from tests.patience import LONG_S


def _use(folder: Path, pid: int, index: int, mib: float, util_pct: float) -> None:
    (folder / str(pid)).write_text(json.dumps({"index": index, "mib": mib, "util_pct": util_pct}))


def test_a_gpu_shows_its_own_process_and_no_other_gpu_does(tmp_path: Path) -> None:
    driver = SimulatedNvml(2, tmp_path)
    idle, other = (driver.read(gpu, slow=True) for gpu in driver.gpus())
    _use(tmp_path, os.getpid(), 1, 4000.0, 90.0)
    quiet, busy = (driver.read(gpu, slow=False) for gpu in driver.gpus())
    assert quiet.memory_used_mib == idle.memory_used_mib
    assert busy.memory_used_mib == (other.memory_used_mib or 0.0) + 4000.0
    assert busy.gpu_util_pct == 90
    assert [(process.pid, process.memory_mib) for process in busy.processes or ()] == [(os.getpid(), 4000.0)]
    assert busy.power_w is not None
    assert other.power_w is not None
    assert other.power_w < busy.power_w <= LIMIT_W


def test_a_process_that_has_ended_is_forgotten(tmp_path: Path) -> None:
    driver = SimulatedNvml(1, tmp_path)
    (tmp_path / "notes").write_text("{}")
    (tmp_path / str(os.getpid())).write_text('{"index": ')
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"], stdin=pipe, stdout=pipe, bufsize=0
    ) as process:
        process.stdout.read(1)  # it runs now
        _use(tmp_path, process.pid, 0, 4000.0, 90.0)
        assert driver.read(driver.gpus()[0], slow=True).processes
        process.communicate(b"\n", timeout=LONG_S)
    assert driver.read(driver.gpus()[0], slow=True).processes == ()


def test_an_unknown_gpu_has_no_index() -> None:
    driver = SimulatedNvml(64)
    assert [driver.index_of(gpu.uuid) for gpu in driver.gpus()] == list(range(64))
    with pytest.raises(NvmlUnavailable, match="GPU-none"):
        driver.index_of("GPU-none")


def test_the_script_follows_the_measured_curve() -> None:
    measured = {30: 50_244, 300: 500_402, 3_000: 4.588e6, 15_000: 10.97e6, 18_000: 11.08e6}
    for n_envs, fps in measured.items():
        assert n_envs / worker.step_s(n_envs) == pytest.approx(fps, rel=0.02)
    for n_envs, mib in {300: 671, 3_000: 2_817, 15_000: 12_274, 18_000: 14_642}.items():
        assert worker.memory_mib(n_envs) == pytest.approx(mib, rel=0.04)


def test_the_script_and_the_driver_agree_on_the_card() -> None:
    assert (worker.SLOW_CARD, worker.CARD_MIB) == (SLOW_CARD, TOTAL_MIB)
