"""A machine on whose GPUs CUDA fails: the sweep ends with its jobs unharmed, says why, and can go on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.nvml_sim import Sim

_BROKEN = 'import sys; sys.exit("RuntimeError: No CUDA GPUs are available")'


def _gmg(*words: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gmg_tui", "sweep", "--headless", *words]
    return subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, timeout=90, check=False)


def test_a_sweep_on_broken_gpus_ends_and_goes_on_once_they_are_mended(sim: Sim, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(_BROKEN)
    words = ["--set", "x=1,2,3,4,5,6,7,8", "--gpus", "0,1", "--name", "torn", "--script", str(script), "{x}"]
    ended = _gmg(*words, env=sim.env())
    assert ended.returncode == 1, ended
    for slot in ("gpu0", "gpu1"):
        assert f"{slot}   benched: 3 jobs in a row failed there: RuntimeError: No CUDA GPUs" in ended.stdout
    assert re.search(
        r"^no job can start: every GPU that the jobs may use is benched\n"
        r"gpu0: 3 jobs in a row failed there: .*\n"
        r"gpu1: 3 jobs in a row failed there: .*\n"
        r"mend them \(nvidia-smi, .*\), or give others with --gpus, and continue the sweep\n",
        ended.stdout,
        re.MULTILINE,
    )
    assert "8 jobs left; continue with: gmg-tui sweep --resume torn" in ended.stderr
    script.write_text("print('well')")
    again = _gmg("--resume", "torn", env=sim.env())
    assert again.returncode == 0, again
    assert "8 finished" in again.stdout
    assert "no job can start" not in again.stdout
