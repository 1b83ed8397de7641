"""A worker's own speed: under gmg-tui, under it with a stalled terminal, and with its output sent to /dev/null."""

import importlib.util
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.benchmarks import usage
from tests.benchmarks.ground import HERE, ROOT, Ground
from tests.benchmarks.report import Row, progress
from tests.pseudo_terminal import PseudoTerminal

_PATIENCE_S = 180.0
_ROUNDS = 8
"""The median lies between the second least and the second greatest of 8 ratios in 93 of 100 cases."""
_KEYS_TO_STALL = 40
"""Each draws the whole screen anew: more than a terminal and Textual's queue (30 writes) hold."""


def run(ground: Ground, *, quick: bool) -> list[Row]:
    """The speed of `light.py` under gmg-tui, whose probe counts its steps, against its speed into /dev/null."""
    what = "a worker's own speed (light.py, CPU), /dev/null = 1"
    if importlib.util.find_spec("genesis") is None:
        return [Row(what, "≥ 0.99", "not measured: no Genesis")]
    took = _rounds(ground, quick=quick)
    rows = []
    for name in (_SHOWN, _STALLED):
        ratios = sorted(null / ours for null, ours in zip(took[_NULL], took[name], strict=True))
        inner = ratios[1:-1] if len(ratios) > 2 else ratios
        figure = f"{statistics.median(ratios):.3f} ({inner[0]:.3f} to {inner[-1]:.3f})"
        rows.append(Row(f"{what}, {name}", "≥ 0.99", figure))
    return rows


def _rounds(ground: Ground, *, quick: bool) -> dict[str, list[float]]:
    """The seconds of each way in each round: A B C, then C B A, so that a drift of the machine meets all of them."""
    took: dict[str, list[float]] = {name: [] for name in _WAYS}
    for number in range(-1, 2 if quick else _ROUNDS):  # the round before the first warms the caches
        for name in _WAYS if number % 2 else reversed(_WAYS):
            file = ground.folder / f"{ground.mark()}.took"
            script = str(ROOT / "gmg_tui" / "examples" / "light.py")
            command = [str(HERE / "steps.py"), str(file), script, "-B", "16", "--steps", "2000" if quick else "8000"]
            _WAYS[name](ground, command)
            progress(f"light.py, {name}: {float(file.read_text()):.6f} s a step")
            if number >= 0:
                took[name].append(float(file.read_text()))
    return took


def _env(ground: Ground) -> dict[str, str]:
    """The same for all ways: what gmg-tui sets for a worker that has all cores."""
    threads = str(os.cpu_count())
    settings = {"PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1", "PYTHONUTF8": "1", "CUDA_VISIBLE_DEVICES": ""}
    return ground.env() | settings | {"OMP_NUM_THREADS": threads, "QD_NUM_THREADS": threads}


def _to_null(ground: Ground, command: Sequence[str]) -> None:
    subprocess.run([sys.executable, *command], env=_env(ground), stdout=subprocess.DEVNULL, check=True, cwd=ROOT)


def _under_gmg(ground: Ground, command: Sequence[str], *, stalled: bool = False) -> None:
    mark = ground.mark()
    full = [sys.executable, "-m", "gmg_tui", "--cpu", "1", "--start", "together", "--name", mark, *command]
    record = ground.folder / "state" / "gmg-tui" / "sessions" / mark / "summary.json"
    env = _env(ground) | {usage.MARK: mark}
    with PseudoTerminal(full, columns=160, rows=48, env=env, cwd=str(ROOT)) as terminal:
        try:
            terminal.wait_for(lambda text: "cpu0" in text, timeout_s=20)
            if stalled:
                terminal.stall()
                terminal.press("t" * _KEYS_TO_STALL)
            deadline = time.monotonic() + _PATIENCE_S
            while not Path(command[1]).exists():
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the worker did not end in {_PATIENCE_S:.0f} s; see {record.parent}")
                time.sleep(0.1)
        finally:
            usage.end(mark)


_NULL, _SHOWN, _STALLED = "to /dev/null", "under gmg-tui", "under gmg-tui with a stalled terminal"
_WAYS: dict[str, Callable[[Ground, Sequence[str]], None]] = {
    _NULL: _to_null,
    _SHOWN: _under_gmg,
    _STALLED: lambda ground, command: _under_gmg(ground, command, stalled=True),
}
