"""The comparison: all programs in turn, and gmg-tui in all its cases."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tests.benchmarks.ground import Ground
from tests.benchmarks.programs import Program, gmg, label
from tests.benchmarks.report import markdown, say
from tests.benchmarks.trial import Case, Figures, measure, start

MAIN = Case("8 slots, 160×48")
CASES = (
    Case("1 slot", slots=1),
    Case("64 slots", slots=64, settle_s=8),
    Case("80×24 (table)", columns=80, rows=24),
    Case("200×60", columns=200, rows=60),
    Case("table on 160×48", keys="t"),
    Case("log held", keys="f"),
)
"""Of gmg-tui. The log pane cannot be closed; held, it draws nothing."""
IDLE = Case("idle: nothing changes but clocks", living=False, settle_s=45)
_ONE_LINE_IN_A_DAY = "0.00001"


class Effort(NamedTuple):
    """How thoroughly is measured."""

    rounds: int
    starts: int
    seconds: float


FULL, QUICK = Effort(rounds=3, starts=9, seconds=12), Effort(rounds=1, starts=1, seconds=5)


def compare(ground: Ground, peers: Sequence[Program], effort: Effort) -> list[tuple[str, Figures]]:
    """gmg-tui beside its peers in the main case; the medians, gmg-tui's first."""
    programs = (gmg(), label(), *peers)
    with ground.cards(MAIN.slots) as env:
        starts = _by_program(
            (program.name, start(program, ground, env, MAIN)) for _ in range(effort.starts) for program in programs
        )
        figures = _by_program(
            (program.name, measure(program, ground, env, MAIN, effort.seconds))
            for _ in range(effort.rounds)
            for program in programs
        )
    return [(name, _median(taken, starts[name])) for name, taken in figures.items()]


def cases(ground: Ground, peers: Sequence[Program], effort: Effort) -> list[tuple[str, str, Figures]]:
    """gmg-tui in its cases, and the peers with other numbers of slots: case, program, figures."""
    found = []
    for case in (*CASES, IDLE):
        program = gmg() if case.living else gmg(_ONE_LINE_IN_A_DAY)
        with ground.cards(case.slots, living=case.living) as env:
            for one in (program, *(peers if case.slots != MAIN.slots else ())):
                say(f"{case.name}: {one.name}")
                found.append((case.name, one.name, measure(one, ground, env, case, effort.seconds)))
    return found


def print_comparison(rows: Sequence[tuple[str, Figures]]) -> None:
    """The main case, each figure also as a ratio of gmg-tui's to it."""
    ours = rows[0][1]
    head = ["8 slots, 160×48", "CPU, % of a core", "bytes/s", "first frame, s", "memory, MiB PSS (RSS)"]
    lines = []
    for name, figures in rows:
        pairs = [
            (f"{figures.cpu_pct:.2f}", ours.cpu_pct, figures.cpu_pct),
            (f"{figures.bytes_s:,.0f}", ours.bytes_s, figures.bytes_s),
            (_seconds(figures.first_frame_s), ours.first_frame_s, figures.first_frame_s),
            (f"{figures.pss_mib:.0f} ({figures.rss_mib:.0f})", ours.pss_mib, figures.pss_mib),
        ]
        lines.append([name, *(text + ("" if figures is ours else _ratio(mine, its)) for text, mine, its in pairs)])
    print(markdown(head, lines))
    print("\nIn brackets after ×: gmg-tui's figure divided by that program's.\n")
    print("gmg-tui's CPU by process: " + _parts(ours))


def print_cases(rows: Sequence[tuple[str, str, Figures]]) -> None:
    """All other cases."""
    head = ["case", "program", "CPU, % of a core", "bytes/s", "first frame, s", "memory, MiB PSS (RSS)"]
    lines = [
        [
            case,
            name,
            f"{figures.cpu_pct:.2f}",
            f"{figures.bytes_s:,.0f}",
            _seconds(figures.first_frame_s),
            f"{figures.pss_mib:.0f} ({figures.rss_mib:.0f})",
        ]
        for case, name, figures in rows
    ]
    print(markdown(head, lines))
    idle = next(figures for case, _, figures in rows if case == IDLE.name)
    print(f"\nIdle: {idle.others} characters beside the clocks changed. By process: {_parts(idle)}")


def _by_program(pairs: Iterable[tuple[str, object]]) -> dict[str, list[object]]:
    taken: dict[str, list[object]] = {}
    for name, figures in pairs:
        say(f"{name}: {figures}")
        taken.setdefault(name, []).append(figures)
    return taken


def _median(taken: Sequence[Figures], starts: Sequence[float | None]) -> Figures:
    firsts = [first for first in (*starts, *(figures.first_frame_s for figures in taken)) if first is not None]
    return Figures(
        cpu_pct=statistics.median(figures.cpu_pct for figures in taken),
        parts_pct={
            name: statistics.median(figures.parts_pct.get(name, 0.0) for figures in taken)
            for name in taken[0].parts_pct
        },
        bytes_s=statistics.median(figures.bytes_s for figures in taken),
        first_frame_s=statistics.median(firsts) if firsts else None,
        pss_mib=statistics.median(figures.pss_mib for figures in taken),
        rss_mib=statistics.median(figures.rss_mib for figures in taken),
        others=max(figures.others for figures in taken),
    )


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.2f}"


def _ratio(mine: float | None, its: float | None) -> str:
    return f" (×{mine / its:.2f})" if mine and its else ""


def _parts(figures: Figures) -> str:
    return ", ".join(f"{name} {pct:.2f} %" for name, pct in figures.parts_pct.items())
