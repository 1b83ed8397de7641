"""Where the time goes: py-spy on the interface and on the engine, under 8 slots at 20 lines a second."""

from __future__ import annotations

import collections
import shutil
import subprocess
import time
from pathlib import Path

from tests.benchmarks import usage
from tests.benchmarks.ground import Ground
from tests.benchmarks.programs import gmg, is_worker
from tests.benchmarks.report import markdown, say
from tests.benchmarks.table import MAIN
from tests.benchmarks.trial import first_frame_s, running

_RATE = 500
"""Samples a second."""
_SHOWN = 12


def run(ground: Ground, py_spy: Path | None, *, quick: bool) -> None:
    """Print the dearest functions of both processes, by themselves and with what they call."""
    tool = shutil.which(py_spy or "py-spy")
    if tool is None:
        print(f"the profiles are left out: {py_spy or 'no py-spy on PATH'} cannot be run\n")
        return
    program, seconds = gmg(), 10 if quick else 40
    with ground.gpus(MAIN.slots) as env, running(program, ground, env, MAIN) as (terminal, mark):
        first_frame_s(program, terminal, slots=MAIN.slots)
        time.sleep(3)
        parts = {part.name: pid for pid, part in usage.usage(mark, is_worker).parts.items() if part.name != "watchdog"}
        say(f"profiling {parts} for {seconds} s")
        files = {name: ground.folder / f"{name}.raw" for name in parts}
        options = ["--rate", str(_RATE), "--duration", str(seconds), "--format", "raw", "--nonblocking"]
        spies = [
            subprocess.Popen(
                [tool, "record", *options, "--pid", str(pid), "--output", str(files[name])],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for name, pid in parts.items()
        ]
        for spy in spies:
            spy.wait()
    for name, file in files.items():
        _print(name, file.read_text(), seconds)


def _print(name: str, raw: str, seconds: float) -> None:
    alone: collections.Counter[str] = collections.Counter()
    whole: collections.Counter[str] = collections.Counter()
    total = 0
    for line in raw.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = [_function(frame) for frame in stack.split(";")]
        total += int(count)
        alone[frames[-1]] += int(count)
        for frame in set(frames):
            whole[frame] += int(count)
    print(f"{name}: busy in {total} of {round(seconds * _RATE)} samples\n")
    rows = [
        [one, f"{100 * its / total:.0f} %", other, f"{100 * others / total:.0f} %"]
        for (one, its), (other, others) in zip(alone.most_common(_SHOWN), whole.most_common(_SHOWN), strict=False)
    ]
    print(markdown([f"{name}: function", "alone", "function", "with what it calls"], rows), "\n")


def _function(frame: str) -> str:
    """`name (file)`, without the line and with no more of the path than its last two parts."""
    name, _, place = frame.partition(" (")
    file = place.rstrip(")").rpartition(":")[0]
    return f"{name} ({Path(*Path(file).parts[-2:])})"
