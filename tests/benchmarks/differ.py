"""What the terminal differ is worth: gmg-tui with and without it, in turn, on the same simulated GPUs."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from typing import NamedTuple

from tests.benchmarks.ground import HERE, Ground
from tests.benchmarks.programs import Program, gmg
from tests.benchmarks.report import markdown, say
from tests.benchmarks.trial import Case, in_turn, measure

CASES = (Case("8 slots, 160×48"), Case("8 slots, 80×24 (table)", columns=80, rows=24))
_OTHERS = ("engine", "watchdog")


class Taken(NamedTuple):
    """One measurement."""

    bytes_s: float
    ui_pct: float
    """CPU of the interface's process, % of a core."""


def without() -> Program:
    """gmg-tui without the differ."""
    program = gmg()

    def command(ground: Ground, count: int) -> list[str]:
        whole = program.command(ground, count)
        return [sys.executable, str(HERE / "without_differ.py"), *whole[3:]]

    return program._replace(name="without the differ", command=command)


def run(ground: Ground, *, quick: bool) -> None:
    """Measure and print the table."""
    lines = []
    for case in CASES:
        programs = (gmg()._replace(name="with the differ"), without())
        with ground.gpus(case.slots) as env:
            taken = in_turn(1 if quick else 3, *(_trial(program, ground, env, case, quick) for program in programs))
        lines += [[case.name, program.name, *_medians(found)] for program, found in zip(programs, taken, strict=True)]
    print(markdown(["case", "program", "bytes/s", "CPU of the UI, % of a core"], lines))
    print()


def _trial(program: Program, ground: Ground, env: dict[str, str], case: Case, quick: bool) -> Callable[[], Taken]:
    def trial() -> Taken:
        found = measure(program, ground, env, case, 5 if quick else 12)
        say(f"{case.name}, {program.name}: {found.bytes_s:,.0f} bytes/s, {found.parts_pct}")
        return Taken(found.bytes_s, sum(pct for name, pct in found.parts_pct.items() if name not in _OTHERS))

    return trial


def _medians(taken: list[Taken]) -> list[str]:
    bytes_s, ui_pct = (statistics.median(values) for values in zip(*taken, strict=True))
    return [f"{bytes_s:,.0f}", f"{ui_pct:.2f}"]
