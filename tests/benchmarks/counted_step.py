"""What the probe adds to a step of a simulator."""

import time
from pathlib import Path

from gmg_tui.scripts.probe.site import gmg_probe
from tests.benchmarks.ground import Ground
from tests.benchmarks.report import Row

_STEPS = 2_000
"""In a run, which is so short that some of them are not interrupted by other processes."""


class _Plain:
    """Steps without doing anything, so that only the call is measured."""

    n_envs = 4096

    def step(self) -> None:
        """One step."""


class _Counted(_Plain):
    """The same under the probe."""


def run(ground: Ground, *, quick: bool) -> list[Row]:
    """The least time of a counted step less that of an uncounted one: what else runs only makes steps slower."""
    folder = Path(ground.folder, ground.mark())
    folder.mkdir()
    gmg_probe.folder = str(folder)
    _Counted.step = gmg_probe._count_step(_Plain.step, "n_envs", "simulator")  # type: ignore[method-assign, no-untyped-call]
    times_us: dict[type[_Plain], list[float]] = {_Plain: [], _Counted: []}
    for _ in range(100 if quick else 3000):
        for kind, each in times_us.items():
            each.append(_step_us(kind()))
    added_us = min(times_us[_Counted]) - min(times_us[_Plain])
    return [Row("what the probe adds to a step, µs", "< 1", f"{added_us:.2f}")]


def _step_us(simulator: _Plain) -> float:
    began = time.perf_counter()
    for _ in range(_STEPS):
        simulator.step()
    return (time.perf_counter() - began) / _STEPS * 1e6
