"""Simulated GPUs and what runs on them, to try gmg-tui without a GPU, a driver or Genesis.

`driver` replaces NVML, `worker.py` replaces a Genesis script, and `sweep.toml` queues it.
"""

from __future__ import annotations

from pathlib import Path

SCRIPT = Path(__file__).with_name("worker.py")
"""The simulated script: the standard library alone, so any interpreter runs it."""
SWEEP = Path(__file__).with_name("sweep.toml")
"""The jobs of `sweep --simulate N`."""
FOLDER = "simulation"
"""In the session's folder; a file for each worker on a card."""
VARIABLE = "SIMULATED_GPUS"
"""The environment variable that gives the workers that folder."""
SLOW_CARD = 2
"""The index of the GPU that is slower than the others, and hot."""
