"""Simulated GPUs and a simulated script, to try gmg-tui without a GPU, a driver or Genesis.

`driver` replaces NVML, `worker.py` a Genesis script, and `sweep.toml` queues that script.
"""

from __future__ import annotations

from pathlib import Path

SCRIPT = Path(__file__).with_name("worker.py")
"""The simulated script, which needs the standard library only."""
SWEEP = Path(__file__).with_name("sweep.toml")
"""The jobs of `sweep --simulate N`."""
FOLDER = "simulation"
"""Subfolder of the session's folder, with a file for each worker on a simulated GPU."""
VARIABLE = "SIMULATED_GPUS"
"""Environment variable with the path of that folder."""
SLOW_CARD = 2
"""Index of the GPU that is slow and hot."""
