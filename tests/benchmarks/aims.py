"""What gmg-tui may cost, and what it costs: the aims, a line each."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from tests.benchmarks.ground import Ground
from tests.benchmarks.programs import Program, gmg
from tests.benchmarks.report import markdown, say
from tests.benchmarks.table import Effort
from tests.benchmarks.trial import Case, Measurement, in_turn, measure

MANY = Case("64 slots", slots=64, settle_s=8)
UNWATCHED = Case("8 slots, nobody attached", keys="d")
_PEER = "nvitop"
_LABEL = "Textual"


def run(ground: Ground, compared: Sequence[tuple[str, Measurement]], peers: Sequence[Program], effort: Effort) -> None:
    """Print the aims. `compared` are the medians of the main case, gmg-tui's first; the rest is measured here."""
    ours = compared[0][1]
    label = next((taken for name, taken in compared if name.startswith(_LABEL)), None)
    peer = next((taken for name, taken in compared if name.startswith(_PEER)), None)
    others = [program for program in peers if program.name.startswith(_PEER)]
    rows = [
        _ratio("engine and UI together, 8 slots: CPU, nvitop's = 1", 1.0, ours.cpu_pct, peer and peer.cpu_pct, "%"),
        _ratio("the same with 64 slots", 1.0, *_many(ground, others, effort), "%"),
        _plain("engine that nobody watches, 8 slots: CPU, % of a core", 0.5, _unwatched(ground, effort), ".2f"),
        _plain("bytes to the terminal, 160×48, a second", 1500, ours.bytes_s, ",.0f"),
        _ratio("first frame, the one-label app's = 1", 1.3, ours.first_frame_s, label and label.first_frame_s, "s"),
    ]
    print(markdown(["aim", "at most", "measured", "met"], rows))


def _many(ground: Ground, others: Sequence[Program], effort: Effort) -> tuple[float, float | None]:
    """CPU with 64 slots, of gmg-tui and of the other program, if it is there."""
    with ground.gpus(MANY.slots) as env:
        runs = [lambda program=program: _cpu_pct(program, ground, env, MANY, effort) for program in (gmg(), *others)]
        ours, *theirs = (statistics.median(taken) for taken in in_turn(effort.rounds, *runs))
    return ours, theirs[0] if theirs else None


def _unwatched(ground: Ground, effort: Effort) -> float:
    with ground.gpus(UNWATCHED.slots) as env:
        (taken,) = in_turn(effort.rounds, lambda: _cpu_pct(gmg(), ground, env, UNWATCHED, effort))
    return statistics.median(taken)


def _cpu_pct(program: Program, ground: Ground, env: dict[str, str], case: Case, effort: Effort) -> float:
    taken = measure(program, ground, env, case, effort.seconds)
    say(f"{case.name}: {program.name}: {taken.parts_pct}")
    return taken.cpu_pct


def _ratio(aim: str, most: float, mine: float | None, its: float | None, unit: str) -> list[str]:
    if not mine or not its:
        return [aim, f"{most:g}", "not measured", "–"]
    return [aim, f"{most:g}", f"{mine / its:.2f} ({mine:.2f} / {its:.2f} {unit})", _met(mine / its, most)]


def _plain(aim: str, most: float, mine: float, form: str) -> list[str]:
    return [aim, f"{most:g}", f"{mine:{form}}", _met(mine, most)]


def _met(value: float, most: float) -> str:
    return "yes" if value <= most else "no"
