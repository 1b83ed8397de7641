"""The worker's own speed: under gmg-tui, the same with a terminal that has stalled, and with nobody reading."""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks import usage
from tests.benchmarks.ground import HERE, ROOT, Ground
from tests.benchmarks.report import markdown, say
from tests.pseudo_terminal import PseudoTerminal

_PATIENCE_S = 180.0
_ROUNDS = 8
"""How often each way is measured; the second least and the second greatest of so many ratios hold the median between
them in 93 of 100 cases."""
_KEYS_TO_STALL = 40
"""Each draws the whole screen anew: more than a terminal and Textual's queue (30 writes) hold."""

Way = Callable[[Ground, Sequence[str]], None]
"""Runs a worker's command line to its end."""


class Work(NamedTuple):
    """A worker that says in a file how long it took."""

    name: str
    command: Callable[[Path, Path], list[str]]
    """From the file for its seconds and the file that it waits for."""
    ways: Sequence[str]


def run(ground: Ground, *, quick: bool) -> None:
    """Measure and print the table."""
    rows = []
    for work in _works(quick=quick):
        took = _rounds(ground, work, 2 if quick else _ROUNDS)
        null = took["to /dev/null"]
        for way in work.ways:
            ratios = sorted(ours / its for ours, its in zip(null, took[way], strict=True))
            inner = ratios[1:-1] if len(ratios) > 2 else ratios
            spread = f"{inner[0]:.3f} to {inner[-1]:.3f}" if way != "to /dev/null" else ""
            rows.append(
                [work.name, way, f"{statistics.median(took[way]):.3g}", f"{statistics.median(ratios):.3f}", spread]
            )
    head = [
        "worker",
        "its output",
        "seconds (median)",
        "speed, /dev/null = 1 (median)",
        "without the least and greatest",
    ]
    print(markdown(head, rows), "\n")
    if importlib.util.find_spec("genesis") is None:
        print("the Genesis worker is left out: this Python has no Genesis\n")


def _rounds(ground: Ground, work: Work, count: int) -> dict[str, list[float]]:
    """The seconds of each way in each of `count` rounds: A B C, then C B A, so that a machine that grows slower or
    faster from one minute to the next does so for all of them alike."""
    took: dict[str, list[float]] = {way: [] for way in work.ways}
    for number in range(-1, count):  # the round before the first warms the caches
        for way in work.ways if number % 2 else reversed(work.ways):
            seconds = _took(ground, work, _WAYS[way])
            say(f"{work.name}, {way}: {seconds:.6f} s")
            if number >= 0:
                took[way].append(seconds)
    return took


def _works(*, quick: bool) -> list[Work]:
    printed = "200000" if quick else "1000000"

    def printing(took: Path, go: Path) -> list[str]:
        return [str(HERE / "printer.py"), "--lines", printed, "--took", str(took), "--wait", str(go)]

    def simulating(took: Path, _: Path) -> list[str]:
        script = str(ROOT / "gmg_tui" / "examples" / "light.py")
        return [str(HERE / "steps.py"), str(took), script, "-B", "16", "--steps", "2000" if quick else "8000"]

    works = [Work("a loop that only prints", printing, tuple(_WAYS))]
    if importlib.util.find_spec("genesis") is not None:
        ways = tuple(way for way in _WAYS if way != "to a pipe into cat")
        works.insert(0, Work("Genesis (light.py, 16 environments, CPU)", simulating, ways))
    return works


def _took(ground: Ground, work: Work, way: Way) -> float:
    name = ground.mark()
    took, go = ground.folder / f"{name}.took", ground.folder / f"{name}.go"
    way(ground, work.command(took, go))
    return float(took.read_text())


def _env(ground: Ground) -> dict[str, str]:
    """The same for all ways: what gmg-tui sets for a worker that has all cores."""
    threads = str(os.cpu_count())
    settings = {"PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1", "PYTHONUTF8": "1", "CUDA_VISIBLE_DEVICES": ""}
    return ground.env() | settings | {"OMP_NUM_THREADS": threads, "QD_NUM_THREADS": threads}


def _to_null(ground: Ground, command: Sequence[str]) -> None:
    _release(command)
    subprocess.run([sys.executable, *command], env=_env(ground), stdout=subprocess.DEVNULL, check=True, cwd=ROOT)


def _to_cat(ground: Ground, command: Sequence[str]) -> None:
    _release(command)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as cat:
        subprocess.run([sys.executable, *command], env=_env(ground), stdout=cat.stdin, check=True, cwd=ROOT)


def _under_gmg(ground: Ground, command: Sequence[str], *, stalled: bool = False) -> None:
    mark = ground.mark()
    full = [sys.executable, "-m", "gmg_tui", "--cpu", "1", "--start", "together", "--name", mark, *command]
    record = ground.folder / "state" / "gmg-tui" / "sessions" / mark / "summary.json"
    env = _env(ground) | {usage.MARK: mark}
    with PseudoTerminal(full, columns=160, rows=48, env=env, cwd=str(ROOT)) as terminal:
        try:
            terminal.wait_for(lambda text: "cpu0" in text, timeout_s=20)
            if stalled:
                _stall(terminal)
            _release(command)
            deadline = time.monotonic() + _PATIENCE_S
            while not _ended(command):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the worker did not end in {_PATIENCE_S:.0f} s; see {record.parent}")
                time.sleep(0.1)
        finally:
            usage.end(mark)


def _stall(terminal: PseudoTerminal) -> None:
    """Stop reading, and let the program write until it cannot."""
    terminal.stall()
    terminal.press("t" * _KEYS_TO_STALL)
    time.sleep(1)


def _release(command: Sequence[str]) -> None:
    """Let a worker that waits for a file begin."""
    if "--wait" in command:
        Path(command[command.index("--wait") + 1]).touch()


def _ended(command: Sequence[str]) -> bool:
    took = command[command.index("--took") + 1] if "--took" in command else command[1]
    return Path(took).exists()


_WAYS: dict[str, Way] = {
    "to /dev/null": _to_null,
    "under gmg-tui": _under_gmg,
    "under gmg-tui, terminal stalled": lambda ground, command: _under_gmg(ground, command, stalled=True),
    "to a pipe into cat": _to_cat,
}
