"""Run tests in a process of their own that loads the simulated driver as any program loads the real one.

The dynamic linker reads `LD_LIBRARY_PATH` when a process starts, so `pynvml` can find the simulated library only in a
process that was started with it.
"""

import functools
import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.nvml_sim import Sim
from tests.patience import LONG_S

ROOT = Path(__file__).parents[2]


def on_simulated_driver(test: Callable[[Sim], None]) -> Callable[[Sim], None]:
    """Make a test's body run in a process that finds the GPUs of its fixture `sim`."""

    @functools.wraps(test)
    def run(sim: Sim) -> None:
        command = [sys.executable, "-m", "tests.nvml_sim.child", test.__module__, test.__name__]
        command += [str(sim.state.parent), str(sim.library)]
        environment = {**os.environ, **sim.env()}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LONG_S)
        assert done.returncode == 0, f"in the process with the simulated driver:\n{done.stdout}{done.stderr}"

    return run


def main(module: str, test: str, folder: str, library: str) -> None:
    """Run the body of `test` with the GPUs in `folder`."""
    body = getattr(importlib.import_module(module), test).__wrapped__
    body(Sim(Path(folder), Path(library)))


if __name__ == "__main__":
    main(*sys.argv[1:])
